"""The status line: who answers, how full the window is and how far it is to compaction, what it costs, what runs.

The books of a session: what answers cost, what the cache gave, and where it was lost.

Those of one run of the app are kept from events, those of all runs are read from the records of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from sevenfold.cli.chat.screen import Signs
from sevenfold.cli.text import fit, money, short_count
from sevenfold.conversation.resume import read
from sevenfold.events import Answered, CacheBroke, Event
from sevenfold.ports import Log
from sevenfold.profiles import find
from sevenfold.record.decisions import Billed, Request
from sevenfold.record.entries import Decision, Said
from sevenfold.record.usage import Usage
from sevenfold.request import price

if TYPE_CHECKING:
    from sevenfold.conversation.status import Reading


# -- status


_BAR = 12


class Status(Struct, frozen=True, kw_only=True):
    """What the line is made of."""

    model: str
    mode: str = "ask"
    offline: bool = False
    gauge: Reading | None = None
    compacts: bool = True
    """Does it compact by itself?"""
    taken_back: bool = False
    """Was a compaction undone, so that the next waits until the window is full?"""
    cached: float | None = None
    """The share of all prompts of this run that came from the cache; None before the first answer."""
    background: Sequence[str] = ()
    """What runs beside the conversation."""
    queued: int = 0


def line(status: Status, signs: Signs, width: int) -> Text:
    """The line in no more than ``width`` cells; what matters least is left out first."""
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


def _parts(status: Status, signs: Signs) -> list[tuple[int, str, str]]:
    """Rank (1 stays longest), words and style of each part, from left to right."""
    parts = [(2, short_name(status.model), "bold")]
    if status.offline:
        parts.append((1, "offline model", "yellow"))
    parts.append(
        (1 if status.mode == "plan" else 3, status.mode.replace("_", " "), _mode_style(status.mode))
    )
    if status.gauge is not None:
        parts += _filled(status, status.gauge, signs)
    if status.cached is not None:
        parts.append((5, f"cache {status.cached:.0%}", "" if status.cached >= 0.5 else "yellow"))
    if status.gauge is not None and status.gauge.requests and not status.offline:
        parts.append((4, money(status.gauge.usd) if status.gauge.usd is not None else "cost unknown", ""))
    if status.queued:
        parts.append((3, f"{status.queued} queued", "cyan"))
    if status.background:
        first = fit(status.background[0], 24, signs.cut)
        more = f" +{len(status.background) - 1}" if len(status.background) > 1 else ""
        parts.append((4, f"runs: {first}{more}", "cyan"))
    return parts


def _mode_style(mode: str) -> str:
    return {"autonomous": "yellow", "plan": "cyan"}.get(mode, "")


def _filled(status: Status, gauge: Reading, signs: Signs) -> list[tuple[int, str, str]]:
    share = gauge.seen / gauge.effective if gauge.effective else 1.0
    style = "red" if gauge.at_blocking else "yellow" if gauge.above_warning else "green"
    parts = [
        (6, bar(gauge, signs), style),
        (1, f"{share:.0%} of {short_count(gauge.effective)}", style),
        *((2, _how_much(gauge, budget), "yellow") for budget in gauge.heavy),
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
        parts.append((3, f"compacts in {short_count(left)}", "yellow" if gauge.above_warning else "dim"))
    return parts


def _how_much(gauge: Reading, budget: str) -> str:
    """What a request has nearly too much of."""
    if budget == "images":
        return f"{gauge.images} of {gauge.images_limit} pictures"
    return f"{gauge.wire / 1e6:.1f} of {(gauge.wire_limit or 0) / 1e6:.1f} MB"


def bar(gauge: Reading, signs: Signs, room: int = _BAR) -> str:
    """How full the window is, with a mark where compaction begins."""
    whole = gauge.effective or 1
    filled = min(room, round(gauge.seen / whole * room))
    threshold = min(room - 1, int(gauge.threshold / whole * room))
    cells = [signs.full] * filled + [signs.free] * (room - filled)
    if threshold >= filled:
        cells[threshold] = signs.mark
    return "".join(cells)


def short_name(model: str) -> str:
    """A model's name without its maker's."""
    name = model.removeprefix("claude-")
    return name if cell_len(name) <= 28 else fit(name, 28)


# -- ledger


class Ledger(Struct, frozen=True):
    """Sums over some answers."""

    answers: int = 0
    plain: int = 0
    """Prompt tokens neither read from the cache nor written to it."""
    read: int = 0
    written: int = 0
    output: int = 0
    usd: float | None = 0.0
    uncached_usd: float | None = 0.0
    ideal_usd: float | None = 0.0
    by_source: dict[str, float | None] = {}
    """Dollars by who asked: the conversation, a compaction, notes…"""
    breaks: Sequence[CacheBroke] = ()

    @classmethod
    def of(cls, log: Log) -> Ledger:
        """The books of all that is on record: answers of the conversation, and what the engine's own calls cost."""
        books, sources, main = cls(), {}, "main"
        for _, entry in read(log):
            match entry:
                case Decision(made=Request(appended=[], source=source)):
                    main = source
                case Decision(made=Request(id=name, source=source)):
                    sources[name] = source
                case Decision(made=Billed(request=name, usage=raw, model=model, source=source)):
                    whom = source or sources.get(name, "fork")
                    books = books.heard(_billed(Usage.read(raw), model, whom))
                case Said(role="assistant", sidechain=False, usage=Usage() as usage, model=model):
                    books = books.heard(_billed(usage, model, main))
                case _:
                    continue
        return books

    @property
    def prompt(self) -> int:
        """All prompt tokens."""
        return self.plain + self.read + self.written

    @property
    def cached(self) -> float | None:
        """The share of them that came from the cache; None where nothing is ever cached."""
        return self.read / self.prompt if self.read or self.written else None

    def heard(self, event: Event) -> Ledger:
        """The books after one more event."""
        match event:
            case Answered():
                return self._answered(event)
            case CacheBroke():
                return replace(self, breaks=(*self.breaks, event))
            case _:
                return self

    def _answered(self, event: Answered) -> Ledger:
        before = self.by_source.get(event.source, 0.0)
        return replace(
            self,
            answers=self.answers + 1,
            plain=self.plain + event.input_tokens,
            read=self.read + event.cache_read_tokens,
            written=self.written + event.cache_write_tokens,
            output=self.output + event.output_tokens,
            usd=_sum(self.usd, event.usd),
            uncached_usd=_sum(self.uncached_usd, event.uncached_usd),
            ideal_usd=_sum(self.ideal_usd, event.ideal_usd),
            by_source={**self.by_source, event.source: _sum(before, event.usd)},
        )


def _billed(usage: Usage, model: str, source: str) -> Answered:
    profile = find(model)
    return Answered(
        source=source,
        request="",
        model=model,
        provider=profile.provider,
        response="",
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        output_tokens=usage.output_tokens,
        usd=price.cost(usage, profile),
        uncached_usd=price.uncached_cost(usage, profile),
    )


def _sum(one: float | None, other: float | None) -> float | None:
    """A sum of which a part is unknown is unknown."""
    return None if one is None or other is None else one + other
