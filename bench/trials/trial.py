"""One compaction of a recorded session, with everything that must be true afterwards.

The trial examines the exact requests that a model would get before and after the compaction, sized as the simulated
provider counts. Code that takes no part in making summaries searches for facts in the context and by recall. `send`
also sends the request after a compaction, to see whether the provider accepts it and reads everything it can from the
cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from bench.replay.run import Cue, ReplayProvider
from bench.trials.bad_models import PLANTED
from bench.trials.cut import Cut
from sevenfold.archive import fidelity
from sevenfold.archive.audit import by_question, by_recall, unsupported
from sevenfold.archive.fidelity import Score
from sevenfold.conversation.resume import resume
from sevenfold.errors import ContextFull, ModelError, Refused
from sevenfold.events import Answered, Event, Listener
from sevenfold.lab.replay.recording import KINDS
from sevenfold.lab.rules import RuleFacts, refusals
from sevenfold.lab.simulator.tokens import Counter
from sevenfold.layers.compact.compaction import Compacted, EngineName
from sevenfold.layers.compact.summary.marks import MARK
from sevenfold.ports import Client, Clock, Log
from sevenfold.profiles import find
from sevenfold.record.layout import Item
from sevenfold.session import factory
from sevenfold.session.factory import SessionParts, tool
from sevenfold.session.session import Session

MODEL = "claude-sonnet-5-5"
SYSTEM = "You are a careful engineer who reads before writing, and who says what was done and why. " * 60
DESCRIPTION = "What this tool is for, what it takes, and when to use it. " * 4
_OTHERS = "auto_compact background_compaction gap_clearing notes provider_edits size_clearing"
ALONE: Final[Mapping[str, object]] = MappingProxyType(dict.fromkeys(_OTHERS.split(), False))
"""Settings with which only the requested compaction happens."""
LARGEST_SHARE = 0.25
"""How large the context may be after a compaction, as a share of its size before."""
LEAST_SUMMARY = 3_500
"""Tokens of the shortest summary with nine sections and the note around it: this size is never too large."""
_MESSAGES = b',"messages":['
ANSWER = ({"type": "text", "text": "I see, and go on from there."},)


class ContextSizes(Struct, frozen=True):
    """The parts of a context, in tokens as the simulated provider counts."""

    opening: int
    """The system prompt and tools, which a compaction does not change."""
    kept: int
    """Messages that are kept verbatim, because the work continues from them."""
    signed: int
    """The provider's own summary, which cannot be shortened."""
    rest: int
    """Everything else: what can be summarised, or its summary."""

    @property
    def whole(self) -> int:
        """The size of the whole context."""
        return self.opening + self.kept + self.signed + self.rest


class Trial(Struct, frozen=True, kw_only=True):
    """The result of a compaction."""

    name: str
    engine: EngineName
    left: tuple[str, ...]
    """Engines that were not used, with the reasons."""
    score: Score
    by_question: int
    """Facts that left the context and that recall finds by a question, not only by their own words."""
    unsampled: int
    """How many facts were not checked, because there were too many."""
    invented: tuple[str, ...]
    refused: tuple[str, ...]
    """Rules that the next request breaks."""
    moved: bool
    """Whether any byte ahead of the messages differs from the request before the compaction."""
    reopened: bool
    """Whether the session shows the same messages after it is reopened."""
    before: ContextSizes
    after: ContextSizes
    handed_on: int
    """Tokens of the previous summary, which must not fade."""
    summary: str

    @property
    def share(self) -> float:
        """The size of the context after the compaction, as a share of its size before."""
        return self.after.whole / self.before.whole

    @property
    def why_large(self) -> str:
        """The main reason why the context is too large: empty if it is not, a question mark if nothing explains it."""
        if self.share <= LARGEST_SHARE:
            return ""
        allowed = self.handed_on + LARGEST_SHARE * (self.before.rest - self.handed_on)
        if self.after.rest > max(LEAST_SUMMARY, allowed):
            return "?"
        parts = {
            "system and tools": self.after.opening,
            "the newest round": self.after.kept,
            "the provider's own summary": self.after.signed,
            "the summary before": self.handed_on,
            "the least summary": self.after.rest if self.after.rest <= LEAST_SUMMARY else 0,
        }
        return max(parts, key=lambda part: parts[part])

    @property
    def holds(self) -> bool:
        """Whether every requirement is met."""
        wrong = self.score.lost or self.invented or self.refused or self.moved or not self.reopened
        return not wrong and self.why_large != "?"


def run_trial(
    cut: Cut, engine: EngineName | None, *, client: Client | None = None, model: str = MODEL
) -> Trial:
    """Open the session, compact it, and judge the result; raises `Refused` if there is nothing to compact."""
    session, store = open_session(cut, client=client, model=model)
    with session:
        body, before = _next_body(session), list(session.conversation.transcript.view.items)
        done = session.compact(engine=engine) if engine else session.compact()
        if done is None:
            raise Refused("the compaction was refused, and no listener was asked")
        store.recall.catch_up()
        after = list(session.conversation.transcript.view.items)
        return _looked_at(cut.name, session, store, done, (body, _next_body(session)), (before, after))


def open_session(
    cut: Cut,
    *,
    client: Client | None = None,
    model: str = MODEL,
    clock: Clock | None = None,
    listen: Iterable[Listener] = (),
) -> tuple[Session, SessionParts]:
    """Open the session in memory, as it was before the call, with the tools of `KINDS`; returns it and its parts."""
    store = factory.in_memory(cut.name, ALONE)
    store.log.append(cut.lines)
    tools = [tool_named(name) for name in KINDS]
    given: factory.Options = {"system": SYSTEM, "tools": tools, "listen": listen}
    if clock is not None:
        given["clock"] = clock
    return Session(factory.conversation(store, model, given), store, client), store


