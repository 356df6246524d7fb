"""Reports made from the engine's events: a line about each, and the totals of what was spent.

The chat draws them. `-p` prints them and must not wait for rich, so this module does not import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs
from msgspec.structs import replace

from sevenfold import events
from sevenfold.cli.text import cause, money, one_line, plural, short_count, whole_seconds
from sevenfold.conversation.resume import read
from sevenfold.conversation.waiting import FOR_EVER
from sevenfold.events import AgentChanged, Answered, CacheBroke, Event, Failed, Waiting
from sevenfold.ports import Log
from sevenfold.profiles import find
from sevenfold.record.decisions import AgentEnd, AgentStart, Billed, Request
from sevenfold.record.entries import Decision, Said
from sevenfold.record.usage import Usage

# -- lines -----------------------------------------------------------------------------------

Level = Literal["layer", "note", "warning", "error"]
STYLES = {"layer": "magenta", "note": "dim", "warning": "yellow", "error": "red"}
COMPACTED = "compact"
"""The reason of an epoch that a compaction opens; it gets no line, because the compaction has its own."""
LONGEST_LINE = 300
"""Characters of the line about what a compaction kept."""


class EventLine(Struct, frozen=True):
    """A line about an event, with details that can be opened."""

    level: Level
    line: str
    detail: tuple[tuple[str, str], ...] = ()
    """Names and values."""


_REPAIRS = {
    "unanswered_call": "a tool call had no result",
    "orphan_result": "a tool result had no call",
    "second_call": "a tool call was there twice",
    "second_result": "a tool result was there twice",
    "cut_start": "the conversation began with an answer",
    "unsendable": "a block that no provider takes is sent as text",
    "refused_block": "a block that the provider refused is sent as text from now on",
}
"""What a `Repaired` event says, in words."""


def event_line(event: Event) -> EventLine | None:
    """The line for an event; None if it does not concern the user."""
    match event:
        case events.Acted():
            return _acted(event)
        case events.Compacted() if (
            event.lost or event.invented or event.fires_again or event.lasting_left_out
        ):
            return _went_wrong(event)
        case events.Compacted():
            return _kept(event)
        case events.Vetoed():
            return EventLine("note", f"{event.layer} was vetoed: {event.what} ({event.reason})")
        case events.SteppedAside(layer="breaker"):
            short, _, more = event.reason.partition(" (")
            return EventLine("warning", short, (("why", event.reason),) if more else ())
        case events.SteppedAside(layer="rules" | "orders"):
            return EventLine("warning", event.reason)
        case (
            events.SteppedAside(layer="notes" | "remember", error="")
            | events.SteppedAside(layer="suggestion")
        ):
            # The layer will try again later, and the user need not do anything.
            return None
        case events.SteppedAside():
            level: Level = "warning" if event.error else "note"
            return EventLine(level, f"{event.layer} could not help: {event.reason}")
        case events.Failed() if event.again:
            again = f"{event.reason.rstrip('.')}. Trying again, with a change."
            return EventLine("warning", again, (("error", event.error),))
        case events.CacheBroke() if not event.expected:
            return _cache_lost(event)
        case events.EpochOpened() if event.drops_thinking and event.reason != COMPACTED:
            line = (
                f"the model's earlier reasoning is no longer sent, its answers are ({cause(event.reason)})"
            )
            return EventLine("note", line, _pairs(epoch=event.epoch, cost=money(event.usd)))
        case events.Repaired():
            repair = _REPAIRS.get(event.what, event.what)
            return EventLine("note", f"repaired before sending: {repair}", (("where", event.where),))
        case events.AgentChanged():
            return _agent_changed(event)
        case events.Masked():
            kinds = ", ".join(event.kinds)
            return EventLine("warning", f"{plural(event.count, 'secret')} masked ({kinds})")
        case events.Compacting(stage="compact_start"):
            return EventLine("note", "compacting…")
        case _:
            return None


def _agent_changed(event: events.AgentChanged) -> EventLine:
    kind = f"{'fork' if event.fork else event.type}{' in the background' if event.background else ''}"
    figures = [plural(event.turns, "turn"), money(event.usd)] if event.turns else []
    who = event.name or event.description or event.agent
    line = f"agent {who} ({kind}): {', '.join([event.state, *filter(None, figures)])}"
    return EventLine("note", one_line(line), _pairs(agent=event.agent, why=event.because))


def _acted(event: events.Acted) -> EventLine:
    freed = event.tokens_before - event.tokens_after
    figures = [f"{short_count(freed)} tokens freed"] if freed > 0 else []
    if event.usd and event.usd >= 0.005:
        figures.append(money(event.usd))
    undo = ["/undo reverts it"] if event.undoable and event.reference else []
    if event.mechanism == "extract":
        undo = ["/memory undo reverts it"]
    line = event.what
    if not line.startswith((event.layer, "recalled")):
        line = f"{event.layer}: {line}"
    if tail := ", ".join(figures + undo):
        line += f" ({tail})"
    detail = _pairs(
        layer=f"{event.layer} ({event.mechanism})",
        what=event.what,
        why=event.why,
        items=str(event.items or ""),
        tokens=f"{event.tokens_before:,} → {event.tokens_after:,}" if event.tokens_before else "",
        cost=money(event.usd),
        decision=event.reference,
        undo=f"/undo {event.reference}" if undo else "cannot be undone",
    )
    return EventLine("layer", one_line(line), detail)


def _kept(event: events.Compacted) -> EventLine:
    """What a compaction kept, and what was added back; the line that it happened comes from another event."""
    facts = event.in_context + event.reachable
    parts = []
    if facts:
        rest = ", the rest by recall" if event.reachable else ""
        parts.append(f"{event.in_context} of {plural(facts, 'fact')} still in view{rest}")
    if event.kept:
        parts.append(f"{plural(event.kept, 'record')} verbatim")
    if event.restored:
        parts.append(f"added back: {', '.join(event.restored)}")
    line = f"after the compaction: {'; '.join(parts) or 'the summary alone'}; /summary shows it"
    return EventLine("note", one_line(line, LONGEST_LINE), _compaction_details(event))


def _went_wrong(event: events.Compacted) -> EventLine:
    """What went wrong in a compaction; the line that it happened comes from another event."""
    wrong = []
    if event.lost:
        wrong.append(f"{plural(event.lost, 'fact')} lost")
    if event.invented:
        wrong.append(f"{plural(event.invented, 'claim')} in the summary marked as not in the record")
    if event.lasting_left_out:
        lasting = plural(event.lasting_left_out, "lasting message")
        wrong.append(
            f"no room for {lasting} of yours: raise the setting user_words, or repeat what matters"
        )
    if event.fires_again:
        wrong.append("the window is full again at once")
    return EventLine(
        "warning", f"compact: {', '.join(wrong)}; /summary shows it", _compaction_details(event)
    )


def _compaction_details(event: events.Compacted) -> tuple[tuple[str, str], ...]:
    return _pairs(
        engine=event.engine,
        not_used="; ".join(event.left),
        facts=f"{event.in_context} in context, {event.reachable} reachable, {event.lost} lost",
        restored=", ".join(event.restored),
        missed=", ".join(event.missed),
        your_words=f"{event.words_tokens:,} tokens, {plural(event.words_left_out, 'message')} left out",
    )


def _cache_lost(event: events.CacheBroke) -> EventLine:
    cost = "" if event.usd is None else f", {money(event.usd)}"
    part = f" ({event.part})" if event.part not in ("", event.cause) else ""
    words = f"{cause(event.cause)}{part}, {short_count(event.tokens)} tokens charged again{cost}"
    detail = _pairs(
        cause=event.cause, part=event.part, diff=event.diff, the_provider_says=event.provider_says
    )
    return EventLine("warning", f"cache lost: {words}", detail)


def _pairs(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple((name.replace("_", " "), value) for name, value in values.items() if value)


def wait_line(wait: Waiting, seconds: float, dot: str = " · ") -> str:
    """The line shown during a pause that lasts ``seconds`` more seconds: why, how long, and how to stop."""
    limit = "" if wait.of >= FOR_EVER else f"/{wait.of}"
    parts = (wait.what, f"retrying in {whole_seconds(seconds)}", f"attempt {wait.attempt}{limit}")
    return dot.join((*parts, "Ctrl-C stops"))


# -- totals ----------------------------------------------------------------------------------


TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
Usd = float | None
"""Dollars; None if a price is unknown."""


class Spending(Struct, frozen=True):
    """Totals over answers: of one run, added up from events, or of a whole session, read from its log."""

    answers: int = 0
    """How many answers; those that were cut off count too, if the provider reported their usage."""
    input_tokens: int = 0
    """Prompt tokens neither read from the cache nor written to it."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    usd: Usd = 0.0
    uncached_usd: Usd = 0.0
    ideal_usd: Usd = 0.0
    by_source: dict[str, Usd] = {}
    """Dollars by query source: the conversation, a compaction, notes…"""
    breaks: Sequence[CacheBroke] = ()

    @classmethod
    def of(cls, log: Log) -> Spending:
        """The totals of a whole session, including the engine's own requests.

        Other tools store an answer as several records with one message id, which all report its usage: the last counts.
        """
        spent = cls()
        sources = {}
        main = "main"
        parts: dict[str, tuple[Usage, str, str]] = {}
        for _, entry in read(log):
            match entry:
                case Decision(record=Request(appended=[], source=source)):
                    main = source
                case Decision(record=Request(id=name, source=source)):
                    sources[name] = source
                case Decision(record=Billed(request=name, usage=raw, model=model, source=source)):
                    asker = source or sources.get(name, "fork")
                    spent = spent._add_usage(Usage.read(raw), model, asker)
                case Decision(record=AgentStart(agent=name, agent_type=kind)):
                    sources[name] = kind
                case Decision(record=AgentEnd(agent=name, usd=usd)):
                    spent = spent._charged(f"agent:{sources.get(name, '')}", usd)
                case Said(role="assistant", sidechain=False, usage=Usage() as usage, model=model) as said:
                    if said.own or not said.message_id:
                        spent = spent._add_usage(usage, model, main)
                    else:
                        parts[said.message_id] = (usage, model, main)
                case _:
                    continue
        for usage, model, source in parts.values():
            spent = spent._add_usage(usage, model, source)
        return spent

    @property
    def prompt(self) -> int:
        """All prompt tokens."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def cached(self) -> float | None:
        """The share of the prompt tokens that came from the cache; None if nothing was ever cached."""
        known = self.cache_read_tokens or self.cache_write_tokens
        return self.cache_read_tokens / self.prompt if known else None

    def add(self, event: Event) -> Spending:
        """The totals after one more event."""
        match event:
            case Answered():
                costs = event.usd, event.uncached_usd, event.ideal_usd
                return self._add(event.source, structs.asdict(event), *costs)
            case Failed() if event.prompt_tokens:
                costs = event.usd, event.uncached_usd, event.usd
                return self._add(event.source, structs.asdict(event), *costs)
            case AgentChanged(state="completed" | "failed" | "cancelled"):
                return self._charged(f"agent:{event.type}", event.usd)
            case CacheBroke():
                return replace(self, breaks=(*self.breaks, event))
            case _:
                return self

    def _add_usage(self, usage: Usage, model: str, source: str) -> Spending:
        profile = find(model)
        return self._add(source, usage.counts, usage.cost(profile), usage.uncached_cost(profile), None)

    def _add(self, source: str, counts: Mapping[str, Any], usd: Usd, uncached: Usd, ideal: Usd) -> Spending:
        """The totals after one more answer; ``counts`` holds its token counts, among other fields."""
        sums = {name: getattr(self, name) + counts[name] for name in TOKENS}
        sums |= {
            "uncached_usd": _sum(self.uncached_usd, uncached),
            "ideal_usd": _sum(self.ideal_usd, ideal),
        }
        return replace(self._charged(source, usd), answers=self.answers + 1, **sums)

    def _charged(self, source: str, usd: Usd) -> Spending:
        by_source = {**self.by_source, source: _sum(self.by_source.get(source, 0.0), usd)}
        return replace(self, usd=_sum(self.usd, usd), by_source=by_source)


def _sum(amount: Usd, other: Usd) -> Usd:
    """The sum of two amounts; unknown if either is."""
    return None if amount is None or other is None else amount + other
