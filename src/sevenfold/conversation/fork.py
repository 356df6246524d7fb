"""A fork: a conversation that starts with its parent's exact bytes and continues separately.

It sends what its parent sends (system, tools, settings and messages), so it reads the parent's cache. Its own messages
follow, and a fork of one turn does not write them to the cache. None of it enters the parent's view, but the parent's
log records the fork's requests with the messages they added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Raw
from msgspec.structs import replace

from sevenfold.conversation import intake
from sevenfold.conversation.aside import ASIDE, Aside
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.request import (
    Outcome,
    Pending,
    Prepared,
    call_for,
    compose,
)
from sevenfold.conversation.turn import turn
from sevenfold.conversation.waiting import Retries
from sevenfold.errors import ContextFull, InputError, PromptTooLong
from sevenfold.ports import Log, Reply
from sevenfold.record import blocks
from sevenfold.record.blocks import PLACEHOLDER_CLEARED
from sevenfold.record.decisions import Forked, Request
from sevenfold.record.usage import Usage
from sevenfold.record.weight import total
from sevenfold.record.wire import NO_RESULT, Message, open_server_calls
from sevenfold.request.frame import Lifetimes

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation
    from sevenfold.record.blocks import Block
    from sevenfold.record.gauge import Size

SUMMARIES = "compact"
"""The source of requests for summaries: they may be as large as the window, and are made again with less."""
RETRIES = 2
"""How many times a fork's request is retried at most: its caller can do without the answer."""
UNDER_WAY = "[The result of this call is not known here: it is still under way in the main conversation]"


def fork(
    c: Conversation, source: str, shared: Sequence[Message] | None = None, upto: str | None = None
) -> Fork:
    """Fork a conversation for a question or two; the fork is not saved.

    ``shared`` are the messages it starts with, by default all those in view; ``upto`` is the record they end with, if
    they are the beginning of the view.
    """
    with c.lock:
        c.ladder.freeze(c)
        return Fork(c, source, shared, upto)


def begin_branch(c: Conversation, name: str) -> None:
    """Start a kept branch, in a conversation that has its parent's log; does nothing if the branch already exists.

    All tool calls without a result get the same placeholder result.
    """
    with c.lock:
        if any(forked.name == name for _, forked in c.transcript.log.decisions(Forked)):
            return
        c.set_epoch(replace(c.epoch, new_fork=True))
        with c.atomic():
            c.transcript.decide(Forked(name=name, source=c.source.name))
            if calls := c.transcript.view.pending_calls:
                c.tool_results([blocks.result(call, UNDER_WAY) for call in calls])


def in_agents_fork(log: Log) -> bool:
    """Whether a log belongs to an agent that started as a fork; such an agent is not forked again."""
    return any(forked.source.startswith("agent:") for _, forked in log.decisions(Forked))


