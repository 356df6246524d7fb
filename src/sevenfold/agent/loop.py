"""The agent's loop: ask, do what the answer calls for, ask again, until there is nothing left to do.

    queued input → what is due (offload, clear, compact) → request → answer → tools → what may be done beside it

One turn is `Loop._turn`. It is a flow: it yields what it needs (a model's answer, tools, hooks, a pause) and leaves
the waiting to whoever drives it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from sevenfold.conversation import turn
from sevenfold.conversation.conversation import Conversation, Outcome
from sevenfold.conversation.flow import Fire, Run, Signal, Wait
from sevenfold.conversation.hooks import HookInput, HookOutcome, Stop, UserPromptSubmit
from sevenfold.conversation.transcript import Attachment
from sevenfold.errors import Aborted, InputError, ModelError, RateLimited
from sevenfold.events import SteppedAside
from sevenfold.layers.compact.request import CompactionRequest
from sevenfold.layers.notes.layer import compact
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse
from sevenfold.record.log import Answer
from sevenfold.record.wire import NO_RESULT

RETRIES = 4
"""How often a request is made again that a provider could not answer just then."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""A provider that wants a longer pause than this is not asked again."""
STOP_HOOKS = 8
"""How often in a row hooks may keep the agent from stopping."""
NOT_DONE = "The user interrupted before this call was carried out."
INTERRUPTED = "[The user interrupted the answer here.]"
NOTHING_TO_DO = 'there is nothing left to do, and nothing new was said: say what to do next, as in run("…")'
UNHEARD = "the message was not taken in, send it again if it is still meant"
"""Said of a run that was interrupted before it had begun."""

End = Literal["done", "interrupted", "max_turns", "budget", "refused", "blocked", "cut"]
Flow = Generator[Any, Any, Any]


class Call(Struct, frozen=True):
    """A tool call the model makes."""

    id: str
    name: str
    input: Any


class Hands(Protocol):
    """Whoever carries out tool calls."""

    halted: str | None
    """Why the agent is to stop altogether, if a hook said so."""

    def act(self, calls: Sequence[Call]) -> list[Mapping[str, Any]]:
        """A ``tool_result`` block for each call, whatever happens."""
        ...

    async def act_async(self, calls: Sequence[Call]) -> list[Mapping[str, Any]]:
        """The same, awaited."""
        ...


class Limits(Struct, frozen=True):
    """When to stop, done or not."""

    turns: int | None = None
    """Requests in one run."""
    usd: float | None = None
    """Counted over the whole session."""
    tokens: int | None = None
    """Tokens written by the model in one run."""


class Finished(Struct, frozen=True):
    """Why the loop ended, and what it said last."""

    end: End
    text: str = ""
    turns: int = 0
    tokens: int = 0
    """Written by the model."""
    usd: float | None = None
    """What the run cost."""
    detail: str = ""


def unheard(outcome: HookOutcome) -> None:
    """For whoever does not want to know what hooks have to show."""


