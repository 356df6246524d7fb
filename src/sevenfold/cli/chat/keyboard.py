"""What each key does.

Whether a key was meant for the question that has just come up, or for the message somebody was writing.

Who types fast would otherwise permit a command with the "y" of a word that was on its way.

Large pastes: a few words stand for them in the input line until the message is sent.

What was typed, kept across sessions for its owner's eyes: one JSON string a line, secrets masked.

It is a convenience. That it cannot be read or written is no reason not to send what was typed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.key_binding.key_bindings import KeyBindingsBase

from sevenfold.cli.chat.questions import PAGE
from sevenfold.cli.text import plural
from sevenfold.record.redact import mask

if TYPE_CHECKING:
    from sevenfold.cli.chat.inline import Inline


# -- keys


def bindings(app: Inline) -> KeyBindingsBase:
    """All keys of the app."""
    return merge_key_bindings([_always(app), _typing(app), _leaping(app), _choosing(app)])


def _always(app: Inline) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def stop(event: KeyPressEvent) -> None:
        """Interrupt, throw away what is typed, or, the second time in a row, leave."""
        if app.asking is not None or (app.busy and not app.stopping):
            app.interrupt()
        elif app.parts.typed.text:
            app.parts.typed.reset(append_to_history=True)
        elif app.pressed_twice():
            app.leave()

    @keys.add("c-o")
    def open_last(event: KeyPressEvent) -> None:
        """Show the last folded line in full."""
        if app.driver is not None:
            app.driver.command("/show")

    @keys.add("c-l")
    def clean(event: KeyPressEvent) -> None:
        """An empty screen."""
        event.app.renderer.clear()

    @keys.add("c-z")
    def suspend(event: KeyPressEvent) -> None:
        """Back to the shell for a while."""
        event.app.suspend_to_background()

    return keys


def _typing(app: Inline) -> KeyBindings:
    keys = KeyBindings()
    free = Condition(lambda: app.asking is None)
    typed = free & Condition(lambda: app.parts.layout.has_focus(app.parts.typed))
    empty = Condition(lambda: not app.parts.typed.text)

    @keys.add("enter", filter=typed)
    def enter(event: KeyPressEvent) -> None:
        """Send; behind a backslash, a new line."""
        buffer = app.parts.typed
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
            return
        text = buffer.text
        buffer.reset(append_to_history=bool(text.strip()))
        app.submit(app.pastes.whole(text))

    @keys.add("<bracketed-paste>", filter=typed)
    def paste(event: KeyPressEvent) -> None:
        """What was pasted; a few words for it where it is much."""
        app.parts.typed.insert_text(app.pastes.taken(event.data))

    @keys.add("escape", "enter", filter=typed)
    @keys.add("c-j", filter=typed)
    def newline(event: KeyPressEvent) -> None:
        """A new line."""
        app.parts.typed.newline(copy_margin=False)

    @keys.add("escape", filter=free)
    def escape(event: KeyPressEvent) -> None:
        """Interrupt, or close the list of completions."""
        if app.parts.typed.complete_state:
            app.parts.typed.cancel_completion()
        elif app.busy:
            app.interrupt()

    @keys.add("escape", "escape", filter=free)
    def twice(event: KeyPressEvent) -> None:
        """Rewind; while it works, interrupt."""
        if app.busy:
            app.interrupt()
        elif not app.parts.typed.text and app.driver is not None:
            app.driver.command("/rewind")

    @keys.add("c-d", filter=typed & empty)
    def end(event: KeyPressEvent) -> None:
        """Leave."""
        app.leave()

    @keys.add("s-tab", filter=free)
    def mode(event: KeyPressEvent) -> None:
        """The next mode."""
        if app.driver is not None:
            app.driver.next_mode()

    return keys


def _choosing(app: Inline) -> KeyBindings:
    keys = KeyBindings()
    choosing = Condition(lambda: app.asking is not None and not app.asking.writing)
    writing = Condition(lambda: app.asking is not None and app.asking.writing)

    @keys.add("up", filter=choosing)
    @keys.add("down", filter=choosing)
    @keys.add("space", filter=choosing)
    @keys.add("enter", filter=choosing)
    def move(event: KeyPressEvent) -> None:
        """Move the pointer, tick, or take what it points to."""
        asking = app.asking
        if asking is None or app.meant_for_the_draft(event.data):
            return
        match event.key_sequence[0].key:
            case "up":
                app.moved(asking.moved(-1))
            case "down":
                app.moved(asking.moved(1))
            case " ":
                app.moved(asking.ticking())
            case _:
                app.moved(asking.entered())

    @keys.add("<any>", filter=choosing)
    def letter(event: KeyPressEvent) -> None:
        """A letter or a number chooses."""
        if app.asking is not None and not app.meant_for_the_draft(event.data):
            app.moved(app.asking.pressed(event.data.lower()))

    @keys.add("enter", filter=writing)
    def send(event: KeyPressEvent) -> None:
        """The answer is complete."""
        if app.asking is not None:
            app.moved(app.asking.entered(app.parts.remark.text))

    @keys.add("escape", filter=choosing | writing)
    def back(event: KeyPressEvent) -> None:
        """Back to the choices, or no answer at all."""
        asking = app.asking
        if asking is not None and asking.writing and asking.question.choices:
            app.moved(asking.back())
        else:
            app.answer(None)

    return keys


def _leaping(app: Inline) -> KeyBindings:
    keys = KeyBindings()
    choosing = Condition(lambda: app.asking is not None and not app.asking.writing)

    @keys.add("pageup", filter=choosing)
    @keys.add("pagedown", filter=choosing)
    @keys.add("home", filter=choosing)
    @keys.add("end", filter=choosing)
    def leap(event: KeyPressEvent) -> None:
        """Move the pointer far."""
        asking = app.asking
        if asking is None:
            return
        count = len(asking.question.choices)
        match event.key_sequence[0].key:
            case "pageup":
                app.moved(asking.leapt(-PAGE))
            case "pagedown":
                app.moved(asking.leapt(PAGE))
            case "home":
                app.moved(asking.leapt(-count))
            case _:
                app.moved(asking.leapt(count))

    return keys


# -- momentum


PAUSE = 0.8
"""Seconds without a key after which somebody who was typing is taken to have seen the question."""


class Momentum:
    """Follows when keys came."""

    def __init__(self) -> None:
        self._typed = self._guarded = float("-inf")

    def typed(self, now: float) -> None:
        """Something was written into the message."""
        self._typed = now

    def asked(self, now: float, draft: str) -> None:
        """A question came up while this was in the message."""
        if draft and now - self._typed < PAUSE:
            self._guarded = now + PAUSE

    def carries(self, now: float) -> bool:
        """Is a key that comes now still part of the message?"""
        if now > self._guarded:
            return False
        self._guarded = now + PAUSE
        return True


# -- pastes


MOST_LINES = 20
MOST_CHARACTERS = 2_000
"""What has more than either is not shown where the user types."""
_STAND_IN = re.compile(r"\[paste (\d+): [\d,]+ (?:lines?|characters)\]")


class Pastes:
    """What was pasted in this run, by number."""

    def __init__(self) -> None:
        self._kept: list[str] = []

    def taken(self, text: str) -> str:
        """What to put into the input line for a paste."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        self._kept.append(text)
        size = plural(lines, "line") if lines > 1 else f"{len(text):,} characters"
        return f"[paste {len(self._kept)}: {size}]"

    def whole(self, text: str) -> str:
        """The message with every paste in its place."""
        return _STAND_IN.sub(self._pasted, text)

    def _pasted(self, match: re.Match[str]) -> str:
        place = int(match[1]) - 1
        return self._kept[place] if place < len(self._kept) else match[0]


# -- input_history


MOST_READ = 1024 * 1024
"""Bytes of the file that are read, its newest."""


class TypedHistory(History):
    """The history in a file, made when something is typed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """All that can be read, the newest first."""
        return [words for line in reversed(self._lines()) if (words := _words(line))]

    def store_string(self, string: str) -> None:
        """Keep what was typed, without the secrets in it."""
        line = msgspec.json.encode(mask(string).text.encode(errors="replace").decode()) + b"\n"
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(line)

    def _lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_READ))
                return file.read().splitlines()
        except OSError:
            return []


def _words(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=str)
    except msgspec.MsgspecError:
        return ""