def tool_named(name: str) -> factory.Tool:
    """A tool with this name, which must be one of `KINDS`."""
    schema = {"name": name, "description": DESCRIPTION, "input_schema": {"type": "object"}}
    return tool(schema, kind=KINDS[name])


def _next_body(session: Session) -> bytes:
    """The body of the next request; empty if the conversation is too large for one."""
    try:
        return session.prepare().body
    except ContextFull:
        return b""


def _looked_at(
    name: str,
    session: Session,
    store: SessionParts,
    done: Compacted,
    bodies: tuple[bytes, bytes],
    items: tuple[Sequence[Item], Sequence[Item]],
) -> Trial:
    before, after = items
    stayed, known = _ids(after), _ids(before)
    hidden = [item for item in before if item.record.uuid not in stayed]
    kept = [item for item in before if item.record.uuid in stayed]
    new = [item for item in after if item.record.uuid not in known]
    facts = fidelity.sample(hidden, later_rounds_visible=bool(kept))
    score = fidelity.judge(facts.probes, fidelity.texts(after), by_recall(store.recall.index))
    answers = by_question(store.recall.index)
    left = [probe for probe, state in score.states if state != "in_context"]
    view, profile = session.conversation.transcript.view, session.conversation.profile
    request = msgspec.json.decode(bodies[1])
    shared = [body.partition(_MESSAGES)[0] for body in bodies if body]
    opening = opening_tokens(bodies[1], profile.tokenizer)
    return Trial(
        name=name,
        engine=done.engine,
        left=tuple(f"{one.engine}: {one.reason}" for one in done.left),
        score=score,
        by_question=sum(answers(probe) for probe in left),
        unsampled=sum(facts.left_out.values()),
        invented=tuple(made_up(new, before, store.log)),
        refused=tuple(
            one.message for one in refusals(request["messages"], facts=RuleFacts.of(find(profile.model)))
        ),
        moved=len(set(shared)) != 1,
        reopened=resume(store.log).encoded() == view.encoded(),
        before=_sizes(opening, kept, hidden, profile.tokenizer),
        after=_sizes(opening, kept, new, profile.tokenizer),
        handed_on=shown_tokens([one for one in hidden if one.record.summary], profile.tokenizer),
        summary=done.summary,
    )


def made_up(new: Sequence[Item], before: Sequence[Item], log: Log) -> Iterator[str]:
    """Planted lies that are shown without a mark, and other claims that no record supports."""
    shown = "\n".join(fidelity.texts(new))
    for lie in PLANTED:
        unmarked = shown.count(lie) - shown.count(f"{lie} {MARK}")
        # A signed summary cannot be marked: its unsupported claims are listed after it.
        if unmarked and f"\n- {lie}\n" not in shown:
            yield lie
    others = (one for one in unsupported([shown], before, log) if not any(lie in one for lie in PLANTED))
    yield from (one for one in others if f"\n- {one}\n" not in shown)


def _ids(items: Sequence[Item]) -> set[str]:
    return {item.record.uuid for item in items}


def _sizes(opening: int, kept: Sequence[Item], others: Sequence[Item], tokenizer: str) -> ContextSizes:
    signed = shown_tokens(others, tokenizer, "compaction")
    return ContextSizes(
        opening, shown_tokens(kept, tokenizer), signed, shown_tokens(others, tokenizer) - signed
    )


def shown_tokens(items: Sequence[Item], tokenizer: str, kind: str = "") -> int:
    """The tokens of all blocks that these items show, or only of the blocks of one kind."""
    shown = [block for item in items for block in item.shown if kind in ("", block.kind)]
    return _tokens([msgspec.json.decode(block.raw) for block in shown], tokenizer)


def body_tokens(body: bytes, tokenizer: str) -> int:
    """The tokens of a whole request."""
    messages = msgspec.json.decode(body)["messages"]
    said = [block for message in messages for block in message["content"]]
    return opening_tokens(body, tokenizer) + _tokens(said, tokenizer)


def opening_tokens(body: bytes, tokenizer: str) -> int:
    """The tokens of the system prompt and tools in a request."""
    request = msgspec.json.decode(body)
    return _tokens([*request.get("tools", ()), *request.get("system", ())], tokenizer)


def _tokens(parts: Sequence[Mapping[str, Any]], tokenizer: str) -> int:
    counter = Counter()
    return sum(counter.block(part, tokenizer) for part in parts)


class Accepted(Struct, frozen=True):
    """The simulated provider's reply to the request after a compaction."""

    refused: str
    """Its error; empty if it accepted the request."""
    shared: int
    """Tokens of the system prompt and tools, which are the same in every request."""
    read: int
    """Tokens it read from the cache."""

    @property
    def holds(self) -> bool:
        """Whether the request was accepted and at least the system prompt and tools were read from the cache."""
        return not self.refused and self.read >= self.shared > 0


def send(cut: Cut, engine: EngineName = "extractive", *, model: str = MODEL) -> Accepted:
    """Continue a recorded session for one request, compact it, and send the next request."""
    provider, events = ReplayProvider(), list[Event]()
    provider.cue = Cue(ANSWER)

    def hear(event: Event) -> None:
        events.append(event)

    with provider.client() as client:
        session, _ = open_session(cut, client=client, model=model, clock=provider.clock, listen=[hear])
        with session:
            try:
                session.complete()
                session.compact(engine=engine)
                session.user("Please go on.")
                session.complete()
            except ModelError as error:
                return Accepted(f"{type(error).__name__}: {error}", 0, 0)
            shared = opening_tokens(session.at(-1), session.conversation.profile.tokenizer)
    answered = [event for event in events if isinstance(event, Answered)]
    return Accepted("", shared, answered[-1].cache_read_tokens)