class Loop:
    """Runs an agent on a conversation."""

    def __init__(
        self,
        conversation: Conversation,
        hands: Hands,
        *,
        limits: Limits | None = None,
        common: Callable[[], Mapping[str, str]],
        news: Callable[[], Iterable[HookInput]] = tuple,
        heard: Callable[[HookOutcome], None] = unheard,
        beside: Callable[[], Sequence[Mapping[str, Any]]] = tuple,
        mentions: Callable[[str], Run[list[Attachment]]] | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.signals: Callable[[], Signal] = Signal
        """Makes what a pause waits for; whoever moves time by hand puts another one here."""
        self.stopped = Signal()
        """Happens when the present run is interrupted."""
        self._conversation = conversation
        self._hands = hands
        self._common = common
        self._news = news
        self._heard = heard
        self._beside = beside
        self._mentions = mentions
        """Reads what a message mentions."""
        self._queued: deque[str] = deque()
        self._begin()

    def _begin(self) -> None:
        self._stopping = False
        self.stopped = self.signals()
        self._hands.halted = None
        self._turns = self._tokens = self._held = 0
        self._text = ""
        self._spent = self._conversation.account.usd or 0.0

    def queue(self, text: str) -> None:
        """Say something as soon as the agent can hear it: with the results of the tools it is using."""
        self._queued.append(text)

    def interrupt(self) -> None:
        """Stop; whoever drives also aborts what is under way."""
        self._stopping = True
        self.stopped.happen()

    @property
    def left(self) -> Limits:
        """What is left of each limit."""
        limits, usd = self.limits, self._conversation.account.usd or 0.0
        return Limits(
            None if limits.turns is None else max(0, limits.turns - self._turns),
            None if limits.usd is None else max(0.0, limits.usd - usd),
            None if limits.tokens is None else max(0, limits.tokens - self._tokens),
        )

    @property
    def waiting(self) -> tuple[str, ...]:
        """What was queued and not heard yet."""
        return tuple(self._queued)

    # -- running --------------------------------------------------------------------------------

    def run(self, prompt: str = "") -> Flow:
        """Work until there is nothing left to do; the flow returns what was `Finished`.

        From now on, not from the flow's first step on, it can be interrupted.
        """
        self._begin()
        return self._run(prompt)

    def compact(self, request: CompactionRequest) -> Flow:
        """Compact because somebody asked for it; can be interrupted like a run."""
        self._begin()
        return compact(self._conversation, request)

    def _run(self, prompt: str) -> Flow:
        self._close_calls()
        try:
            yield from self._tell()
            refused = (yield from self._say(prompt)) if prompt else None
        except Aborted:
            return self._finished("interrupted", UNHEARD)
        if refused is not None:
            return self._finished("blocked", refused)
        if not prompt and not self._queued:
            self._must_have_something_to_do()
        try:
            while True:
                finished: Finished | None = yield from self._turn()
                if finished is not None:
                    return finished
        except Aborted as error:
            self._keep(error)
            return self._finished("interrupted")

    def _close_calls(self) -> None:
        """Answer calls that something kept from being answered: nobody will any more, and all would end there."""
        session = self._conversation
        if waiting := session.waiting:
            session.tool_results([blocks.result(call, NO_RESULT, is_error=True) for call in waiting])

    def _must_have_something_to_do(self) -> None:
        try:
            self._conversation.must_have_news()
        except InputError:
            raise InputError(NOTHING_TO_DO) from None

    def _turn(self) -> Flow:
        """One request and all that follows from its answer; None: there is more to do."""
        if limit := self._limit():
            return self._finished(limit)
        yield from self._tell()
        yield from self._hear()
        outcome: Outcome = yield from self._asked()
        answer = outcome.reply.answer
        calls = calls_of(answer)
        if calls:
            self._held = 0
            results = yield self._use(calls)
            self._conversation.tool_results(results)
            return self._halted()
        if self._queued or answer.stop_reason == "pause_turn":
            return None
        reason = yield from self._held_back()
        if reason is None:
            return self._finished(_end_of(answer))
        self._held += 1
        self._conversation.note(reason)
        return None

    def _asked(self) -> Flow:
        """One answer; a provider that is busy is asked again after a while."""
        for attempt in range(RETRIES + 1):
            try:
                outcome: Outcome = yield from turn.turn(self._conversation)
            except ModelError as error:
                pause = _pause(error, attempt)
                if pause is None:
                    raise
                if (yield from Wait(self.stopped, pause)):
                    raise Aborted() from error
            else:
                self._turns += 1
                self._tokens += outcome.usage.output_tokens
                self._text = _text(outcome.reply.answer)
                return outcome
        raise AssertionError("unreachable")

    def _use(self, calls: tuple[Call, ...]) -> Run[list[Mapping[str, Any]]]:
        return Run(lambda: self._hands.act(calls), lambda: self._hands.act_async(calls))

    # -- what is said ---------------------------------------------------------------------------

    def _tell(self) -> Flow:
        """Tell the hooks what is new; what they have to say about it is noted."""
        for event in self._news():
            heard = yield from self._fire(event)
            for context in heard.context:
                self._conversation.note(context)

    def _hear(self) -> Flow:
        """Take in what was queued; what a hook refuses is told."""
        while self._queued:
            text = self._queued.popleft()
            try:
                refused = yield from self._say(text)
            except Aborted:
                self._queued.appendleft(text)
                raise
            if refused is not None:
                self._conversation.events.tell(SteppedAside(layer="queue", reason=refused))

    def _say(self, text: str) -> Flow:
        """Take in the user's words, unless a hook refuses them; returns the reason then."""
        heard = yield from self._fire(UserPromptSubmit(**self._common(), prompt=text))
        refused = heard.blocked if heard.blocked is not None else heard.stop
        if refused is not None:
            return refused
        read: list[Attachment] = (yield self._mentions(text)) if self._mentions else []
        self._conversation.user(text)
        for one in read:
            self._conversation.attach(one)
        for context in heard.context:
            self._conversation.note(context)
        return None

    def _held_back(self) -> Flow:
        """Ask the hooks whether the agent may stop; the reason if not."""
        if self._stopping or self._held >= STOP_HOOKS:
            return None
        active = self._held > 0
        heard = yield from self._fire(
            Stop(
                **self._common(),
                stop_hook_active=active,
                last_assistant_message=self._text,
                background_tasks=self._beside(),
            )
        )
        return heard.blocked if heard.stop is None else None

    def _fire(self, event: HookInput) -> Generator[Any, Any, HookOutcome]:
        heard: HookOutcome = yield from Fire(event)
        self._heard(heard)
        return heard

    def _keep(self, error: Aborted) -> None:
        """What was said before an interruption stays in the conversation, and calls in it are answered."""
        partial = error.partial
        if not isinstance(partial, Answer) or all(block.blank for block in partial.blocks):
            return
        session = self._conversation
        session.interrupted(partial)
        calls = calls_of(partial)
        if calls:
            session.tool_results(undone(calls))
        else:
            session.note(INTERRUPTED)

    # -- stopping -------------------------------------------------------------------------------

    def _limit(self) -> End | None:
        limits = self.limits
        if self._stopping:
            return "interrupted"
        if limits.turns is not None and self._turns >= limits.turns:
            return "max_turns"
        usd = self._conversation.account.usd
        if limits.usd is not None and usd is not None and usd >= limits.usd:
            return "budget"
        if limits.tokens is not None and self._tokens >= limits.tokens:
            return "budget"
        return None

    def _halted(self) -> Finished | None:
        return None if self._hands.halted is None else self._finished("blocked", self._hands.halted)

    def _finished(self, end: End, detail: str = "") -> Finished:
        usd = self._conversation.account.usd
        cost = None if usd is None else usd - self._spent
        return Finished(end, self._text, self._turns, self._tokens, cost, detail)


def calls_of(answer: Answer) -> tuple[Call, ...]:
    """The tool calls in an answer."""
    found = (block.body() for block in answer.blocks if block.kind == "tool_use")
    return tuple(Call(one.id, one.name, _input(one.input)) for one in found if isinstance(one, ToolUse))


def undone(calls: Iterable[Call]) -> list[Mapping[str, Any]]:
    """Results for calls that were never carried out."""
    return [
        {"type": "tool_result", "tool_use_id": call.id, "content": NOT_DONE, "is_error": True}
        for call in calls
    ]


def _input(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        # Cut off in the middle; the tool says that it does not fit.
        return bytes(raw).decode(errors="replace")


def _text(answer: Answer) -> str:
    said = (blocks.words_of(block) for block in answer.blocks if block.kind == "text")
    return "\n".join(filter(None, said))


def _end_of(answer: Answer) -> End:
    match answer.stop_reason:
        case "refusal":
            return "refused"
        case "max_tokens" | "model_context_window_exceeded":
            return "cut"
        case _:
            return "done"


def _pause(error: ModelError, attempt: int) -> float | None:
    """How long to wait before asking again; None: the error is to be shown."""
    if not error.retryable or attempt == RETRIES:
        return None
    told = error.retry_after if isinstance(error, RateLimited) else None
    if told is None:
        return min(LONGEST_PAUSE, FIRST_PAUSE * float(2**attempt))
    return told if told <= LONGEST_PAUSE else None
