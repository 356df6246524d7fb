"""The agent's loop: ask, do what the answer calls for, ask again, until there is nothing left to do.

    queued input → what is due (offload, clear, compact) → request → answer → tools → what may be done beside it

One turn is `Loop.run`'s body. It is a flow: it yields what it needs (a model's answer, tools, hooks, a pause) and
leaves the waiting to whoever drives it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from sevenfold.errors import Aborted, ModelError, RateLimited
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse
from sevenfold.record.log import Answer
from sevenfold.runtime.drive import Do, Fire, Signal, Wait
from sevenfold.runtime.engine import Engine
from sevenfold.runtime.exchange import Outcome
from sevenfold.runtime.hooks.inputs import Stop, UserPromptSubmit

RETRIES = 4
"""How often a request is made again that a provider could not answer just then."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
STOP_HOOKS = 8
"""How often in a row hooks may keep the agent from stopping."""

End = Literal["done", "interrupted", "max_turns", "budget", "refused", "blocked", "cut"]
Flow = Generator[Any, Any, Any]


class Call(Struct, frozen=True):
    """A tool call the model makes."""

    id: str
    name: str
    input: Any


class Hands(Protocol):
    """Whoever carries out tool calls."""

    def act(self, calls: Sequence[Call]) -> list[Mapping[str, Any]]:
        """A ``tool_result`` block for each call; never raises but `Aborted`."""
        ...

    async def act_async(self, calls: Sequence[Call]) -> list[Mapping[str, Any]]:
        """The same, awaited."""
        ...


class Limits(Struct, frozen=True):
    """When to stop, done or not."""

    turns: int | None = None
    usd: float | None = None
    """Counted over the whole session."""
    tokens: int | None = None
    """Tokens written by the model in this run."""


class Finished(Struct, frozen=True):
    """Why the loop ended, and what it said last."""

    end: End
    text: str = ""
    turns: int = 0
    tokens: int = 0
    usd: float | None = None
    """What the run cost."""
    detail: str = ""


class Loop:
    """Runs an agent on an engine."""

    def __init__(
        self,
        engine: Engine,
        hands: Hands,
        *,
        limits: Limits | None = None,
        common: Callable[[], dict[str, str]],
    ) -> None:
        self._engine = engine
        self._hands = hands
        self._limits = limits or Limits()
        self._common = common
        self._queued: deque[str] = deque()
        self._stopping = False
        self._stopped = Signal()
        self._turns = 0
        self._tokens = 0
        self._spent = 0.0

    def queue(self, text: str) -> None:
        """Say something as soon as the agent can hear it: with the results of the tools it is using."""
        self._queued.append(text)

    def interrupt(self) -> None:
        """Stop after what is under way; whoever drives also aborts that."""
        self._stopping = True
        self._stopped.happen()

    @property
    def waiting(self) -> tuple[str, ...]:
        """What was queued and not heard yet."""
        return tuple(self._queued)

    def run(self, prompt: str = "") -> Flow:
        """Work until there is nothing left to do; returns what was `Finished`."""
        self._turns, self._tokens, self._stopping, self._stopped = 0, 0, False, Signal()
        self._spent = self._engine.session.exchange.account.usd or 0.0
        if prompt:
            refused = yield from self._say(prompt)
            if refused is not None:
                return self._finished("blocked", refused)
        held = 0
        while True:
            try:
                outcome: Outcome = yield from self._asked()
                calls = calls_of(outcome.reply.answer)
                if calls:
                    results = yield self._use(calls)
                    self._engine.session.tool_results(results)
                    held = 0
            except Aborted as error:
                self._keep(error)
                return self._finished("interrupted")
            if not calls and not self._queued:
                reason = yield from self._held_back(outcome, held)
                if reason is None:
                    return self._finished(_end_of(outcome), text=_text(outcome.reply.answer))
                held += 1
                self._engine.session.note(reason)
            for text in self._taken():
                yield from self._say(text)
            if limit := self._limit():
                return self._finished(limit, text=_text(outcome.reply.answer))

    # -- asking ---------------------------------------------------------------------------------

    def _asked(self) -> Flow:
        """One answer; a provider that is busy is asked again after a while."""
        for attempt in range(RETRIES + 1):
            try:
                outcome: Outcome = yield from self._engine.turn()
            except ModelError as error:
                if not error.retryable or attempt == RETRIES or isinstance(error, Aborted):
                    raise
                if (yield Wait(self._stopped, _pause(error, attempt))):
                    raise Aborted() from error
            else:
                self._turns += 1
                self._tokens += outcome.usage.output_tokens
                return outcome
        raise AssertionError("unreachable")

    def _say(self, text: str) -> Flow:
        """Take in the user's words, unless a hook refuses them; returns the reason then."""
        heard = yield Fire(UserPromptSubmit(**self._common(), prompt=text))
        if heard.blocked is not None:
            return heard.blocked
        self._engine.session.user(text)
        for context in heard.context:
            self._engine.session.note(context)
        return None

    def _held_back(self, outcome: Outcome, held: int) -> Flow:
        """Ask the hooks whether the agent may stop; the reason if not."""
        if self._stopping or held >= STOP_HOOKS:
            return None
        said = _text(outcome.reply.answer)
        heard = yield Fire(Stop(**self._common(), stop_hook_active=held > 0, last_assistant_message=said))
        return heard.blocked

    def _use(self, calls: tuple[Call, ...]) -> Do:
        return Do(lambda: self._hands.act(calls), lambda: self._hands.act_async(calls))

    def _taken(self) -> list[str]:
        taken = list(self._queued)
        self._queued.clear()
        return taken

    def _keep(self, error: Aborted) -> None:
        """What was said before an interruption stays in the conversation."""
        if isinstance(error.partial, Answer) and any(not block.blank for block in error.partial.blocks):
            self._engine.session.interrupted(error.partial)

    # -- stopping -------------------------------------------------------------------------------

    def _limit(self) -> End | None:
        limits = self._limits
        if self._stopping:
            return "interrupted"
        if limits.turns is not None and self._turns >= limits.turns:
            return "max_turns"
        usd = self._engine.session.exchange.account.usd
        if limits.usd is not None and usd is not None and usd >= limits.usd:
            return "budget"
        if limits.tokens is not None and self._tokens >= limits.tokens:
            return "budget"
        return None

    def _finished(self, end: End, detail: str = "", *, text: str = "") -> Finished:
        usd = self._engine.session.exchange.account.usd
        cost = None if usd is None else usd - self._spent
        return Finished(end, text, self._turns, self._tokens, cost, detail)


def calls_of(answer: Answer) -> tuple[Call, ...]:
    """The tool calls in an answer."""
    found = (block.body() for block in answer.blocks if block.kind == "tool_use")
    return tuple(
        Call(body.id, body.name, msgspec.json.decode(body.input))
        for body in found
        if isinstance(body, ToolUse)
    )


def _text(answer: Answer) -> str:
    return "\n".join(
        filter(None, (blocks.words_of(block) for block in answer.blocks if block.kind == "text"))
    )


def _end_of(outcome: Outcome) -> End:
    match outcome.reply.answer.stop_reason:
        case "refusal":
            return "refused"
        case "max_tokens" | "model_context_window_exceeded":
            return "cut"
        case _:
            return "done"


def _pause(error: ModelError, attempt: int) -> float:
    told = error.retry_after if isinstance(error, RateLimited) else None
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt if told is None else told)
