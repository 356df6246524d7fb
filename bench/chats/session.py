"""A chat held in a session that is compacted again and again, and what is left of its statements afterwards.

The chat is added piece by piece. After each of three equal parts the session is compacted, and in between whenever it
reaches the threshold of its window. Then the user says one more thing, and the bytes of the next request are searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from bench.chats.statements import Statement
from bench.chats.talk import Chat
from bench.trials.trial import ALONE, shown_tokens
from sevenfold.archive.fidelity.reader import strings
from sevenfold.conversation.resume import read
from sevenfold.errors import ContextFull, Refused
from sevenfold.layers.compact.compaction import Compacted, EngineName
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.layers.compact.recogniser import nothing
from sevenfold.ports import Client
from sevenfold.record import blocks
from sevenfold.record.entries import Said
from sevenfold.session import factory
from sevenfold.session.factory import SessionParts
from sevenfold.session.session import Session

MODEL = "claude-sonnet-5-5"
CYCLES = 3
HITS = 10
PIECE = 0.1
"""How much is added before the size is looked at, as a share of the window."""
MAX_TOKENS = 1_024
LEFT_OUT = re.compile(r"No room was left for [\d,]+ more message")
"""How a request says that something of the user's is not in it."""
LAST = "Good. What is next?"
Message = Mapping[str, Any]


class Growth(Struct, frozen=True):
    """The tokens of the messages before and after a compaction."""

    before: int
    after: int

    @property
    def share(self) -> float:
        """The size after it as a share of the size before it."""
        return self.after / max(1, self.before)


class Kept(Struct, frozen=True):
    """What became of a statement."""

    statement: Statement
    compactions: int
    """How many compactions it went through."""
    in_request: bool
    """Whether the next request contains it to the letter."""
    by_question: bool
    """Whether recall finds it by the question a person would ask."""
    by_other_words: bool
    """Whether recall finds it by a question that shares few words with it."""
    by_own_words: bool
    """Whether recall finds it by its own words."""


class Held(Struct, frozen=True):
    """The result of a chat."""

    name: str
    window: int
    kept: tuple[Kept, ...]
    compactions: tuple[Growth, ...]
    not_made: int
    """Compactions that were asked for and not made."""
    user_tokens: int
    """Tokens of everything the user said."""
    user_messages: int
    summary_tokens: int
    """Tokens of the message with the last summary."""
    sent: bool
    """Whether a next request could be made."""
    context: str
    """All texts in the messages of the next request."""
    says_left_out: bool
    """Whether the next request says that some of the user's words are not in it."""


def hold(
    chat: Chat,
    window: int,
    *,
    engine: EngineName | None = "extractive",
    client: Client | None = None,
    cycles: int = CYCLES,
    recogniser: bool = True,
) -> Held:
    """Hold a chat in a session of this window and compact it at least this many times.

    Without the ``recogniser``, code does not look at what the user's words say.
    """
    messages = [{"role": line.role, "content": line.text} for line in chat.lines]
    said = {placed.message: placed.statement for placed in chat.placed}
    return hold_messages(
        chat.name,
        messages,
        said,
        window,
        engine=engine,
        client=client,
        cycles=cycles,
        recogniser=recogniser,
    )


