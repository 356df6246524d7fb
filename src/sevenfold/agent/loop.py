"""The agent's loop: ask the model, carry out the tool calls of its answer, ask again, until nothing is left to do.

    queued messages → what is due (offload, clear, compact) → request → answer → tools → background work

`Loop._turn` is one iteration. The loop is a flow: it yields what it needs (a model's answer, tools, hooks, a pause),
and its driver does the waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.agent_events import End, Finished
from sevenfold.agent.executor import result_block
from sevenfold.agent.run_ends import end_of, keep_end, last_text, prompt_of
from sevenfold.agent.speculation import Speculation
from sevenfold.agent.texts import CommandOutput
from sevenfold.agent.tools.output import failed
from sevenfold.conversation.flow import Flow, Signal
from sevenfold.conversation.hooks import Stop, UserPromptSubmit
from sevenfold.conversation.intake import must_have_news
from sevenfold.conversation.request import Outcome, ToolCall
from sevenfold.conversation.turn import turn
from sevenfold.conversation.waiting import Retries
from sevenfold.errors import Aborted, InputError, ModelError, Refused, Unreachable
from sevenfold.layers.on_request import compact
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.authorship import UserPrompt
from sevenfold.record.blocks import Block, ToolUse
from sevenfold.record.decoding import NOT_JSON
from sevenfold.record.log import Answer
from sevenfold.record.wire import NO_RESULT

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.agent.team.team import MapProgress
    from sevenfold.layers.compact.compaction import Compacted, CompactionRequest
    from sevenfold.record.decisions import AgentEnd

CONTINUATIONS = 3
"""How many times in a row an answer that was cut off at its limit is continued."""
CUT_OFF = frozenset({"max_tokens", "model_context_window_exceeded"})
"""The stop reasons of an answer that ended before the model was done."""
GO_ON = (
    "Your answer reached the limit of its length and was cut off there. Continue it exactly where it stops, in the "
    "middle of a word if need be. Repeat nothing, and do not comment on the cut: the user reads both parts as one."
)
GO_ON_AFTER_PAUSE = (
    "The provider paused your answer there. Continue it exactly where it stops. Repeat nothing, and do not comment on "
    "the pause: the user reads both parts as one."
)
CALL_CUT_OFF = (
    "This call was not carried out: your answer reached the limit of its length inside it, so its input may be "
    "incomplete. Make the call again with less input, such as a file in several parts."
)
STOP_HOOKS = 8
"""How many times in a row hooks may keep the agent from stopping."""
SHUT_DOWN = "[The program was shut down in the middle of this answer. Go on from here.]"
INTERRUPTED = "[The user interrupted the answer here.]"
END_BY_STOP_REASON: Mapping[str | None, End] = {
    "refusal": "refused",
    "max_tokens": "cut",
    "model_context_window_exceeded": "cut",
}
"""How a run ends, by the stop reason of the model's last answer; ``done`` for all other reasons."""
NOTHING_TO_DO = 'there is nothing left to do, and nothing new was said: say what to do next, as in run("…")'
PAUSED = "the run was paused before its next request; with the same key it goes on where it stopped"
"""`Finished.detail` of a run that `Loop.pause` stopped."""
NOT_TAKEN_IN = "the message was not taken in, send it again if it is still meant"
"""`Finished.detail` of a run that was interrupted before its prompt was recorded."""


class RunLimits(Struct, frozen=True):
    """Limits at which a run stops, even if there is more to do; None: no limit."""

    turns: int | None = None
    """Requests in one run."""
    usd: float | None = None
    """Dollars in the whole session."""
    tokens: int | None = None
    """Output tokens in one run."""

    def check_usd(self, models: Iterable[str], spent: float | None) -> None:
        """Raise `InputError` if the dollar limit cannot be enforced because a price is unknown.

        ``models`` are the models that will be asked; ``spent`` is the session's cost so far, None if unknown.
        """
        unpriced = next((model for model in models if find(model).price(0) is None), None)
        if self.usd is None or (unpriced is None and spent is not None):
            return
        if unpriced is not None:
            reason = f"the price of {unpriced} is unknown, and no setting states it. Leave max_usd out, and"
        else:
            reason = "this session has used a model whose price is unknown. Begin a new session, or"
        raise InputError(
            f"max_usd={self.usd} cannot be enforced: {reason} limit the work by max_turns or max_output_tokens"
        )


