"""What each key does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.key_binding.key_bindings import KeyBindingsBase

from sevenfold.cli.chat.questions import PAGE

if TYPE_CHECKING:
    from sevenfold.cli.chat.inline import Inline


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
