"""What the tools answer, as plain data. Each answer is bounded, and says where there is more."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from sevenfold.doors.mcp_server.sessions import SessionShelf
from sevenfold.doors.plugins.tail import newest_answer
from sevenfold.errors import InputError, UserError

if TYPE_CHECKING:
    from sevenfold.archive.sessions import StoredSession
    from sevenfold.archive.transcript import ArchivedSession
    from sevenfold.recall.search import Hit, Near

MOST_HITS = 20
MOST_CHARACTERS = 20_000
"""Characters of a text in one answer. Claude Code warns at about 40,000 and cuts at 100,000."""
SECONDS = 20.0
"""How long one search over several sessions may take; the rest are counted as not searched."""
_LONGEST = 600
"""Characters of an excerpt."""
_MOST_ENTRIES = 100
_MOST_CAUSES = 8

SessionName = Annotated[
    str,
    Meta(description="Id, beginning of an id, or title of a session; empty for the one in this window."),
]


# -- recall ----------------------------------------------------------------------------------------


class RecallQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``recall``."""

    query: Annotated[str, Meta(min_length=1, max_length=2_000, description="Words, a name or a quotation.")]
    scope: Annotated[
        Literal["session", "project", "everything"],
        Meta(description="This session, all sessions of this project, or all on this machine."),
    ] = "session"
    session: SessionName = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_HITS)] = 8
    still_in_context: Annotated[
        bool, Meta(description="Also search what the session still has in its context.")
    ] = False


class Found(Struct, frozen=True):
    """A record that matches."""

    session: str
    record: str
    kind: str
    when: str
    text: str
    before: str = ""
    after: str = ""
    weak: bool = False
    """Whether it only is the nearest there is."""


class RecallAnswer(Struct, frozen=True):
    """The answer of ``recall``."""

    found: list[Found]
    searched: int
    """How many sessions were searched."""
    not_searched: int = 0
    """How many were left out, the oldest, because it took too long."""
    unreadable: int = 0


def recall(shelf: SessionShelf, question: RecallQuestion) -> RecallAnswer:
    """Search one session or several for what was said."""
    if question.scope == "session":
        session = shelf.named(question.session)
        hits = session.recall(question.query, k=question.limit, everything=question.still_in_context)
        return RecallAnswer([_found(session.path.stem, hit) for hit in hits], 1)
    if question.session:
        raise InputError(f"session and scope={question.scope} exclude each other; leave one of them out")
    stored = shelf.here() if question.scope == "project" else shelf.everywhere()
    return _recall_in(shelf, stored, question)


def _recall_in(shelf: SessionShelf, stored: list[StoredSession], question: RecallQuestion) -> RecallAnswer:
    deadline = time.monotonic() + SECONDS
    hits: list[tuple[StoredSession, Hit]] = []
    searched = unreadable = 0
    for session in stored:
        if time.monotonic() > deadline:
            break
        searched += 1
        try:
            session_hits = shelf.opened(session.path).recall(
                question.query, k=question.limit, everything=True
            )
        except (UserError, OSError):
            # A damaged session of another project must not hide what the others hold.
            unreadable += 1
            continue
        hits += [(session, hit) for hit in session_hits]
    hits.sort(key=lambda entry: (entry[1].weak, not entry[1].exact, -entry[1].score))
    best = [_found(session.name, hit) for session, hit in hits[: question.limit]]
    return RecallAnswer(best, searched - unreadable, len(stored) - searched, unreadable)


def _found(session: str, hit: Hit) -> Found:
    kind = f"{hit.kind} ({hit.tool})" if hit.tool else hit.kind
    return Found(
        session,
        hit.uuid,
        kind,
        hit.timestamp,
        hit.excerpt[:_LONGEST],
        _neighbours(hit.before),
        _neighbours(hit.after),
        hit.weak,
    )


def _neighbours(near: tuple[Near, ...]) -> str:
    return "\n".join(f"{record.kind}: {record.text}" for record in near)[:_LONGEST]


# -- one record --------------------------------------------------------------------------------------


class RecordQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``read_record``."""

    record: Annotated[str, Meta(min_length=1, max_length=200, description="Its id, as recall gives it.")]
    session: SessionName = ""
    start: Annotated[int, Meta(ge=0, description="Begin at this character of its text.")] = 0


class RecordAnswer(Struct, frozen=True):
    """The answer of ``read_record``."""

    speaker: str
    when: str
    in_context: bool
    """Whether the model sees it, unchanged."""
    text: str
    characters: int
    """How many its whole text has."""
    next: int | None = None
    """Where to go on reading; null at the end."""


def read_record(shelf: SessionShelf, question: RecordQuestion) -> RecordAnswer:
    """The whole text of one record, in parts if it is long."""
    session = shelf.named(question.session)
    record = next((record for record in session.records() if record.id == question.record), None)
    if record is None:
        raise InputError(f"{question.record}: this session has no record with this id; recall gives ids")
    end = question.start + MOST_CHARACTERS
    following = end if end < len(record.text) else None
    text = record.text[question.start : end]
    return RecordAnswer(
        record.speaker, record.timestamp, record.in_context, text, len(record.text), following
    )


# -- what left the context ------------------------------------------------------------------------------


class LeftQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``left_context``."""

    session: SessionName = ""
    part: Annotated[
        Literal["all", "words", "things", "state"],
        Meta(
            description="The user's words, permissions and open work; files and names; failures and the current"
            " step; or all of them."
        ),
    ] = "all"
    characters: Annotated[int, Meta(ge=500, le=MOST_CHARACTERS)] = 9_000