class Loop:
    """Runs an agent on a conversation."""

    def __init__(self, agent: Assembly, limits: RunLimits) -> None:
        self.limits = limits
        self.signals: Callable[[], Signal] = Signal
        """Creates the stop signal of each run; tests that control time replace it."""
        self.stopped = Signal()
        """The stop signal of the current run; it fires when the run is interrupted."""
        self._agent = agent
        self._team = agent.team
        self._hooks = agent.hooks
        self._executor = agent.executor
        self._conversation = agent.conversation
        self._conversation.keep_cut_off_answers()
        self._speculation = agent.conversation.state(Speculation)
        self._queued: deque[UserPrompt] = deque()
        self._provider_reached = False
        """Whether the provider has answered a request, if only with an error."""
        self._begin()

    def _begin(self) -> None:
        self._stopping = False
        self._pausing = False
        self.stopped = self.signals()
        self._executor.begin()
        self._turns = self._tokens = self._stops_refused = self._continuations = 0
        self._text = ""
        self._cut_text = ""
        """The beginning of an answer that was cut off and is being continued."""
        self._usd_at_start = self._usd or 0.0

    @property
    def _usd(self) -> float | None:
        """The session's cost in dollars; None if a price is unknown."""
        return self._conversation.account.usd

    def queue(self, prompt: str | UserPrompt, *, first: bool = False) -> None:
        """Queue a message while the agent works; the model gets it with the results of the running tools.

        With ``first`` it is sent before those that are queued already.
        """
        if first:
            self._queued.appendleft(UserPrompt.of(prompt))
        else:
            self._queued.append(UserPrompt.of(prompt))
        if self._team is not None:
            self._team.wake_up()

    def interrupt(self) -> None:
        """Stop the current run: its request, its tools and its pauses."""
        self._stopping = True
        self.stopped.happen()
        self._executor.stop()
        if self._team is not None:
            self._team.interrupt()

    def pause(self) -> None:
        """Stop the current run before its next request: the request and the tools under way end first."""
        self._pausing = True
        self._executor.shut_down = True
        if self._team is not None:
            self._team.wake_up()

    @property
    def _counted_usd(self) -> float | None:
        """The dollars that count against the limit: with a team, the cost of the root agent and all agents below it."""
        return self._usd if self._team is None else self._team.root.spent()

    @property
    def remaining(self) -> RunLimits:
        """The remainder of each limit."""
        limits = self.limits
        return RunLimits(
            None if limits.turns is None else max(0, limits.turns - self._turns),
            None if limits.usd is None else max(0.0, limits.usd - (self._counted_usd or 0.0)),
            None if limits.tokens is None else max(0, limits.tokens - self._tokens),
        )

    def unqueue(self, index: int) -> UserPrompt | None:
        """Take a queued message out again, counted from 0 or, if negative, from the end; None if it has been sent."""
        try:
            prompt = self._queued[index]
            # By value: the loop may have sent the first ones meanwhile, which moves all places.
            self._queued.remove(prompt)
        except (IndexError, ValueError):
            return None
        return prompt

    @property
    def waiting(self) -> tuple[str, ...]:
        """Queued messages that have not been sent to the model yet."""
        return tuple(prompt.text for prompt in self._queued)

    # -- running --------------------------------------------------------------------------------

    def run(self, prompt: str | UserPrompt = "", key: str = "") -> Flow[Finished]:
        """Work until there is nothing left to do, including the work of background agents.

        The run can be interrupted from this call on, not only from the flow's first step. A prompt with a ``key`` comes
        from another agent: it is recorded only once, and no UserPromptSubmit hook runs for it.
        """
        self._begin()
        return self._run(UserPrompt.of(prompt), key)

    def run_once(self, prompt: str | UserPrompt, key: str) -> Flow[Finished]:
        """Like `run`, but an earlier run with this key is continued, or not repeated if it has ended."""
        self._begin()
        return self._run_once(UserPrompt.of(prompt), key)

    def _run_once(self, prompt: UserPrompt, key: str) -> Flow[Finished]:
        begun_prompt = prompt_of(self._conversation, key)
        if begun_prompt:
            ended = end_of(self._conversation, begun_prompt)
            if ended is not None:
                return ended
            if self._close_calls_but_awaited():
                return self._finished("input_required")
            prompt = UserPrompt("")
        elif not prompt.text:
            raise InputError(NOTHING_TO_DO)
        finished = yield from self._run(prompt, key, once=True)
        if finished.end not in ("interrupted", "input_required"):
            keep_end(self._conversation, key, finished)
        return finished

    def map(self, prompts: Sequence[str], kind: str, progress: MapProgress | None) -> Flow[list[AgentEnd]]:
        """Run each task with a sub-agent of type ``kind``; can be interrupted like a run."""
        if (team := self._team) is None:
            raise Refused("this agent may start no others: make it with agents=True")
        if isinstance(prompts, str):
            raise InputError("map() needs a list of prompts, even for a single task; got one string")
        self._begin()
        return team.map(prompts, kind, progress)

    def compact(self, request: CompactionRequest) -> Flow[Compacted | None]:
        """Compact at the user's request; can be interrupted like a run."""
        self._begin()
        return compact(self._conversation, request)

    def _run(self, prompt: UserPrompt, key: str, *, once: bool = False) -> Flow[Finished]:
        finished = yield from self._take_in(prompt, key, once=once)
        if finished is not None:
            return finished
        try:
            if not prompt.text and not self._queued and not (yield from self._await_team()):
                finished = self._finished_if_answered(once=once)
            while finished is None:
                finished = yield from self._turn()
        except Aborted:
            self._close_answer()
            return self._finished("interrupted")
        return finished

    def _take_in(self, prompt: UserPrompt, key: str, *, once: bool) -> Flow[Finished | None]:
        """Put the conversation in order and record the prompt; returns how the run ended if it ends right here."""
        refused = None
        self._speculation.expect("" if key or self._queued else prompt.text)
        try:
            if self._team is not None:
                yield from self._team.resume()
            self.close_calls()
            yield from self._fire_pending_hooks()
            if key and not once:
                self._conversation.user(prompt.text, key=key, origin="agent")
            elif prompt.text:
                refused = yield from self._submit(prompt, key)
        except Aborted:
            self.close_calls()
            return self._finished("interrupted", NOT_TAKEN_IN)
        return None if refused is None else self._finished("blocked", refused)

    def _finished_if_answered(self, *, once: bool) -> Finished | None:
        """Without a new message: None if the model still owes an answer; raises `InputError` if there is nothing to do.

        With ``once``, having nothing to do means that the run is over.
        """
        try:
            must_have_news(self._conversation.transcript.view)
        except InputError:
            if not once:
                raise InputError(NOTHING_TO_DO) from None
            # The answer is in the log: the process that carried this out before was stopped right after it.
            self._text = last_text(self._conversation)
            return self._finished("done")
        return None

    def _turn(self) -> Flow[Finished | None]:
        """Make one request and carry out the tool calls of its answer; returns None if there is more to do."""
        if limit := self._limit():
            return self._finished(limit)
        self._agent.presence.between_requests()
        if self._pausing:
            return self._finished("interrupted", PAUSED)
        yield from self._fire_pending_hooks()
        yield from self._submit_queued()
        outcome = yield from self._ask()
        answer = outcome.reply.answer
        cut_off = answer.stop_reason in CUT_OFF
        self._continuations = self._continuations + 1 if cut_off else 0
        if calls := calls_of(answer):
            self._stops_refused = 0
            halted = yield from self._carry_out(calls, cut_off=cut_off)
            if halted is None and self._executor.handed_over:
                return self._finished("input_required")
            if self._continuations > CONTINUATIONS:
                return self._finished("cut")
            return None if halted is None else self._finished("blocked", halted)
        if answer.stop_reason == "max_tokens" and self._continuations <= CONTINUATIONS:
            self._cut_text = self._text
            self._conversation.note(GO_ON)
            return None
        if answer.stop_reason == "pause_turn":
            self._continue_after_pause()
            return None
        if self._queued or (yield from self._await_team()):
            return None
        reason = yield from self._ask_stop_hooks()
        if reason is None:
            return self._finished(END_BY_STOP_REASON.get(answer.stop_reason, "done"))
        self._stops_refused += 1
        self._conversation.note(reason)
        return None

    def _continue_after_pause(self) -> None:
        """Make sure that an answer which the provider paused can be sent back: one that ends in text cannot."""
        self._cut_text = self._text
        try:
            must_have_news(self._conversation.transcript.view)
        except InputError:
            self._conversation.note(GO_ON_AFTER_PAUSE)

    def _carry_out(self, calls: Sequence[ToolCall], *, cut_off: bool) -> Flow[str | None]:
        """Carry out the calls of an answer; returns why the run must stop, None if it may continue.

        The last call of an answer that was cut off may lack a part of its input, even if what there is can be read. It
        is not carried out, and the model is told.
        """
        complete_calls = calls[:-1] if cut_off else calls
        results = (yield from self._executor.run(complete_calls)) if complete_calls else []
        if cut_off:
            results = [*results, result_block(calls[-1], failed(CALL_CUT_OFF))]
        self._conversation.tool_results(results)
        return self._executor.halted if complete_calls else None

    def _ask(self) -> Flow[Outcome]:
        """Get one answer; if the provider fails temporarily, retry after a pause."""
        retries = Retries(self._conversation)
        while True:
            try:
                asking = turn(self._conversation)
                outcome = yield from self._speculation.answering(asking, self._agent.reporter.put)
            except ModelError as error:
                self._provider_reached = self._provider_reached or not isinstance(
                    error, Aborted | Unreachable
                )
                if isinstance(error, Aborted):
                    raise
                if not (yield from retries.again(error, self.stopped, reached=self._provider_reached)):
                    raise
            else:
                self._provider_reached = True
                self._turns += 1
                self._tokens += outcome.usage.output_tokens
                text = blocks.text_of(outcome.reply.answer.blocks)
                self._text = self._cut_text + text
                self._cut_text = ""
                return outcome

    # -- messages and hooks ---------------------------------------------------------------------

    def _fire_pending_hooks(self) -> Flow[None]:
        """Fire the hooks for events since the last request, and add their context to the conversation."""
        for event in self._agent.take_hook_events():
            outcome = yield from self._hooks.fire(event)
            for context in outcome.context:
                self._conversation.note(context)

    def _await_team(self) -> Flow[bool]:
        """Wait for background agents; returns False if none is at work, True if there is something to handle first."""
        team = self._team
        return team is not None and (
            yield from team.await_result(lambda: bool(self._queued or self._stopping or self._pausing))
        )

    def _submit_queued(self) -> Flow[None]:
        """Record agents' results and queued messages; a message that a hook refuses is reported as an event."""
        if self._team is not None:
            self._team.deliver()
        while self._queued:
            prompt = self._queued.popleft()
            try:
                refused = yield from self._submit(prompt)
            except Aborted:
                self._queued.appendleft(prompt)
                raise
            if refused is not None:
                self._conversation.events.aside("queue", refused)

    def _submit(self, prompt: UserPrompt, key: str = "") -> Flow[str | None]:
        """Record a user message; returns the reason if a hook refuses it, else None."""
        submitted = UserPromptSubmit(**self._hooks.common_fields(), prompt=prompt.text)
        outcome = yield from self._hooks.fire(submitted)
        refused = outcome.blocked if outcome.blocked is not None else outcome.stop
        if refused is not None:
            return refused
        mentions = self._agent.mentions
        attachments = (yield from mentions(prompt.text)) if mentions else []
        if not self._agent.has_user:
            # Another agent runs this one from its shell, and gives it a task.
            prompt = replace(prompt, origin="agent", typed=None)
        self._conversation.user(prompt.text, key=key, origin=prompt.origin, typed=prompt.typed)
        for command, output in prompt.outputs:
            self._conversation.note(CommandOutput(command, output).render())
        for attachment in attachments:
            self._conversation.attach(attachment)
        for context in outcome.context:
            self._conversation.note(context)
        return None

    def _ask_stop_hooks(self) -> Flow[str | None]:
        """Ask the hooks whether the agent may stop; returns the reason if it may not, else None."""
        if self._stopping or self._stops_refused >= STOP_HOOKS:
            return None
        descent = self._agent.descent
        stop = (descent.stop if descent else Stop)(
            **self._hooks.common_fields(),
            stop_hook_active=self._stops_refused > 0,
            last_assistant_message=self._text,
            background_tasks=self._agent.background_tasks(),
        )
        outcome = yield from self._hooks.fire(stop)
        return outcome.blocked if outcome.stop is None else None

    # -- keeping the conversation in order --------------------------------------------------------

    def close_calls(self) -> None:
        """Give calls of an earlier run without a result an error result; otherwise every request would fail."""
        if waiting := self._conversation.waiting:
            self._conversation.tool_results(
                [blocks.result(call, NO_RESULT, is_error=True) for call in waiting]
            )

    def _close_calls_but_awaited(self) -> bool:
        """Close calls without a result, except those that the program carries out; whether there are any of those."""
        waiting = self._conversation.waiting
        view = self._conversation.transcript.view
        answers = [item for item in view.items if waiting and set(waiting) & set(item.record.calls)]
        calls = chain.from_iterable(calls_in(item.shown) for item in answers)
        awaited = {call.id for call in calls if call.id in waiting and self._executor.is_handed_over(call)}
        if awaited and len(awaited) < len(waiting):
            abandoned = [call for call in waiting if call not in awaited]
            self._conversation.tool_results(
                [blocks.result(call, NO_RESULT, is_error=True) for call in abandoned]
            )
        return bool(awaited)

    def _close_answer(self) -> None:
        """Give the calls in an interrupted answer error results; if it has none, note the interruption."""
        cut_off_answer = self._conversation.take_cut_off()
        if cut_off_answer is None:
            return
        if calls := calls_of(cut_off_answer):
            not_done = failed(self._executor.text_if_not_done)
            self._conversation.tool_results([result_block(call, not_done) for call in calls])
        else:
            self._conversation.note(SHUT_DOWN if self._pausing else INTERRUPTED)

    # -- stopping -------------------------------------------------------------------------------

    def _limit(self) -> End | None:
        """The reason why the next request must not be made; None if it may."""
        if self._stopping:
            return "interrupted"
        remaining = self.remaining
        if remaining.turns == 0:
            return "max_turns"
        return "budget" if remaining.usd == 0 or remaining.tokens == 0 else None

    def _finished(self, end: End, detail: str = "") -> Finished:
        cost = None if self._usd is None else self._usd - self._usd_at_start
        return Finished(end, self._text, self._turns, self._tokens, cost, detail)


def calls_of(answer: Answer) -> tuple[ToolCall, ...]:
    """The tool calls in an answer."""
    return calls_in(answer.blocks)


def calls_in(content: Iterable[Block]) -> tuple[ToolCall, ...]:
    """The tool calls among these blocks."""
    bodies = (block.body() for block in content if block.kind == "tool_use")
    return tuple(
        ToolCall(body.id, body.name, _input(body.input)) for body in bodies if isinstance(body, ToolUse)
    )


def _input(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except NOT_JSON:
        # The answer was cut off in the middle; the toolbox will report that the input is invalid.
        return bytes(raw).decode(errors="replace")
