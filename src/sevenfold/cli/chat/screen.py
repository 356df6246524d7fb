"""What a chat needs from the app that shows it: the screen, its signs and colours, and a worker thread."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, Protocol

from msgspec import Struct, structs
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from sevenfold.cli.chat.menu import PAGE, Menu, MenuAnswer, MenuState
from sevenfold.cli.text import fit, one_line


class Signs(Struct, frozen=True):
    """The signs that lines are drawn with; a sign carries the meaning, and colour only repeats it."""

    prompt: str = "›"
    working: tuple[str, ...] = ("◐", "◓", "◑", "◒")
    done: str = "✓"
    failed: str = "✗"
    denied: str = "⊘"
    asked: str = "?"
    layer: str = "◆"
    note: str = "·"
    warning: str = "▲"
    error: str = "✗"
    queued: str = "⋯"
    pointer: str = "❯"
    full: str = "█"
    free: str = "░"
    mark: str = "┊"
    bar: str = "│"
    dot: str = " · "
    cut: str = "…"
    arrow: str = "→"


UNICODE = Signs()
_STAND_INS = str.maketrans("›◐◓◑◒✓✗⊘◆·▲⋯❯█░┊│", ">|/-\\+xo*-!~>#.:|") | {ord("…"): "...", ord("→"): "->"}
"""ASCII replacements for the signs."""


def _to_ascii(sign: Any) -> Any:
    return sign.translate(_STAND_INS) if isinstance(sign, str) else tuple(map(_to_ascii, sign))


ASCII = Signs(*map(_to_ascii, structs.astuple(UNICODE)))


def signs_for(encoding: str | None) -> Signs:
    """The signs for an encoding: ASCII ones if it cannot encode the others."""
    try:
        "".join(map("".join, structs.astuple(UNICODE))).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


class Screen(Protocol):
    """Shows things and asks questions; may be called from any thread."""

    @property
    def signs(self) -> Signs:
        """The signs its terminal can show."""

    @property
    def redraws(self) -> bool:
        """Whether it shows the current activity, and keeps it up to date."""

    @property
    def width(self) -> int:
        """Cells in a line."""

    def show(self, *shown: RenderableType) -> None:
        """Print permanently."""

    def page(self, *shown: RenderableType) -> None:
        """Show something long in the user's pager, or print it if there is none."""

    def notify(self, words: str, how: str) -> None:
        """Call the user back to the terminal, by its ``bell`` or by a ``desktop`` notification."""

    def ask(self, menu: Menu) -> MenuAnswer | None:
        """Show a menu and wait; returns the user's answer, None if there is none."""

    def changed(self) -> None:
        """Redraw the activity and the status line."""

    def suggest(self, words: str) -> None:
        """Put words into the input for the user to edit or send."""


# -- colours ---------------------------------------------------------------------------------

Colours = Literal["none", "plain", "some", "many", "all"]
_SYSTEMS: dict[Colours, Literal["standard", "256", "truecolor"] | None] = {
    "none": None,
    "plain": "standard",
    "some": "standard",
    "many": "256",
    "all": "truecolor",
}
NARROWEST = 20


class Renderer(Struct, frozen=True):
    """Turns rich renderables into the characters sent to a terminal."""

    colours: Colours = "none"
    """``none``: characters only; ``plain``: bold and dim, but no colour."""

    def ansi(self, *shown: RenderableType, width: int) -> str:
        """The characters for a terminal of this width."""
        target = io.StringIO()
        console = Console(
            file=target,
            width=max(NARROWEST, width),
            force_terminal=True,
            color_system=_SYSTEMS[self.colours],
            no_color=self.colours in ("none", "plain"),
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )
        for line in shown:
            console.print(line)
        return target.getvalue()


def colours_of(environ: Mapping[str, str]) -> Colours:
    """How much colour the environment asks for; see https://no-color.org."""
    term = environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        return "none"
    if environ.get("NO_COLOR"):
        return "plain"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "all"
    return "many" if "256" in term else "some"


# -- menus ---------------------------------------------------------------------------------

_MOST_LINES = 6
"""Lines for a title or the description of an item."""


