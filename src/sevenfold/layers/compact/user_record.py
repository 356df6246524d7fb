"""The user's messages behind a compaction: read from the record, never from the text of a summary.

What earlier compactions chose is in the carry record as data: which record, where it is in the log, and what a model
named in it. So a compaction reads the messages since the last one, which are in view, and those few older records. Only
where there is no such data, after an upgrade or behind another tool's compaction, the whole log is read once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import in_thread
from sevenfold.conversation.resume import fold
from sevenfold.layers.compact import naming, user_words
from sevenfold.layers.compact.extract.notation import short_names
from sevenfold.layers.compact.extract.words import is_words_block, users_words_in
from sevenfold.layers.compact.user_words import Selection, UserMessage
from sevenfold.prompts.compact import GivenTask, UserWords
from sevenfold.record import authorship, blocks, entries
from sevenfold.record.blocks import ToolUse
from sevenfold.record.decisions import CarriedWords, Carry, Fold, LeftOutWords
from sevenfold.record.entries import Queued, Said
from sevenfold.record.layout import Item
from sevenfold.record.window import FULL_SCALE, Window

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.conversation.flow import Flow
    from sevenfold.layers.compact.recogniser import Recogniser
    from sevenfold.layers.compact.scope import Scope
    from sevenfold.ports import Log
    from sevenfold.record.view import View

SMALL_WINDOW = 16_000
AGENT = "agent:"
"""How the query source of a sub-agent begins."""
_TASK = re.compile(r".+#\d+")
"""The key under which a sub-agent's task is recorded: its id, and the how-manieth task it is."""
KNOWN = 1_000
"""The most messages that were left out and can be offered to a model again; their records are read one by one."""
AGAIN = 400
"""The most of them that are offered in a compaction, those first that were offered least often."""
_LONGEST_NOTE = "no room was left for what follows, with its sorts and the records it is in " * 2


class Spoken(Struct, frozen=True):
    """What the user said in a record, and where the record is."""

    about: CarriedWords
    text: str


class Pool(Struct, frozen=True):
    """The user's messages that a compaction hides, from which its summary message shows as many as fit."""

    spoken: tuple[Spoken, ...] = ()
    """In the order of the record."""
    names: Mapping[str, str] = {}
    """Short forms of the ids of records."""
    since: frozenset[str] = frozenset()
    """The records among them that are in view: those said since the last compaction."""
    carried: frozenset[str] = frozenset()
    """The records among them that the summary messages showed until now."""
    passing: tuple[CarriedWords, ...] = ()
    """Messages in other summary messages, which stay in view."""
    left_out: Mapping[str, int] = {}
    """How many messages of each sort earlier compactions left out."""
    left_out_ends: tuple[str, ...] = ()
    not_shown: tuple[LeftOutWords, ...] = ()
    """The messages that earlier compactions left out, as far as they can still be offered."""
    again: tuple[Spoken, ...] = ()
    """Those of them that a model is asked about again, in the order of the record."""
    offered: Mapping[str, int] = {}
    """For these, in how many compactions it was asked before."""
    budget: int = 0

    @property
    def was_chosen(self) -> bool:
        """Whether a compaction before this one had to choose, and a model could say what lasts; else all has fitted."""
        return bool(self.left_out) or any(spoken.about.cut for spoken in self.spoken)

    @property
    def messages(self) -> tuple[UserMessage, ...]:
        """The messages to choose from."""
        return tuple(self._message(spoken) for spoken in self.spoken if spoken.about.kind != "task")

    @property
    def to_offer(self) -> tuple[UserMessage, ...]:
        """The messages of which a model may name any, with those left out before, in the order of the record."""
        if not self.again:
            return self.messages
        ordered = sorted((*self.again, *self.spoken), key=_position)
        return tuple(self._message(spoken) for spoken in ordered if spoken.about.kind != "task")

    def _message(self, spoken: Spoken) -> UserMessage:
        about = spoken.about
        kind: Literal["message", "answer"] = "answer" if about.kind == "answer" else "message"
        return UserMessage(
            about.record,
            spoken.text,
            self.names[about.record],
            kind,
            about.date,
            about.lasting,
            shown=self._shown(spoken),
            is_new=about.record in self.since,
            offered=self.offered.get(about.record, 0),
        )

    def _shown(self, spoken: Spoken) -> tuple[tuple[int, int], ...]:
        """The parts of a message that the summary message before showed; none of a new one."""
        if spoken.about.record not in self.carried:
            return ()
        return spoken.about.cut or ((0, len(spoken.text)),)

    @property
    def tasks(self) -> tuple[Spoken, ...]:
        """What other agents gave this one to do: always kept whole."""
        return tuple(spoken for spoken in self.spoken if spoken.about.kind == "task")


