"""The keyboard of the inline app: key bindings, large pastes, and the input history."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

import msgspec
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from sevenfold.cli.chat.menu import PAGE, MenuAnswer, MenuState
from sevenfold.cli.text import plural
from sevenfold.record.authorship import PASTED, UserPrompt
from sevenfold.record.redact import mask
from sevenfold.stores.files import private_parent

if TYPE_CHECKING:
    from sevenfold.cli.chat.inline import InlineScreen


Step = Callable[[MenuState], MenuState | MenuAnswer]
"""What a key does to a menu: returns the next state, or the answer."""


def bindings(app: InlineScreen) -> KeyBindings:
    """All key bindings of the app."""
    keys = KeyBindings()
    for bind in (_bind_always, _bind_typing, _bind_choosing):
        bind(app, keys)
    return keys


def _bind_always(app: InlineScreen, keys: KeyBindings) -> None:

    @keys.add("c-c")
    @keys.add("<sigint>")
    def stop(event: KeyPressEvent) -> None:
        """Interrupt, or discard the input, or, at the second press in a row, end the app."""
        if app.asking is not None or (app.busy and not app.stopping):
            app.interrupt()
        elif app.typed.text:
            app.typed.reset(append_to_history=True)
        elif app.pressed_twice():
            app.leave()

    keys.add("c-o")(lambda event: app.command("/show"))
    keys.add("c-t")(lambda event: app.command("/transcript"))
    keys.add("c-l")(lambda event: event.app.renderer.clear())
    keys.add("c-z")(lambda event: event.app.suspend_to_background())


def _bind_typing(app: InlineScreen, keys: KeyBindings) -> None:
    free = Condition(lambda: app.asking is None)
    typed = free & Condition(lambda: app.layout.has_focus(app.typed))
    empty = Condition(lambda: not app.typed.text)

    @keys.add("enter", filter=typed)
    def enter(event: KeyPressEvent) -> None:
        """Send; after a backslash, start a new line."""
        if app.typed.document.text_before_cursor.endswith("\\"):
            app.typed.delete_before_cursor()
            app.typed.newline(copy_margin=False)
            return
        text = app.typed.text
        prompt = app.pastes.prompt(text)  # before the input is emptied, and with it what is known of it
        app.typed.reset(append_to_history=bool(text.strip()))
        app.submit(prompt)

    @keys.add("escape", "enter", filter=typed)
    @keys.add("c-j", filter=typed)
    def newline(event: KeyPressEvent) -> None:
        app.typed.newline(copy_margin=False)

    @keys.add("escape", filter=free)
    def escape(event: KeyPressEvent) -> None:
        """Close the completion menu, or interrupt."""
        if app.typed.complete_state:
            app.typed.cancel_completion()
        elif app.busy:
            app.interrupt()

    @keys.add("escape", "escape", filter=free)
    def escape_twice(event: KeyPressEvent) -> None:
        """Interrupt if something is running; else, if the input is empty, rewind."""
        if app.busy:
            app.interrupt()
        elif not app.typed.text:
            app.command("/rewind")

    @keys.add("<bracketed-paste>", filter=typed)
    def paste(event: KeyPressEvent) -> None:
        if mention := picture_mention(event.data):
            app.typed.insert_text(mention)
            return
        folded = app.pastes.fold(event.data)
        place = app.typed.cursor_position
        app.typed.insert_text(folded)
        app.pastes.pasted(app.typed.text, place, len(folded))

    suggested = typed & empty & Condition(lambda: bool(app.suggested))
    for key in ("tab", "right"):
        keys.add(key, filter=suggested)(lambda event: app.typed.insert_text(app.suggested))
    # Only in an empty input: elsewhere the key moves the cursor, or brings back what was sent before.
    queued = typed & empty & Condition(lambda: app.has_queued)
    keys.add("up", filter=queued)(lambda event: app.edit_queued())
    keys.add("c-d", filter=typed & empty)(lambda event: app.leave())
    keys.add("s-tab", filter=free)(lambda event: app.next_mode())


def _bind_choosing(app: InlineScreen, keys: KeyBindings) -> None:
    choosing = Condition(lambda: app.asking is not None and not app.asking.writing)
    writing = Condition(lambda: app.asking is not None and app.asking.writing)

    def bind(key: str, step: Step, *, typed: bool = False) -> None:
        """Bind a key to a step; with ``typed``, the key goes to the message instead if the user is still typing it."""

        @keys.add(key, filter=choosing)
        def take(event: KeyPressEvent) -> None:
            if app.asking is not None and not (typed and app.belongs_to_draft(event.data)):
                app.advance(step(app.asking))

    bind("up", lambda state: state.move(-1), typed=True)
    bind("down", lambda state: state.move(1), typed=True)
    bind("space", lambda state: state.press(" ") if state.menu.filtered else state.toggle(), typed=True)
    bind("enter", lambda state: state.enter(), typed=True)
    bind("pageup", lambda state: state.jump(-PAGE))
    bind("pagedown", lambda state: state.jump(PAGE))
    bind("home", lambda state: state.jump(-sys.maxsize))
    bind("end", lambda state: state.jump(sys.maxsize))
    bind("backspace", lambda state: state.filter_by(state.filter_text[:-1]))

    @keys.add("<any>", filter=choosing)
    def letter(event: KeyPressEvent) -> None:
        state = app.asking
        if state is None or app.belongs_to_draft(event.data):
            return
        if (pressed := state.press(event.data.lower())) is state:
            # The key answers nothing, so it starts a message, whose other letters and Enter must not answer either.
            app.begin_draft(event.data)
        else:
            app.advance(pressed)

    @keys.add("enter", filter=writing)
    def send(event: KeyPressEvent) -> None:
        if app.asking is not None:
            app.advance(app.asking.enter(app.remark.text))

    @keys.add("escape", filter=choosing | writing)
    def back(event: KeyPressEvent) -> None:
        """Return to the items, or clear the filter, or close the menu without an answer."""
        state = app.asking
        if state is not None and state.writing and state.menu.items:
            app.advance(state.back())
        elif state is not None and state.filter_text:
            app.advance(state.filter_by(""))
        else:
            app.answer(None)


class TypingGuard:
    """Decides whether a key is meant for a menu that has just appeared or for the message being typed.

    Otherwise a fast typist could permit a command with the "y" of a word.
    """

    PAUSE = 0.8
    """Seconds without a key after which the user is assumed to have seen the menu."""

    def __init__(self) -> None:
        self._typed = self._guarded = float("-inf")

    def typed(self, now: float) -> None:
        """Note that something was typed into the message."""
        self._typed = now

    def asked(self, now: float, draft: str) -> None:
        """Note that a menu appeared while the message had this text."""
        if draft and now - self._typed < self.PAUSE:
            self._guarded = now + self.PAUSE

    def begin(self, now: float) -> None:
        """Note that the user has started a message while a menu is open."""
        self._guarded = now + self.PAUSE

    def guards(self, now: float) -> bool:
        """Whether a key pressed now still belongs to the message; if so, the pause starts over."""
        if now > self._guarded:
            return False
        self._guarded = now + self.PAUSE
        return True


# -- pastes ----------------------------------------------------------------------------------

MOST_LINES = 20
MOST_CHARACTERS = 2_000
"""A paste with more lines or characters than this is replaced by a placeholder in the input."""
_PLACEHOLDER = re.compile(r"\[paste (\d+): [\d,]+ (?:lines?|characters)\]")


Span: TypeAlias = tuple[int, int]
"""A part of a text: where it begins, and where it ends."""


class Pastes:
    """What was pasted into the input: the record of a message says which of it was not typed.

    Large pastes are replaced by a short placeholder in the input until the message is sent. Smaller ones can be edited;
    what is typed inside one counts as pasted.
    """

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._text = ""
        """The input as last seen."""
        self._spans: list[Span] = []
        """The pasted parts of it."""
        self._sent: dict[str, list[Span]] = {}
        """The pasted parts of inputs sent before, which the history brings back."""

    def pasted(self, text: str, position: int, length: int) -> None:
        """Record that this part of the input, which is ``text`` now, was pasted."""
        self.changed(text)
        self._spans = _joined([*self._spans, (position, position + length)])

    def changed(self, text: str) -> None:
        """Follow a change of the input: work out what was replaced, and move the pasted parts."""
        if text == self._text:
            return
        known = self._sent.get(text)
        self._spans = _moved(self._spans, self._text, text) if known is None else known
        self._text = text

    def prompt(self, text: str) -> UserPrompt:
        """The input as a message, with every placeholder replaced by its paste; the next input begins empty."""
        if text != self._text and text not in self._sent:
            self.changed(text)
        spans = self._sent.get(text, []) if text != self._text else self._spans
        self._sent[text] = spans
        self._text = ""
        self._spans = []
        folded = [match.span() for match in _PLACEHOLDER.finditer(text) if self._paste(match) != match[0]]
        spans = _joined([*spans, *folded])
        if not spans:
            return UserPrompt(text)
        typed = [text[start:end] for start, end in _between(spans, len(text))]
        return UserPrompt(
            self.expand(text), "pasted", PASTED.join(typed) if any(map(str.strip, typed)) else None
        )

    def fold(self, text: str) -> str:
        """The text to insert for a paste: the paste itself, or a placeholder if it is large."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        self._kept.append(text)
        size = plural(lines, "line") if lines > 1 else f"{len(text):,} characters"
        return f"[paste {len(self._kept)}: {size}]"

    def expand(self, text: str) -> str:
        """The message with every placeholder replaced by its paste."""
        return _PLACEHOLDER.sub(self._paste, text)

    def _paste(self, match: re.Match[str]) -> str:
        number = int(match[1])
        return self._kept[number - 1] if number <= len(self._kept) else match[0]


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, with those that touch made one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        elif end > start:
            joined.append((start, end))
    return joined


