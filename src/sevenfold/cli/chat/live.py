"""What is under way: words that are still coming, calls that are still running, messages that wait.

The agent's thread changes it, the screen's thread draws it. Every change puts a new value in the place of the old one,
so whoever draws sees one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.text import Text

from sevenfold.cli.chat.calls import running
from sevenfold.cli.chat.signs import Signs
from sevenfold.cli.chat.words import lasted, one_line
from sevenfold.session.results import ToolCall

LONGEST_TAIL = 4_000
"""Characters of running output and thinking that are kept to show the end of."""


class Running(Struct, frozen=True):
    """A call that is being carried out."""

    call: ToolCall
    began: float
    last: str = ""


class Live(Struct, frozen=True):
    """What is under way."""

    doing: str = ""
    """In a word; empty: nothing is."""
    since: float = 0.0
    stage: str = ""
    """How far something is that takes its time, such as a compaction."""
    pending: str = ""
    """Of the answer, what is not printed yet."""
    thinking: str = ""
    preparing: str = ""
    """The tool whose input is being written."""
    running: Mapping[str, Running] = {}
    queued: tuple[str, ...] = ()
    stopping: bool = False

    def began(self, call: ToolCall, now: float) -> Live:
        """A call begins."""
        return replace(self, preparing="", running={**self.running, call.id: Running(call, now)})

    def progress(self, call: ToolCall, text: str) -> Live:
        """A call printed something."""
        one = self.running.get(call.id)
        if one is None:
            return self
        grown = replace(one, last=(one.last + text)[-LONGEST_TAIL:])
        return replace(self, running={**self.running, call.id: grown})

    def ended(self, call: ToolCall) -> Live:
        """A call has its result."""
        return replace(self, running={name: one for name, one in self.running.items() if name != call.id})

    def thought(self, words: str) -> Live:
        """Some reasoning came."""
        return replace(self, thinking=(self.thinking + words)[-LONGEST_TAIL:])


def drawn(live: Live, signs: Signs, width: int, now: float, folder: str = "") -> RenderableType | None:
    """What is under way, for the place above the input; None if nothing is."""
    parts: list[RenderableType] = []
    if live.pending.strip():
        # Loading Markdown takes a while, and nobody needs it to begin.
        from sevenfold.cli.chat.markdown import rendered

        parts.append(rendered(live.pending))
    parts += [
        running(one.call, now - one.began, one.last, signs=signs, width=width, folder=folder)
        for one in live.running.values()
    ]
    if live.doing:
        parts.append(_working(live, signs, width, now))
    parts += [
        Text(f"{signs.queued} queued: {one_line(text, max(8, width - 12), signs.cut)}", style="cyan")
        for text in live.queued
    ]
    return Group(*parts) if parts else None


def _working(live: Live, signs: Signs, width: int, now: float) -> Text:
    elapsed = now - live.since
    sign = signs.working[int(elapsed * 4) % len(signs.working)]
    line = Text.assemble((f"{sign} {_doing(live)}", "cyan"), (f"{signs.dot}{lasted(elapsed)}", "dim"))
    if not live.stopping:
        line.append(f"{signs.dot}Esc interrupts", style="dim")
    said = one_line(live.thinking.rstrip().rpartition("\n")[2], max(8, width - 5))
    return line.append(f"\n  {signs.bar} {said}", style="dim") if said else line


def _doing(live: Live) -> str:
    if live.stopping:
        return "stopping"
    if live.stage:
        return live.stage
    if live.thinking:
        return "thinking"
    return f"preparing {one_line(live.preparing, 30)}" if live.preparing else live.doing