def draw_menu(state: MenuState, signs: Signs, width: int) -> Text:
    """The menu as text; if there are many items, only the page around the pointer."""
    menu = state.menu
    room = max(10, width - 1)
    shown = Text().append("\n".join(_wrap(one_line(menu.title), room, signs)), "bold yellow")
    if state.writing:
        return shown.append(f"\n  {state.prompt()} (Enter sends it, Esc goes back)", style="dim")
    if state.filter_text:
        shown.append(f"\n  filter: {one_line(state.filter_text)}", style="cyan")
    places = state.matching
    count = len(places)
    at = places.index(state.at) if places else 0
    first = max(0, min(at - PAGE // 2, count - PAGE))
    last = min(count, first + PAGE)
    shown.append(f"\n  {signs.cut} {first} more above" if first else "", style="dim")
    if not places:
        shown.append("\n  no matches", style="dim")
    for place in places[first:last]:
        style = "bold cyan" if place == state.at else ""
        for line in _item_lines(state, place, signs, room):
            shown.append(f"\n{line}", style=style)
    shown.append(f"\n  {signs.cut} {count - last} more below" if last < count else "", style="dim")
    pages = ", PgUp and PgDn move by page" if count > PAGE else ""
    hint = "Space ticks, Enter sends" if menu.several else "Enter chooses"
    hint = f"type to filter, {hint}" if menu.filtered else hint
    return shown.append(f"\n  arrows move{pages}, {hint}, {menu.escape}", style="dim")


def _item_lines(state: MenuState, place: int, signs: Signs, room: int) -> Iterator[str]:
    """The lines of an item: one, and more for a description that does not fit on it."""
    item = state.menu.items[place]
    tick = ("[x] " if place in state.ticked else "[ ] ") if state.menu.several else ""
    key = f" ({item.key})" if item.key else ""
    before = f"{item.before}  " if item.before else ""
    number = "" if state.menu.filtered else f"{place + 1}. "
    head = f"{signs.pointer if place == state.at else ' '} {number}{tick}{before}"
    line = f"{head}{one_line(item.label)}{key}"
    about = one_line(item.about)
    if not about or cell_len(line) + 2 + cell_len(about) <= room:
        yield fit(f"{line}  {about}".rstrip(), room, signs.cut)
        return
    yield fit(line, room, signs.cut)
    yield from (f"     {line}" for line in _wrap(about, max(10, room - 5), signs))


def wrap(words: str, room: int) -> list[str]:
    """A text in lines of at most ``room`` cells, broken between words where possible."""
    return [line.plain.rstrip() for line in Text(words).wrap(Console(width=room), room, overflow="fold")]


def _wrap(words: str, room: int, signs: Signs) -> list[str]:
    lines = wrap(words, room)
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: _MOST_LINES - 1], fit(lines[_MOST_LINES - 1] + " " * room, room, signs.cut)]


# -- the pager and the bell ------------------------------------------------------------------


def pager_command(environ: Mapping[str, str]) -> list[str]:
    """The command line of the user's pager; empty if there is none."""
    try:
        command = shlex.split(environ.get("PAGER", "less"))
    except ValueError:
        return []
    return command if command and shutil.which(command[0]) else []


def run_pager(command: list[str], text: str) -> None:
    """Show a text in a pager and wait until the user leaves it."""
    environ = {"LESS": "-R", **os.environ}
    with suppress(OSError):
        subprocess.run(command, input=text.encode(errors="replace"), env=environ, check=False)


def notification(words: str, how: str) -> str:
    """The characters that make a terminal notify the user; most terminals accept OSC 9 for desktop notifications."""
    return f"\x1b]9;{one_line(words)}\a" if how == "desktop" else "\a"


# -- the worker thread -----------------------------------------------------------------------

LEAVING_SECONDS = 8.0
"""How long the app, when it ends, waits for work in progress."""


def ignore_interrupts() -> None:
    """Ignore Ctrl-C from now on: the program only finishes writing, which takes a few seconds at most."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def hurry_on_interrupt(hurry: Callable[[], None]) -> None:
    """From now on, Ctrl-C does not end the program but shortens what it waits for at its end."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: hurry())


class Worker:
    """Runs one piece of work at a time in a thread; calls ``on_done`` at its end, with the error or None."""

    def __init__(self, on_done: Callable[[BaseException | None], None]) -> None:
        self._on_done = on_done
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether work is running."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, work: Callable[[], object]) -> None:
        """Start the work."""

        def run() -> None:
            error = None
            try:
                work()
            except BaseException as wrong:  # noqa: BLE001 (the app shows or raises it)
                error = wrong
            self._on_done(error)

        self._thread = threading.Thread(target=run, daemon=True, name="sevenfold-chat")
        self._thread.start()

    def wait(self, seconds: float = LEAVING_SECONDS) -> None:
        """Wait until the work ends, but at most this long."""
        if self._thread is not None:
            self._thread.join(seconds)
