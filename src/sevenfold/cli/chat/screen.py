"""What a chat needs of whoever shows it; the inline app, the plain one and a run without a screen each have it.

The signs lines begin with, in a rich and in a poor alphabet; each says by itself what colour only underlines.

From things rich prints to the characters a terminal gets: for a width, with as much colour as is wanted.

The one thing a chat does at a time, in a thread of its own, and whatever went wrong in it.
"""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct
from rich.console import Console, RenderableType

if TYPE_CHECKING:
    from sevenfold.cli.chat.questions import Picked, Question

# -- screen


class Screen(Protocol):
    """Shows things and asks questions; may be called from any thread."""

    @property
    def signs(self) -> Signs:
        """The alphabet."""
        ...

    @property
    def width(self) -> int:
        """Cells in a line."""
        ...

    def show(self, *shown: RenderableType) -> None:
        """Print for good."""
        ...

    def ask(self, question: Question) -> Picked | None:
        """Wait for the user's choice; None if there was none."""
        ...

    def changed(self) -> None:
        """What is under way, or the status, is another one now."""
        ...

    def suggest(self, words: str) -> None:
        """Put words where the user types, to be changed or sent."""
        ...


# -- signs


class Signs(Struct, frozen=True):
    """One alphabet."""

    prompt: str = "›"
    working: tuple[str, ...] = ("◐", "◓", "◑", "◒")
    done: str = "✓"
    failed: str = "✗"
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


RICH = Signs()
POOR = Signs(
    prompt=">",
    working=("|", "/", "-", "\\"),
    done="+",
    failed="x",
    layer="*",
    note="-",
    warning="!",
    error="x",
    queued="~",
    pointer=">",
    full="#",
    free=".",
    mark=":",
    bar="|",
    dot=" - ",
    cut="...",
    arrow="->",
)


def signs_for(encoding: str | None) -> Signs:
    """The alphabet an encoding can write."""
    try:
        "".join(one if isinstance(one, str) else "".join(one) for one in _values(RICH)).encode(
            encoding or "ascii"
        )
    except (UnicodeEncodeError, LookupError):
        return POOR
    return RICH


def _values(signs: Signs) -> tuple[str | tuple[str, ...], ...]:
    return tuple(getattr(signs, name) for name in Signs.__struct_fields__)


# -- paper


Colours = Literal["none", "plain", "some", "many", "all"]
_SYSTEMS: dict[Colours, Literal["standard", "256", "truecolor"] | None] = {
    "none": None,
    "plain": "standard",
    "some": "standard",
    "many": "256",
    "all": "truecolor",
}
NARROWEST = 20


class Paper(Struct, frozen=True):
    """How much a terminal can show."""

    colours: Colours = "none"
    """none: characters only; plain: bold and dim, but no colour."""

    def ansi(self, *shown: RenderableType, width: int) -> str:
        """The characters for it."""
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
        for one in shown:
            console.print(one)
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


# -- job


LEAVING_SECONDS = 8.0
"""How long leaving waits for what is under way to come to its end."""


def no_more_interrupts() -> None:
    """From now on the program only writes out what must be whole, and ends; that takes a few seconds at most."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Job:
    """Runs work, one piece after the other."""

    def __init__(self, over: Callable[[BaseException | None], None]) -> None:
        self._over = over
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Is something under way?"""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, work: Callable[[], object]) -> None:
        """Start; ``over`` is told of the end, with the error if there was one."""

        def run() -> None:
            error = None
            try:
                work()
            except BaseException as wrong:  # noqa: BLE001 (handed to whoever shows it; nothing is hidden)
                error = wrong
            self._over(error)

        self._thread = threading.Thread(target=run, daemon=True, name="sevenfold-chat")
        self._thread.start()

    def wait(self, seconds: float = LEAVING_SECONDS) -> bool:
        """Wait for its end; says whether it came."""
        if self._thread is not None:
            self._thread.join(seconds)
        return not self.busy