def hold_messages(
    name: str,
    messages: Sequence[Message],
    said: Mapping[int, Statement],
    window: int,
    *,
    engine: EngineName | None = "extractive",
    client: Client | None = None,
    cycles: int = CYCLES,
    recogniser: bool = True,
) -> Held:
    """Hold a conversation, given as messages and the statements in some of them, by the number of the message."""
    store = factory.in_memory(name, {**ALONE, "context_window": window})
    options: factory.Options = {"max_tokens": MAX_TOKENS}
    session = Session(factory.conversation(store, MODEL, options), store, client)
    with session:
        if not recogniser:
            session.conversation.state(Compactor).recognise = nothing
        course = _Course(session, engine)
        ends = [_safe_end(messages, len(messages) * cycle // cycles) for cycle in range(1, cycles + 1)]
        passed: dict[int, int] = {}
        for size in _pieces(messages, ends, session.gauge.effective):
            session.sync(messages[:size])
            for number in said:
                if number < size:
                    passed.setdefault(number, len(course.made))
            if size in ends or session.gauge.seen >= session.gauge.threshold:
                course.compact()
        session.sync([*messages, {"role": "user", "content": LAST}])
        shown, sent = _next_texts(session)
        store.recall.catch_up()
        records = _texts_of_records(store)
        kept = [
            Kept(
                statement,
                len(course.made) - passed[number],
                statement.text in shown,
                _finds(session, records, statement.question, statement.text),
                _finds(session, records, statement.other_words, statement.text),
                _finds(session, records, statement.text, statement.text),
            )
            for number, statement in said.items()
        ]
        tokenizer = session.conversation.profile.tokenizer
        users = list(users_texts(messages))
        return Held(
            name=name,
            window=session.gauge.context,
            kept=tuple(kept),
            compactions=tuple(course.made),
            not_made=course.not_made,
            user_tokens=sum(map(session.conversation.count, users)),
            user_messages=len(users),
            summary_tokens=shown_tokens(
                [item for item in session.conversation.transcript.view.items if item.record.summary],
                tokenizer,
            ),
            sent=sent,
            context=shown,
            says_left_out=bool(LEFT_OUT.search(shown)),
        )


def users_texts(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts of the user's messages, without tool results."""
    for message in messages:
        if message["role"] == "user":
            content = message["content"]
            if isinstance(content, str):
                yield content
            else:
                yield from (part["text"] for part in content if part["type"] == "text")


class _Course:
    """The compactions of a session, as they are made."""

    def __init__(self, session: Session, engine: EngineName | None) -> None:
        self._session = session
        self._engine = engine
        self.made: list[Growth] = []
        self.not_made = 0

    def compact(self) -> None:
        before = self._size()
        try:
            done = self._session.compact(engine=self._engine) if self._engine else self._session.compact()
        except Refused:
            self.not_made += 1
            return
        if is_made(done):
            self.made.append(Growth(before, self._size()))
        else:
            self.not_made += 1

    def _size(self) -> int:
        conversation = self._session.conversation
        return shown_tokens(conversation.transcript.view.items, conversation.profile.tokenizer)


def is_made(done: Compacted | None) -> bool:
    """Whether a compaction was made."""
    return done is not None and done.made


def _pieces(messages: Sequence[Message], ends: Sequence[int], window: int) -> Iterator[int]:
    """Yield how many messages the conversation has after each piece; each end is among them."""
    size = 0.0
    for number, message in enumerate(messages, 1):
        # Four bytes a token are near enough to decide when to look.
        size += len(msgspec.json.encode(message["content"])) / 4
        if number in ends or (size >= window * PIECE and _may_end(messages, number)):
            size = 0.0
            yield number


def _safe_end(messages: Sequence[Message], size: int) -> int:
    """The first size from this one on at which no call is parted from its result."""
    while not _may_end(messages, size):
        size += 1
    return size


def _may_end(messages: Sequence[Message], size: int) -> bool:
    return size == len(messages) or not _is_result(messages[size])


def _is_result(message: Message) -> bool:
    content = message["content"]
    return not isinstance(content, str) and any(part["type"] == "tool_result" for part in content)


def _next_texts(session: Session) -> tuple[str, bool]:
    """All texts in the messages of the next request, and whether it can be sent."""
    try:
        body = session.prepare().body
    except ContextFull:
        view = session.conversation.transcript.view
        return "\n".join(
            text for raw in view.messages() for text in strings(msgspec.json.decode(raw.raw))
        ), False
    return "\n".join(strings(msgspec.json.decode(body)["messages"])), True


def _texts_of_records(store: SessionParts) -> dict[str, str]:
    """The texts of all records, except summaries."""
    texts: dict[str, str] = {}
    for _, entry in read(store.log):
        if isinstance(entry, Said) and not entry.summary:
            texts[entry.uuid] = "\n".join(map(blocks.words_of, entry.blocks))
    return texts


def _finds(session: Session, records: Mapping[str, str], query: str, text: str) -> bool:
    """Whether a model that asks recall sees a record with this text: its tool shows weak matches too."""
    hits = session.recall(query, most=HITS, weak=True)
    return any(text in records.get(hit.uuid, "") for hit in hits)
