"""Turns an engine's draft into the final summary: marks unsupported claims, adds facts from code, and scores it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import in_thread
from sevenfold.conversation.resume import read
from sevenfold.errors import Aborted
from sevenfold.layers.compact import summary
from sevenfold.layers.compact.compaction import Fact
from sevenfold.layers.compact.extract import facts as facts_of
from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.notation import Facts, QuotedMessage
from sevenfold.layers.compact.extract.words import whole_text
from sevenfold.layers.compact.summary.draft import Failure, words_of
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import mark
from sevenfold.layers.compact.user_record import originals
from sevenfold.prompts.context import Unsupported
from sevenfold.record import blocks
from sevenfold.record.coverage import Coverage, State
from sevenfold.record.entries import Said

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.flow import Flow
    from sevenfold.layers.compact.engines import Attempt
    from sevenfold.layers.compact.scope import Scope
    from sevenfold.layers.compact.user_record import Pool, Shown
    from sevenfold.ports import Recall

MISSING_TOKENS = 1_000
"""The most tokens for the list of lost facts appended to the summary."""
HITS = 10
"""A fact is reachable if its record is among this many search hits."""


class Verdict(Struct, frozen=True):
    """The final summary, and how complete it is."""

    text: str
    score: Coverage[Fact]
    left_out: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    """Sentences that claim a permission or an order that no record supports; they are marked."""
    behind: str = ""
    """Text to send after a signed block, which cannot be changed."""


def check(
    c: Conversation, attempt: Attempt, divided: Scope, pool: Pool, shown: Shown, room: int
) -> Flow[Verdict]:
    """Mark a draft, add the facts that code extracts, fit it into ``room`` tokens and score it.

    The user's words in ``shown`` stand behind the summary and take none of its room.
    """
    recall = yield from _caught_up(c)
    return (yield from in_thread(partial(_verdict, c, attempt, divided, pool, shown, room, recall)))


def _caught_up(c: Conversation) -> Flow[Recall | None]:
    """Bring the recall index up to date; None if recall is unavailable, so the summary must contain everything."""
    if c.services.recall is None:
        return None
    try:
        yield from in_thread(c.services.recall.catch_up)
    except Aborted:
        raise
    except Exception as error:  # noqa: BLE001 (an index can be made again at any time; the compaction continues)
        c.events.aside("recall", f"recall is not up to date: {error}", error=error)
        return None
    return c.services.recall


def _verdict(
    c: Conversation,
    attempt: Attempt,
    divided: Scope,
    pool: Pool,
    shown: Shown,
    room: int,
    recall: Recall | None,
) -> Verdict:
    """Build and score the final summary; for a signed block, the marks and facts go into a text after it."""
    # Folded records are read in their original form, so that their facts do not depend on the fold's summary.
    hidden = originals(c.transcript.view, divided.hidden)
    facts = _with_words(facts_of(hidden, c.kinds), pool)
    evidence = Evidence(facts, (*divided.front, *hidden, *divided.behind), partial(_everything_said, c))
    listed = _without_shown(facts, shown)
    if isinstance(attempt.outcome, Failure):
        marked = mark(facts.prose, evidence)
        completed_facts = replace(listed, prose=marked.sections)
        written = summary.extractive(completed_facts, room, c.count, span=divided.span, apart=True)
    else:
        marked = mark({n: text for n, text in attempt.outcome.sections.items() if n != 6}, evidence)
        written = summary.combine(marked.sections, listed, room, c.count, span=divided.span, apart=True)
    text = written.text
    claims = marked.sentences
    context = [*shown.texts, *(whole_text(item) for item in divided.kept)]
    if attempt.signed is not None:
        signed_text = words_of(blocks.read(attempt.signed))
        context.append(signed_text)
        claims = summary.unsupported(signed_text, evidence)
        text = summary.sections(listed, room, c.count, span=divided.span, apart=True).text
        if claims:
            text = f"{Unsupported.of(claims).render()}\n\n{text}"

    def is_reachable(fact: Fact) -> bool:
        hits = recall.found(fact.text, (), HITS) if recall is not None else ()
        return any(hit.exact or hit.uuid.startswith(fact.record) for hit in hits)

    score = cover(facts, [text, *context], is_reachable)
    if score.lost:
        text = f"{text}\n\n{missing(score.lost, c.window.budget(MISSING_TOKENS), c.count)}"
        score = cover(facts, [text, *context], is_reachable)
    if attempt.signed is None:
        return Verdict(text, score, written.left_out, claims)
    return Verdict(written.text, score, written.left_out, claims, behind=text)


def _with_words(facts: Facts, pool: Pool) -> Facts:
    """The facts with the user's messages from the record, instead of what an earlier summary said about them."""
    messages = tuple(QuotedMessage(message.record, message.text) for message in pool.messages)
    said_by_user = "\n".join(_plain(spoken.text) for spoken in pool.spoken)
    prose = dict(facts.prose)
    # Messages that only an earlier summary has, because their records are in another file, stay what they are: prose.
    without_record = [message for message in facts.messages if _plain(message.head) not in said_by_user]
    if without_record:
        quoted = map(notation.quoted, without_record)
        prose[6] = "\n\n".join(filter(None, [prose.get(6), *quoted]))
    elif pool.spoken and len(pool.since) < len(pool.spoken):
        prose.pop(6, None)
    return replace(
        facts,
        messages=messages,
        # Answers are among the user's words; what stays here are plans that were agreed to.
        replies=tuple(
            reply for reply in facts.replies if _plain(reply.text).rstrip("…") not in said_by_user
        ),
        prose=prose,
        names={**facts.names, **pool.names},
    )


