"""What a session has cost, and the status line: the model, how full the window is, the cost, what runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from sevenfold.cli.text import fit, money, short_count
from sevenfold.conversation.resume import read
from sevenfold.conversation.status import Reading
from sevenfold.events import AgentChanged, Answered, CacheBroke, Event, Failed
from sevenfold.profiles import find
from sevenfold.record.decisions import AgentEnd, AgentStart, Billed, Request
from sevenfold.record.entries import Decision, Said
from sevenfold.record.usage import Usage

if TYPE_CHECKING:
    from sevenfold.cli.chat.screen import Signs
    from sevenfold.ports import Log


class Spending(Struct, frozen=True):
    """Sums over answers: of one run, added up from events, or of a whole session, read from its log."""

    answers: int = 0
    """Those that were cut off too, if the provider had reported what they used."""
    uncached: int = 0
    """Prompt tokens neither read from the cache nor written to it."""
    read: int = 0
    written: int = 0
    output: int = 0
    usd: float | None = 0.0
    uncached_usd: float | None = 0.0
    ideal_usd: float | None = 0.0
    by_source: dict[str, float | None] = {}
    """Dollars by source: the conversation, a compaction, notes…"""
    breaks: Sequence[CacheBroke] = ()

    @classmethod
    def of(cls, log: Log) -> Spending:
        """What a whole session has spent, including the engine's own requests."""
        spent, sources, main = cls(), {}, "main"
        for _, entry in read(log):
            match entry:
                case Decision(made=Request(appended=[], source=source)):
                    main = source
                case Decision(made=Request(id=name, source=source)):
                    sources[name] = source
                case Decision(made=Billed(request=name, usage=raw, model=model, source=source)):
                    asker = source or sources.get(name, "fork")
                    spent = spent.add(_answered(Usage.read(raw), model, asker))
                case Decision(made=AgentStart(agent=name, agent_type=kind)):
                    sources[name] = kind
                case Decision(made=AgentEnd(agent=name, state=state, usd=usd)):
                    kind = sources.get(name, "")
                    spent = spent.add(AgentChanged(agent=name, name="", type=kind, state=state, usd=usd))
                case Said(role="assistant", sidechain=False, usage=Usage() as usage, model=model):
                    spent = spent.add(_answered(usage, model, main))
                case _:
                    continue
        return spent

    @property
    def prompt(self) -> int:
        """All prompt tokens."""
        return self.uncached + self.read + self.written

    @property
    def cached(self) -> float | None:
        """The share of the prompts that came from the cache; None if nothing was ever cached."""
        return self.read / self.prompt if self.read or self.written else None

    def add(self, event: Event) -> Spending:
        """The sums after one more event."""
        match event:
            case Answered():
                return self._add(event, event.ideal_usd)
            case Failed() if event.prompt_tokens:
                return self._add(event, event.usd)
            case AgentChanged(state="completed" | "failed" | "cancelled"):
                source = f"agent:{event.type}"
                before = self.by_source.get(source, 0.0)
                return replace(
                    self,
                    usd=_sum(self.usd, event.usd),
                    by_source={**self.by_source, source: _sum(before, event.usd)},
                )
            case CacheBroke():
                return replace(self, breaks=(*self.breaks, event))
            case _:
                return self

    def _add(self, event: Answered | Failed, ideal: float | None) -> Spending:
        before = self.by_source.get(event.source, 0.0)
        return replace(
            self,
            answers=self.answers + 1,
            uncached=self.uncached + event.input_tokens,
            read=self.read + event.cache_read_tokens,
            written=self.written + event.cache_write_tokens,
            output=self.output + event.output_tokens,
            usd=_sum(self.usd, event.usd),
            uncached_usd=_sum(self.uncached_usd, event.uncached_usd),
            ideal_usd=_sum(self.ideal_usd, ideal),
            by_source={**self.by_source, event.source: _sum(before, event.usd)},
        )


def _answered(usage: Usage, model: str, source: str) -> Answered:
    profile = find(model)
    return Answered(
        source=source,
        request="",
        model=model,
        provider=profile.provider,
        response="",
        **usage.counts,
        usd=usage.cost(profile),
        uncached_usd=usage.uncached_cost(profile),
    )


def _sum(one: float | None, other: float | None) -> float | None:
    """A sum with an unknown part is unknown."""
    return None if one is None or other is None else one + other