def _between(spans: Iterable[Span], length: int) -> Iterator[Span]:
    """The parts of a text of this length before, between and behind these spans."""
    previous_end = 0
    for start, end in spans:
        yield previous_end, start
        previous_end = end
    yield previous_end, length


def _alike(before: str, after: str) -> int:
    """How many characters the two texts begin with in common."""
    length = min(len(before), len(after))
    return next((index for index in range(length) if before[index] != after[index]), length)


def _moved(spans: Iterable[Span], before: str, after: str) -> list[Span]:
    """The spans after a change of the text in one place; what was put inside a span becomes part of it."""
    start = _alike(before, after)
    # The common end must not overlap the common beginning: "aa" that became "aaa" has a change of one character.
    rest = min(len(before), len(after)) - start
    common_end = _alike(before[::-1][:rest], after[::-1][:rest])
    end = len(before) - common_end
    grown = len(after) - len(before)
    moved: list[Span] = []
    for first, last in spans:
        if last <= start:
            moved.append((first, last))
        elif first >= end:
            moved.append((first + grown, last + grown))
        elif first < start or end < last:
            # The change touches this paste: what is left of it, and what was put inside it, stay one.
            moved.append((min(first, start), max(last, end) + grown))
    return _joined(moved)


PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


def picture_mention(pasted: str) -> str:
    """The mention of a picture if its path was pasted, as terminals do when a file is dropped on them; else empty."""
    word = pasted.strip()
    if "\n" in word or len(word) > MOST_CHARACTERS:
        return ""
    if word.startswith("file://"):
        word = unquote(word.removeprefix("file://"))
    try:
        (path,) = shlex.split(word) if re.search(r"[\\'\"]", word) else [word]
        is_picture = Path(path).suffix.lower() in PICTURES and Path(path).expanduser().is_file()
    except (ValueError, OSError, RuntimeError):
        return ""
    return f'@"{path}" ' if is_picture and '"' not in path else ""


# -- history ---------------------------------------------------------------------------------

MOST_READ = 1024 * 1024
"""Bytes read from the end of the history file."""


class InputHistory(History):
    """The input history, in a file only its owner can read: one JSON string per line, secrets masked.

    It is only a convenience: if the file cannot be read or written, the input still works.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The inputs in the last `MOST_READ` bytes of the file, the newest first."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_READ))
                lines = file.read().splitlines()
        except OSError:
            return []
        return [words for line in reversed(lines) if (words := _decode(line))]

    def store_string(self, string: str) -> None:
        """Append an input to the file, with its secrets masked."""
        line = msgspec.json.encode(mask(string).text.encode(errors="replace").decode()) + b"\n"
        with suppress(OSError):
            private_parent(self._path)
            handle = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "ab") as file:
                file.write(line)


def _decode(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=str)
    except msgspec.MsgspecError:
        return ""