def _without_shown(facts: Facts, shown: Shown) -> Facts:
    """The facts without the corrections that the user's words behind the summary show anyway."""
    shown_whole = sorted(entry.message.record for entry in shown.selection.shown if not entry.lost)

    def is_shown(citation: str) -> bool:
        # A citation is the beginning of a record's id, so the first id that does not come before it decides.
        first = bisect_left(shown_whole, citation)
        return first < len(shown_whole) and shown_whole[first].startswith(citation)

    corrections = tuple(correction for correction in facts.corrections if not is_shown(correction.record))
    left_out = facts.left_out if shown.left_out else {**facts.left_out, "corrections": 0}
    return replace(facts, corrections=corrections, left_out=left_out)


def _everything_said(c: Conversation) -> Iterator[Said]:
    """Every content record of the session, including those before earlier compactions."""
    for _, entry in read(c.transcript.log):
        if isinstance(entry, Said) and not entry.sidechain:
            yield entry


# -- coverage ----------------------------------------------------------------------------------
# Checks that every fact code can extract is, after a compaction, in the context or reachable by recall. Facts that are
# neither are appended to the summary, so that no compaction loses them (S4.12, S10.3).

_EVERY = 1_000_000
_KINDS = {
    "user_message": (_EVERY, "message of the user"),
    "decision": (30, "settled"),
    "correction": (30, "correction by the user"),
    "pending_task": (30, "open task"),
    "edited_file": (40, "changed file"),
    "error": (20, "failure"),
    "identifier": (40, "exact name"),
}
"""The kinds of facts to look for, the most important first: the most of each, so that the check stays cheap, and its
name in the text."""
HEADING = (
    "Facts from the conversation before this point that the summary does not hold, each with its record:"
)
_EDGE = 80
"""Characters at each end of a cut message that must be in the context."""
_SHORTENED = 160
"""Characters to which a lost fact is shortened if it does not fit in full."""


def cover(facts: Facts, context: Sequence[str], reaches: Callable[[Fact], bool]) -> Coverage[Fact]:
    """Look for the facts in what the model will see; ``reaches`` says whether recall finds one that is not there."""
    context_text = "\n".join(map(_plain, context))
    return Coverage(tuple((fact, _state(fact, context_text, reaches)) for fact in _wanted(facts)))


def missing(lost: Iterable[Fact], room: int, count: Callable[[str], int]) -> str:
    """The lost facts as text to append, the most important first; those that do not fit are shortened or counted."""
    lines = [HEADING]
    left_out = 0
    room -= count(HEADING)
    for fact in lost:
        text = " ".join(fact.text.split())
        half = _SHORTENED // 2
        short = text if len(text) <= _SHORTENED else f"{text[:half]} […] {text[-half:]}"
        forms = (f"- {_KINDS[fact.kind][1]} [{fact.record}]: {shown_text}" for shown_text in (text, short))
        line = next((line_form for line_form in forms if count(line_form) <= room), "")
        if line:
            lines.append(line)
            room -= count(line)
        left_out += not line
    if left_out:
        lines.append(f"- and {left_out} more, for which there is no room")
    return "\n".join(lines)


def _wanted(facts: Facts) -> Iterator[Fact]:
    """The facts to look for, by kind."""
    # If an earlier summary cut a message, only its beginning can be looked for.
    facts_found = [
        Fact("user_message", message.head, message.record) for message in reversed(facts.messages)
    ]
    facts_found += [Fact("decision", reply.text, reply.record) for reply in reversed(facts.replies)]
    for permission in facts.permissions:
        # A bare "yes" says nothing by itself: what was agreed to is the proposal.
        text = permission.proposal or permission.text
        facts_found.append(Fact("decision", text, permission.proposed or permission.record))
    facts_found += [Fact("correction", quote.text, quote.record) for quote in facts.corrections]
    facts_found += [Fact("pending_task", task.text, task.record) for task in facts.tasks]
    for file in facts.files:
        if file.changed:
            tail = "/".join(file.path.replace("\\", "/").split("/")[-2:])
            facts_found.append(Fact("edited_file", file.path, file.last, (tail,)))
    for problem in facts.problems:
        lines = tuple(problem.lines.split(" ⏎ "))
        facts_found.append(Fact("error", problem.lines, problem.record, lines))
    facts_found += [Fact("identifier", name.text, name.record) for name in facts.identifiers]
    left_by_kind = {kind: limit for kind, (limit, _) in _KINDS.items()}
    for fact in facts_found:
        if fact.text.strip() and left_by_kind[fact.kind]:
            left_by_kind[fact.kind] -= 1
            yield fact


def _state(fact: Fact, context_text: str, reaches: Callable[[Fact], bool]) -> State:
    text = _plain(fact.text)
    accepted = filter(None, map(_plain, (fact.text, *fact.accepts)))
    if any(form in context_text for form in accepted):
        return "in_context"
    if not reaches(fact):
        return "lost"
    # A cut message counts as in the context if both its ends are there, as recall has the rest.
    ends = fact.kind == "user_message" and text[:_EDGE] in context_text and text[-_EDGE:] in context_text
    return "in_context" if ends else "reachable"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