class LeftAnswer(Struct, frozen=True):
    """The answer of ``left_context``."""

    text: str
    """Empty if nothing that matters left the context."""
    session: str


def left_context(shelf: SessionShelf, question: LeftQuestion) -> LeftAnswer:
    """What the session's compactions took out of the context and matters."""
    session = shelf.named(question.session)
    part = None if question.part == "all" else question.part
    return LeftAnswer(session.facts(question.characters, part), session.path.stem)


# -- costs ------------------------------------------------------------------------------------------


class CostsQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``session_costs``."""

    session: SessionName = ""


class CacheLoss(Struct, frozen=True):
    """What broke the cache, all times together."""

    cause: str
    times: int
    tokens: int
    """Prompt tokens that were paid for again."""
    usd: float | None
    """What they cost beyond reading them from the cache."""


class CostsAnswer(Struct, frozen=True):
    """The answer of ``session_costs``; money is in US dollars at API prices, null if no price is known."""

    session: str
    usd: float | None
    usd_without_cache: float | None
    calls: int
    models: dict[str, int]
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that were read from the cache."""
    output_tokens: int
    compactions: int
    cache_losses: list[CacheLoss]
    """The dearest first."""
    context_tokens: int | None
    """The size of the context after the newest answer."""
    window_tokens: int | None
    cache_warm_until: str | None
    """When the cache expires; null if it has expired, or is not known."""


def session_costs(shelf: SessionShelf, question: CostsQuestion) -> CostsAnswer:
    """What the session cost, and what its cache lost and why."""
    session = shelf.named(question.session)
    profile = session.profile()
    newest = newest_answer(session.path)
    expires = newest.at + newest.lifetime if newest else 0.0
    warm = datetime.fromtimestamp(expires).astimezone().isoformat() if expires > time.time() else None
    return CostsAnswer(
        session.path.stem,
        profile.cost_usd,
        profile.uncached_cost_usd,
        profile.api_calls,
        profile.models,
        profile.usage.prompt,
        profile.usage.cache_read_input_tokens,
        profile.usage.output_tokens,
        profile.compactions,
        _losses(session)[:_MOST_CAUSES],
        newest.context if newest else None,
        profile.window_tokens,
        warm,
    )


def _losses(session: ArchivedSession) -> list[CacheLoss]:
    by_cause: dict[str, CacheLoss] = {}
    for broken in session.profile().cache_breaks:
        loss_so_far = by_cause.get(broken.cause, CacheLoss(broken.cause, 0, 0, 0.0))
        unknown = loss_so_far.usd is None or broken.cost_usd is None
        usd = None if unknown else (loss_so_far.usd or 0.0) + (broken.cost_usd or 0.0)
        by_cause[broken.cause] = CacheLoss(
            broken.cause, loss_so_far.times + 1, loss_so_far.tokens + broken.tokens, usd
        )
    return sorted(by_cause.values(), key=lambda loss: -loss.tokens)


# -- memory ----------------------------------------------------------------------------------------


class MemoryQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of ``memory``."""

    name: Annotated[
        str, Meta(max_length=200, description="An entry to read in full; empty to list them.")
    ] = ""


class MemoryLine(Struct, frozen=True):
    """An entry of memory."""

    name: str
    scope: str
    """Whether it is the project's or the user's."""
    about: str
    confirmed: bool
    """Whether the user said it, or has confirmed it."""
    text: str = ""


class MemoryAnswer(Struct, frozen=True):
    """The answer of ``memory``."""

    entries: list[MemoryLine]
    left_out: int = 0


def memory(shelf: SessionShelf, question: MemoryQuestion) -> MemoryAnswer:
    """What is remembered across sessions, of this project and of the user."""
    entries = _remembered(shelf, whole=bool(question.name))
    if question.name:
        entries = [entry for entry in entries if entry.name == question.name]
        if not entries:
            raise InputError(
                f"{question.name}: nothing is remembered under this name; leave it out for a list"
            )
    return MemoryAnswer(entries[:_MOST_ENTRIES], max(0, len(entries) - _MOST_ENTRIES))


def _remembered(shelf: SessionShelf, *, whole: bool) -> list[MemoryLine]:
    entries: list[MemoryLine] = []
    for scope in ("project", "user"):
        memory = shelf.memory(user=scope == "user")
        for known in memory.entries():
            if known.entry.has_expired(memory.today()):
                continue
            text = known.entry.body[:MOST_CHARACTERS] if whole else ""
            about = known.entry.description[:_LONGEST]
            entries.append(MemoryLine(known.entry.name, scope, about, known.stamp.trusted, text))
    return entries