class Fork(Aside):
    """A fork that is thrown away: its parent's state at the time of the fork, and the messages added here since."""

    def __init__(
        self, parent: Conversation, source: str, shared: Sequence[Message] | None, upto: str | None
    ) -> None:
        super().__init__(parent, source, parent.profile, parent.epoch)
        view = parent.transcript.view
        self.cache_key = parent.cache_key
        self._opened = view.epoch.id if view.epoch else ""
        """The epoch it was taken in."""
        messages_now = tuple(view.messages())
        messages = messages_now if shared is None else tuple(shared)
        self._shared = _valid_reasoning(parent, messages)
        begins_in_view = self._shared == messages_now or (upto is not None and self._shared == messages)
        self._tip = view.tip if begins_in_view else None
        """The parent's tip at the time of the fork; None if the fork starts with other messages than those in view."""
        self._upto = upto if self._shared != messages_now else None
        self._size = parent.size() if self._upto is None else _size_up_to(parent, self._upto)
        self._own: list[Message] = []
        if begins_in_view:
            # At first the parent's prefix is cached of its requests, then its own tail if it writes one.
            watched = parent.epoch.watched.up_to(len(self._shared))
            self.set_epoch(replace(parent.epoch, watched=watched))

    def cache_briefly(self) -> None:
        """Cache what this fork adds for the short lifetime, whatever its parent asks for."""
        lifetimes = replace(self.epoch.lifetimes, tail=Lifetimes().tail)
        watched = self.epoch.watched
        if watched.sent is not None:
            # The shorter lifetime of what is new loses nothing of what was sent before.
            watched = replace(watched, sent=replace(watched.sent, lifetimes=lifetimes))
        self.set_epoch(replace(self.epoch, lifetimes=lifetimes, watched=watched))

    def user(self, content: intake.Content) -> None:
        """Add a user message to the fork only."""
        self._add("user", self._parent.gated(intake.message(content)))

    def tool_results(self, results: Mapping[str, Any] | Iterable[Any]) -> None:
        """Add results for the fork's own tool calls."""
        self._add("user", self._parent.gated(intake.results(results)))

    def turn(self) -> Flow[Outcome]:
        """Ask once and return the outcome; after a temporary failure, retry after a pause."""
        return turn(self, retries=Retries(self._parent, source=self.source.name, most=RETRIES))

    def prepare(self) -> Prepared:
        """Record the fork's next request and return it; raises `ContextFull` if it cannot be made to fit."""
        self._must_be_sendable()
        return self.send(Pending(ASIDE, self._tip))

    def prepared(self, fields: Mapping[str, bytes]) -> Flow[Pending]:
        """Return the fork's next request; raises `PromptTooLong` if it does not fit."""
        yield from ()
        try:
            self._must_be_sendable()
        except ContextFull as full:
            # To the engine's own work it is the refusal that the provider would have answered with.
            raise PromptTooLong(str(full)) from full
        return Pending(ASIDE, self._tip, fields)

    def write(self, pending: Pending) -> Prepared:
        """Build the fork's next request, and record it in the parent's log with the messages it adds."""
        messages = (*self._shared, *self._own)
        frame = self.epoch.frame.with_fields(pending.fields)
        shared = None if self.source.writes_tail else len(self._shared)
        body, forecast = compose(self, frame, messages, self._parent.part_sizes(), shared=shared)
        written = self._own if self._tip is not None else messages
        record = Request(
            epoch=self._opened,
            tip=self._tip,
            source=self.source.name,
            parameters={name: Raw(raw) for name, raw in pending.fields.items()},
            appended=[Raw(message.raw) for message in written],
            upto=self._upto,
        )
        record = self._parent.record_request(record, body)
        return Prepared(body, call_for(self, body, frame), messages, self.size(), forecast, record)

    def take_answer(self, prepared: Prepared, reply: Reply) -> Outcome:
        """Add the answer to the fork, and bill it to the parent."""
        self._add("assistant", reply.answer.blocks)
        usage = Usage.read(reply.answer.usage)
        watched_before = self.epoch.watched
        watched, broken = watched_before.judge(usage, self.profile, keeps=self.source.writes_tail)
        self.set_epoch(replace(self.epoch, watched=watched))
        if broken is None and watched_before.sent is not None and watched_before.pending is not None:
            self._parent.cache_was_read(watched_before.sent, watched_before.pending.at)
        return self.settle(prepared, reply, usage, broken)

    def clear_results(self) -> bool:
        """Clear the results of its own earlier tool calls to make room; False if there are none to clear.

        The newest results stay: the model has not seen them yet.
        """
        begun = self._own[:1]
        earlier = self._own[1:-1]
        newest = self._own[-1:]
        cleared = [_without_results(message) for message in earlier]
        if cleared == earlier:
            return False
        if self.profile.thinking.bound:
            # What the model thought after one of these results is valid only behind the whole of it.
            cleared = [_without_reasoning(message) for message in cleared]
        self._own = [*begun, *cleared, *newest]
        self.set_epoch(self.epoch.announced("clear"))
        return True

    def size(self) -> Size:
        """The size of the next request."""
        own_size = total(chain.from_iterable(message.parts for message in self._own))
        size = _moved(self._size, self._parent.tokens(own_size))
        return replace(size, wire=size.wire + own_size.wire, images=size.images + own_size.images)

    def _must_be_sendable(self) -> None:
        if not self._own:
            raise InputError("a fork has nothing to ask before something was said in it")
        if not self.source.name.startswith(SUMMARIES):
            _must_fit(self._parent, self.size())

    def _add(self, role: str, content: Sequence[Block]) -> None:
        if not content:
            return
        if not self._own:
            shared, moved = _followable(self._shared)
            content = (*self._unanswered(content), *moved, *content)
            if shared != self._shared:
                # These are no longer the messages in view, so all of them must be recorded.
                self._shared = shared
                self._tip = None
                self._upto = None
        last_message = self._own[-1] if self._own else None
        if last_message is not None and last_message.role == role:
            content = (*last_message.parts, *content)
            self._own.pop()
        self._own.append(Message.of(role, content))

    def _unanswered(self, content: Sequence[Block]) -> list[Block]:
        """A placeholder result for every call that had no result when the fork was taken."""
        answered = {block.id for block in content if block.kind == "tool_result"}
        for message in reversed(self._shared):
            if message.role == "assistant":
                calls = [block.id for block in message.parts if block.kind == "tool_use"]
                return [blocks.result(call, UNDER_WAY) for call in calls if call not in answered]
            answered |= {block.id for block in message.parts if block.kind == "tool_result"}
        return []