# -- the status line -------------------------------------------------------------------------

_BAR = 12


class StatusLine(Struct, frozen=True, kw_only=True):
    """What the status line shows."""

    model: str
    mode: str = "ask"
    offline: bool = False
    gauge: Reading | None = None
    compacts: bool = True
    """Whether it compacts automatically."""
    taken_back: bool = False
    """Whether a compaction was undone, so that the next one waits until the window is full."""
    cached: float | None = None
    """The share of this run's prompts that came from the cache; None before the first answer."""
    background: Sequence[str] = ()
    """What runs in the background."""
    queued: int = 0


def draw_status(status: StatusLine, signs: Signs, width: int) -> Text:
    """The line in fewer than ``width`` cells; the least important parts are left out first."""
    parts = _parts(status, signs)
    shown = Text()
    for number in sorted({part[0] for part in parts}, reverse=True):
        kept = [(words, style) for rank, words, style in parts if rank <= number]
        shown = Text()
        for place, part in enumerate(kept):
            shown.append(signs.dot if place else "", style="dim").append(*part)
        if shown.cell_len <= width - 1:
            return shown
    return Text(fit(shown.plain, max(1, width - 1), signs.cut))


def _parts(status: StatusLine, signs: Signs) -> list[tuple[int, str, str]]:
    """The rank (1 stays longest), words and style of each part, from left to right."""
    name = status.model.removeprefix("claude-")
    parts = [(2, name if cell_len(name) <= 28 else fit(name, 28), "bold")]
    if status.offline:
        parts.append((1, "offline model", "yellow"))
    style = {"autonomous": "yellow", "plan": "cyan"}.get(status.mode, "")
    parts.append((1 if status.mode == "plan" else 3, status.mode.replace("_", " "), style))
    if status.gauge is not None:
        parts += _gauge_parts(status, status.gauge, signs)
    if status.cached is not None:
        parts.append((5, f"cache {status.cached:.0%}", "" if status.cached >= 0.5 else "yellow"))
    if status.gauge is not None and status.gauge.requests and not status.offline:
        parts.append((4, money(status.gauge.usd) if status.gauge.usd is not None else "cost unknown", ""))
    if status.queued:
        parts.append((3, f"{status.queued} queued", "cyan"))
    if status.background:
        first = fit(status.background[0], 24, signs.cut)
        more = f" +{len(status.background) - 1}" if len(status.background) > 1 else ""
        parts.append((4, f"running: {first}{more}", "cyan"))
    return parts


def _gauge_parts(status: StatusLine, gauge: Reading, signs: Signs) -> list[tuple[int, str, str]]:
    share = gauge.seen / gauge.effective if gauge.effective else 1.0
    style = "red" if gauge.above_error else "yellow" if gauge.above_warning else "green"
    parts = [
        (6, _bar(gauge, signs), style),
        (1, f"{share:.0%} of {short_count(gauge.effective)}", style),
        *((2, _budget(gauge, budget), "yellow") for budget in gauge.heavy),
    ]
    left = gauge.threshold - gauge.high
    if gauge.at_blocking and not status.compacts:
        parts.append((1, "FULL: /compact or /clear", "bold red"))
    elif not status.compacts:
        parts.append((3, "no auto-compaction", "yellow"))
    elif status.taken_back and not gauge.at_blocking:
        parts.append((3, "compaction undone", "yellow"))
    elif left <= 0:
        parts.append((2, "compacts next", "yellow"))
    else:
        parts.append((3, f"compacts in {short_count(left)}", style if gauge.above_warning else "dim"))
    return parts


def _budget(gauge: Reading, budget: str) -> str:
    """How near a request is to a limit of the provider."""
    if budget == "images":
        return f"{gauge.images} of {gauge.images_limit} images"
    return f"{gauge.wire / 1e6:.1f} of {(gauge.wire_limit or 0) / 1e6:.1f} MB"


def _bar(gauge: Reading, signs: Signs) -> str:
    """How full the window is, with a mark where compaction begins."""
    whole = gauge.effective or 1
    filled = min(_BAR, round(gauge.seen / whole * _BAR))
    threshold = min(_BAR - 1, int(gauge.threshold / whole * _BAR))
    cells = [signs.full] * filled + [signs.free] * (_BAR - filled)
    if threshold >= filled:
        cells[threshold] = signs.mark
    return "".join(cells)