class Shown(Struct, frozen=True):
    """What a summary message shows of the user's words."""

    selection: Selection
    texts: tuple[str, ...]
    """The blocks behind the summary: the task of a sub-agent, and the user's words, as far as there are any."""
    tokens: int
    budget: int
    words: tuple[CarriedWords, ...] = ()
    """For the carry record; the summary's id is still missing."""
    left_out: Mapping[str, int] = {}
    """How many messages of each sort are left out, here and in earlier compactions."""
    left_out_ends: tuple[str, ...] = ()
    not_shown: tuple[LeftOutWords, ...] = ()
    """Those left out that can be offered to a model again."""


def budget_of(window: Window, tokens: int) -> int:
    """The budget for the user's words: ``tokens``, but at most a fifth of a smaller window, a quarter of a tiny one."""
    if window.capped >= FULL_SCALE:
        return tokens
    return min(tokens, window.capped // (4 if window.capped < SMALL_WINDOW else 5))


def originals(view: View, items: Iterable[Item]) -> list[Item]:
    """Folded records in their original form, so that what is known of them does not depend on the fold's summary."""
    folds = {decision.id for decision in view.decisions() if isinstance(decision, Fold)}
    return [Item.of(item.record, item.seq) if item.hidden_by in folds else item for item in items]


# -- gathering -------------------------------------------------------------------------------------


def gather(c: Conversation, divided: Scope) -> Flow[Pool]:
    """The messages that a compaction of this part hides; the log is read in a thread."""
    with c.lock:
        view = c.transcript.view
        hidden = originals(view, divided.hidden)
        positions = {item.record.uuid: view.position_of(item.record.uuid) for item in hidden}
        marks = _marks(view)
        words_kept = sum(c.count(blocks.words_of(block)) for block in _other_words(view, divided))
        budget = budget_of(c.window, c.settings.user_words)
    by_agent = c.source.name.startswith(AGENT)
    read = partial(_gathered, c.transcript.log, view.boundary, divided, hidden, positions, marks, by_agent)
    pool = yield from in_thread(read)
    around = c.count(UserWords("", _LONGEST_NOTE).render())
    return replace(pool, budget=max(0, max(budget // 4, budget - words_kept) - around))


def _other_words(view: View, divided: Scope) -> Iterator[blocks.Block]:
    """The blocks with the user's words that stay in view."""
    for item in divided.kept:
        if item.record.summary or item.hidden_by:
            yield from (block for block in item.shown if is_words_block(block))


def _marks(view: View) -> dict[str, CarriedWords]:
    """What folds know about the messages they hide."""
    marks: dict[str, CarriedWords] = {}
    for decision in view.decisions():
        if isinstance(decision, Fold) and decision.id not in view.undone:
            marks |= {carried.record: carried for carried in decision.named}
    return marks


def _gathered(
    log: Log,
    boundary: str | None,
    divided: Scope,
    hidden: Sequence[Item],
    positions: Mapping[str, int],
    marks: Mapping[str, CarriedWords],
    by_agent: bool,
) -> Pool:
    carry = _carry_of(log, boundary) if boundary else None
    summaries_kept = {item.record.uuid for item in divided.kept if item.record.summary}
    records_kept = {item.record.uuid for item in divided.kept}
    in_view = records_kept | {item.record.uuid for item in hidden}
    carried = _carried(log, carry, divided, in_view, by_agent=by_agent) if boundary else []
    lasting = {spoken.about.record: spoken.about.lasting for spoken in carried if spoken.about.lasting}
    lasting |= {record: named.lasting for record, named in marks.items()}
    passing = [spoken.about for spoken in carried if spoken.about.summary in summaries_kept]
    by_record = {
        spoken.about.record: spoken for spoken in carried if spoken.about.summary not in summaries_kept
    }

    since: set[str] = set()
    fresh = [item.record for item in hidden if not item.record.summary and not item.hidden_by]
    for spoken in spoken_in(fresh, positions, by_agent=by_agent):
        record = spoken.about.record
        since.add(record)
        about = replace(spoken.about, lasting=lasting.get(record, ()))
        by_record[record] = Spoken(about, spoken.text)
    # What is in a message that stays in view needs no line in the block.
    passing += [by_record.pop(record).about for record in records_kept & by_record.keys()]

    left_out = carry.not_shown if carry else ()
    not_shown = tuple(entry for entry in left_out if _is_gone(entry, by_record, in_view))
    # While the user says nothing new, nothing is chosen again; and a fold shows nothing but what it hides.
    offers = bool(since) and divided.span != "range"
    also_named = [item.record.uuid for item in hidden] + [entry.words.record for entry in not_shown]
    shown_before = {carried_words.record for carried_words in carry.words or ()} if carry else set()
    return Pool(
        spoken=tuple(sorted(by_record.values(), key=_position)),
        names=short_names([*by_record, *also_named]),
        since=frozenset(since),
        carried=frozenset(shown_before - since),
        passing=tuple(passing),
        left_out=carry.left_out if carry else {},
        left_out_ends=tuple(carry.left_out_ends) if carry else (),
        not_shown=not_shown,
        again=_again(log, not_shown) if offers else (),
        offered={entry.words.record: entry.offered for entry in not_shown},
    )


def _carried(
    log: Log, carry: Carry | None, divided: Scope, in_view: Collection[str], *, by_agent: bool
) -> list[Spoken]:
    """What the summary messages in view stand for: as the last compaction chose, or all there is if it did not."""
    if carry is not None and carry.words is not None:
        read = (_read(log, carried) for carried in carry.words)
        return [spoken for spoken in read if spoken is not None]
    oldest = next((item.record.uuid for item in divided.kept if item.record.summary), "")
    everything = _everything_before(log, oldest, by_agent=by_agent)
    return [spoken for spoken in everything if spoken.about.record not in in_view]


def _is_gone(left_out: LeftOutWords, by_record: Collection[str], in_view: Collection[str]) -> bool:
    """Whether a message that was left out is nowhere else."""
    return left_out.words.record not in by_record and left_out.words.record not in in_view


def _again(log: Log, not_shown: Iterable[LeftOutWords]) -> tuple[Spoken, ...]:
    """The messages left out that are offered again, read from the log: those first that were offered least often."""
    offered_least = sorted(not_shown, key=lambda entry: entry.offered)[:AGAIN]
    read = (_read(log, entry.words) for entry in offered_least)
    return tuple(sorted((spoken for spoken in read if spoken is not None), key=_position))


def _position(spoken: Spoken) -> float:
    # A message whose position is unknown is newer than all that are known.
    return inf if spoken.about.position < 0 else spoken.about.position


def _carry_of(log: Log, boundary: str) -> Carry | None:
    """The carry record of a boundary; the newest one in the log may belong to a compaction that was undone."""
    return next((carry for _, carry in log.decisions(Carry) if carry.boundary == boundary), None)


def _everything_before(log: Log, summary: str, *, by_agent: bool) -> Iterator[Spoken]:
    """Everything the user ever said on this branch; ``summary`` is the summary message that stands for it and stays."""
    led_to_tip = fold(log, weighs=False).led_to_tip()
    records = [record for _, record in led_to_tip if not record.summary]
    positions = {record.uuid: position for position, record in led_to_tip}
    for spoken in spoken_in(records, positions, by_agent=by_agent):
        yield Spoken(replace(spoken.about, summary=summary), spoken.text)


def _read(log: Log, carried: CarriedWords) -> Spoken | None:
    """The text of a carried message, from its record; None if the record is gone."""
    record = _record_at(log, carried)
    if record is None:
        return None
    tools = dict.fromkeys(record.answers, carried.tool)
    text = "\n".join(_texts(record, tools))
    return Spoken(carried, text) if text.strip() else None


def _record_at(log: Log, carried: CarriedWords) -> Said | None:
    if carried.position >= 0:
        _, line = next(iter(log.read(carried.position)), (0, b""))
        match entries.read(line):
            case Said() as record if record.uuid == carried.record:
                return record
            case Queued(message=record) if record.uuid == carried.record:
                return record
    # The position is wrong if the log was rewritten, as when a secret was purged.
    _, entry = log.record(carried.record) or (0, None)
    return entry if isinstance(entry, Said) else None


def spoken_in(
    records: Iterable[Said], positions: Mapping[str, int], *, by_agent: bool = False
) -> Iterator[Spoken]:
    """What the user said in these records: their messages, and their replies in the results of calls.

    ``by_agent``: in a sub-agent's conversation, messages with the key of a task are what it was given to do.
    """
    tools: dict[str, str] = {}
    for record in records:
        for block in record.blocks if record.calls else ():
            if isinstance(body := block.body(), ToolUse):
                tools[body.id] = body.name
        text = "\n".join(_texts(record, tools))
        if not text.strip():
            continue
        kind: Literal["message", "answer", "task"] = "answer" if record.answers else "message"
        if by_agent and _TASK.fullmatch(record.key):
            kind = "task"
        tool = next((tools[call] for call in record.answers if tools.get(call)), "")
        position = positions.get(record.uuid, -1)
        yield Spoken(CarriedWords(record.uuid, position, kind, record.timestamp[:10], tool), text)


def _texts(record: Said, tools: Mapping[str, str]) -> list[str]:
    """The user's words in a record: what they typed, and their replies in results of these tools' calls."""
    typed = users_words_in(record)
    results = [block for block in record.blocks if block.id in record.answers]
    replies = [authorship.reply(block, tools.get(block.id, "")) for block in results]
    return [text for text in (typed, *replies) if text.strip()]


# -- choosing --------------------------------------------------------------------------------------


def choose(
    c: Conversation,
    pool: Pool,
    names: Iterable[str],
    recognise: Recogniser,
    offered: Collection[str] = (),
) -> Shown:
    """What is shown of the messages; ``names`` are the lines with which a model named what lasts.

    ``offered`` are the records that it was asked about. What was left out before competes again only if it lasts.
    """
    left_out_before = {entry.words.record for entry in pool.not_shown}
    marked = naming.named(names, pool.to_offer)
    if pool.was_chosen:
        marked = naming.heeded(marked, c.count, recognise)
    messages = [message for message in marked if message.record not in left_out_before or message.marks]
    selection = user_words.select(messages, pool.budget, c.count, recognise)
    left_out = _counts(pool, selection)
    newly_left_out = [message.record for message, _ in selection.left_out]
    ends = [*pool.left_out_ends, *(record for record in newly_left_out if record not in left_out_before)]
    tasks = "\n\n".join(task.text for task in pool.tasks)
    texts = [GivenTask(tasks).render()] if pool.tasks else []
    text = user_words.block(selection)
    if text or left_out:
        note = _left_out_note(left_out, (ends[0], ends[-1]), pool.names) if left_out and ends else None
        texts.append(UserWords(text, note).render())
    about = {spoken.about.record: spoken.about for spoken in (*pool.again, *pool.spoken)}
    carried = [task.about for task in pool.tasks]
    for shown in selection.shown:
        cut = shown.spans if shown.lost else ()
        carried.append(replace(about[shown.message.record], lasting=shown.message.marks, cut=cut))
    return Shown(
        selection,
        tuple(texts),
        sum(map(c.count, texts)),
        pool.budget,
        tuple(carried),
        left_out,
        (ends[0], ends[-1]) if ends else (),
        _not_shown(pool, selection, about, frozenset(offered)),
    )


def _counts(pool: Pool, selection: Selection) -> dict[str, int]:
    """How many messages of each sort are left out by now: none twice, and none that found room after all."""
    sorts_before = {entry.words.record: entry.sort for entry in pool.not_shown}
    counts = Counter(pool.left_out)
    shown = [shown.message.record for shown in selection.shown]
    counts.subtract(sorts_before[record] for record in shown if record in sorts_before)
    counts.update(rank.plural for message, rank in selection.left_out if message.record not in sorts_before)
    return dict(+counts)


def _not_shown(
    pool: Pool, selection: Selection, about: Mapping[str, CarriedWords], offered: frozenset[str]
) -> tuple[LeftOutWords, ...]:
    """The messages left out that can be offered again, with how often they were; the first to go were offered most."""
    shown = {shown.message.record for shown in selection.shown}
    by_record = {entry.words.record: entry for entry in pool.not_shown if entry.words.record not in shown}
    for message, rank in selection.left_out:
        record = message.record
        carried = replace(about[record], lasting=message.marks, cut=(), summary="")
        earlier = by_record.get(record, LeftOutWords(carried, rank.plural, 0))
        by_record[record] = LeftOutWords(carried, earlier.sort, earlier.offered)
    entries_left = [
        replace(entry, offered=entry.offered + (record in offered)) for record, entry in by_record.items()
    ]
    # Of those offered equally often, the newer ones stay: the user is more likely to still mean them.
    entries_left.sort(key=lambda entry: (not entry.words.lasting, entry.offered, -entry.words.position))
    return tuple(sorted(entries_left[:KNOWN], key=lambda entry: entry.words.position))


def _left_out_note(left_out: Mapping[str, int], ends: tuple[str, str], names: Mapping[str, str]) -> str:
    """What is left out, counted by sort, and how to find it."""
    total = sum(left_out.values())
    sorts = ", ".join(f"{number:,} {sort}" for sort, number in left_out.items())
    first, last = (names.get(record, record[:8]) for record in ends)
    between = f"record {first}" if first == last else f"records {first} to {last}"
    return f"{total:,} more {'message' if total == 1 else 'messages'} ({sorts}; {between})"