def _must_fit(parent: Conversation, size: Size) -> None:
    """Raise `ContextFull` if the provider would refuse a fork of this size; unlike the parent, it cannot make room."""
    window = parent.window
    limits = parent.limits
    if size.high > window.context:
        raise ContextFull(
            f"the fork has {size.tokens:,} tokens, perhaps {size.band:,} more, and the window has "
            f"{window.context:,}; say less in it, or compact the conversation first (compact(), /compact)"
        )
    for budget in limits.passed(size.wire, size.images):
        used, allowed = (size.wire, limits.wire) if budget == "bytes" else (size.images, limits.images)
        unit = "bytes" if budget == "bytes" else "pictures and pages"
        raise ContextFull(
            f"the fork has {used:,} {unit}, and a request may have {allowed:,}; say less in it, or compact the "
            "conversation first (compact(), /compact)"
        )


def _size_up_to(parent: Conversation, record: str) -> Size:
    """The size the parent would have if it ended with a record."""
    size = parent.size()
    left_out = 0
    for item in reversed(parent.transcript.view.items):
        if item.record.uuid == record:
            break
        left_out += 0 if item.hidden_by else parent.item_tokens(item)
    return _moved(size, -min(left_out, size.low))


def _moved(size: Size, by: int) -> Size:
    tokens, low, high, sent = (figure + by for figure in (size.tokens, size.low, size.high, size.sent))
    return replace(size, tokens=tokens, low=low, high=high, sent=sent)


def _valid_reasoning(parent: Conversation, shared: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages, without any thinking from the first message on that changed since the parent last sent them.

    The parent itself notices such a change at its next request, and then opens an epoch.
    """
    sent = parent.epoch.watched.sent
    if sent is None or parent.epoch.thinking_known_valid or not parent.profile.thinking.bound:
        return shared
    pairs = enumerate(zip(sent.messages, shared, strict=False))
    changed = next((index for index, (was, now) in pairs if was.parts != now.parts), len(shared))
    return (*shared[:changed], *map(_without_reasoning, shared[changed:]))


def _without_reasoning(message: Message) -> Message:
    if not any(block.kind in blocks.THINKING for block in message.parts):
        return message
    remaining = [block for block in message.parts if block.kind not in blocks.THINKING]
    return Message.of("assistant", remaining or [blocks.text(NO_RESULT)])


def _without_results(message: Message) -> Message:
    """The message with a placeholder as the content of each tool result."""
    if not any(block.kind == "tool_result" for block in message.parts):
        return message
    content = [
        blocks.result(block.id, PLACEHOLDER_CLEARED, toolset=blocks.toolset_of(block))
        if block.kind == "tool_result"
        else block
        for block in message.parts
    ]
    return Message.of(message.role, content)


def _followable(shared: tuple[Message, ...]) -> tuple[tuple[Message, ...], list[Block]]:
    """The messages changed so that a user message can follow, and texts to move into that message.

    A system message may not precede a user message, and calls of the provider's own tools without a result may only be
    followed by results.
    """
    messages = list(shared)
    moved: list[Block] = []
    while messages and messages[-1].role == "system":
        moved[:0] = [block for block in messages.pop().parts if block.kind == "text"]
    answers = [index for index, message in enumerate(messages) if message.role == "assistant"]
    answer = [index for back, index in enumerate(reversed(answers)) if index == answers[-1] - back]
    unfinished = open_server_calls([*chain.from_iterable(messages[index].parts for index in answer)])
    cut = False
    for index in sorted(answer) if unfinished else ():
        remaining: list[Block] = []
        for block in messages[index].parts:
            if block.id in unfinished:
                cut = True
            elif not (cut and block.kind in blocks.THINKING):  # thinking is bound to the removed call
                remaining.append(block)
        messages[index] = Message.of("assistant", remaining or [blocks.text(NO_RESULT)])
    return tuple(messages), moved
