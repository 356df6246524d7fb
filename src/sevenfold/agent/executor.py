"""The executor: turns tool calls into results, by way of hooks, permissions and the user's consent.

It is a flow, written once for sync and async programs. Neighbouring calls of tools that allow it run concurrently; all
others run one after another. Every failure becomes an error result, and so does an interruption. A tool that does not
stop when interrupted is left behind: the executor no longer waits for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from sevenfold.agent.agent_events import AgentEvent, ToolBegan, ToolEnded, ToolProgress
from sevenfold.agent.checkpoints import Checkpoints, may_change
from sevenfold.agent.interrupt import GRACE, SHORT_GRACE, LeftBehind, await_interruptibly, run_interruptibly
from sevenfold.agent.permissions.engine import Grants, PermissionDecision
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.secret_files import masked, with_secrets
from sevenfold.agent.tools.context import Abort, Context
from sevenfold.agent.tools.functions import FunctionTool
from sevenfold.agent.tools.handed_over import HandedOverTool
from sevenfold.agent.tools.output import ToolOutput, denied, failed, sendable
from sevenfold.agent.tools.tool import AsyncTool, Toolbox
from sevenfold.conversation import hooks as hook_inputs
from sevenfold.conversation.flow import Fire, Flow, Gather, Run, in_thread
from sevenfold.conversation.hooks import HookInput, HookOutcome, PostToolUse, PreToolUse
from sevenfold.conversation.request import ToolCall
from sevenfold.errors import Aborted, SevenfoldError

CONCURRENT = 8
"""The most calls that run at the same time."""
NO_USER = "No user is available in this session; do without, or say what you need permission for."
NOT_DONE = "The user interrupted before this call was carried out."
NOT_DONE_AT_SHUTDOWN = "The program was shut down before this call was carried out."
LEFT_AT_SHUTDOWN = (
    "The program was shut down while this was running, so it has no result. Its effects so far remain."
)
LEFT = (
    "The user interrupted while this was running, so it has no result. Its effects so far remain, and it may "
    "still be running."
)


class Asked(Struct, frozen=True):
    """A tool call that needs the user's consent."""

    call: ToolCall
    request: PermissionRequest
    decision: PermissionDecision
    agent: str = ""
    """The sub-agent that makes the call; empty if the agent itself does."""

    @property
    def wish(self) -> PermissionRequest:
        """The old name of `request`."""
        warnings.warn("asked.wish is called asked.request now", DeprecationWarning, stacklevel=2)
        return self.request


class Consented(Struct, frozen=True):
    """The user's answer to a request for consent."""

    granted: bool
    always: bool = False
    """Whether to add the rules in `PermissionDecision.would_allow` for the rest of the session."""
    remark: str = ""
    unanswered: bool = False
    """True if there was no user to ask, or asking failed; the remark says which."""


ConsentFunction = Callable[[Asked], Consented]


def refuse(question: Asked) -> Consented:
    """Refuse consent, in a session without a user to ask."""
    return Consented(False, remark=NO_USER, unanswered=True)


class AgentHooks(Struct, frozen=True):
    """Fires hooks from an agent's flows."""

    common_fields: Callable[[], Mapping[str, Any]]
    """Returns the fields that every hook input has."""
    on_outcome: Callable[[HookOutcome], None]
    """Called with every outcome, to show messages and failures."""

    def fire(self, event: HookInput) -> Flow[HookOutcome]:
        """Fire the hooks of an event; the flow returns their combined outcome."""
        outcome = yield from Fire(event)
        self.on_outcome(outcome)
        return outcome


class Callbacks(Struct, frozen=True, kw_only=True):
    """The functions an executor calls while it works."""

    consent: ConsentFunction = refuse
    report: Callable[[AgentEvent], None] = lambda event: None
    """Receives an event when a call begins, makes progress and ends."""
    learn: Callable[[ToolCall, ToolOutput], None] | None = None
    """Called after each tool ran, before its result is used anywhere."""
    checkpoints: Checkpoints | None = None
    """Saves files before each call that may change some."""
    save: Callable[[], None] = lambda: None
    """Called after each round of calls, before their results are returned."""
    remarked: Callable[[str, str], None] = lambda call, remark: None
    """Receives what the user said when they refused a call."""


@runtime_checkable
class Redirects(Protocol):
    """A tool whose calls are calls of another tool."""

    def target(self, call: ToolCall) -> ToolCall:
        """The call that is meant."""


@runtime_checkable
class Approvable(Protocol):
    """A tool whose first use the user agrees to."""

    def permitted(self) -> None:
        """The user permitted a call."""


class _Settled(Exception):
    """Raised with the result of a call that is not carried out, because it is invalid or not permitted."""

    def __init__(self, output: ToolOutput) -> None:
        self.output = output


class _HandedOver(Exception):
    """Raised for a call that the program around the agent carries out."""


class Executor:
    """Carries out the tool calls of one session."""

    def __init__(
        self, box: Toolbox, context: Context, grants: Grants, hooks: AgentHooks, callbacks: Callbacks
    ) -> None:
        self.box = box
        self.context = context
        self.grants = grants
        self.halted: str | None = None
        """The reason if a hook wants the whole run to stop, else None."""
        self.shut_down = False
        """Whether a run that is stopped is stopped because the program ends, and not by the user."""
        self.handed_over: list[ToolCall] = []
        """The calls of the last round that the program carries out itself; they have no result yet."""
        self.hands_over = True
        """Whether there is a program that takes such calls: no program knows of the calls of sub-agents and forks."""
        self.grace_seconds = GRACE
        """Seconds that an interrupted tool gets to end before it is left behind."""
        self._hooks = hooks
        self._callbacks = callbacks
        self._asking = threading.Lock()
        self._children: list[Executor] = []

    def with_tools(self, box: Toolbox, learn: Callable[[ToolCall, ToolOutput], None]) -> Executor:
        """Make an executor with other tools and the same permissions; its calls are not reported as events."""
        callbacks = Callbacks(consent=self._callbacks.consent, learn=learn, save=self._callbacks.save)
        child = Executor(box, self.context, self.grants, self._hooks, callbacks)
        child.hands_over = False
        self._children.append(child)
        return child

    def begin(self) -> None:
        """Prepare for a new run, by clearing what stopped the last one."""
        self.halted = None
        self.shut_down = False
        self.handed_over = []
        self.context = replace(self.context, abort=Abort())
        for child in self._children:
            child.context = self.context

    def stop(self) -> None:
        """Tell running tools, and everything they started, to stop."""
        self.context.abort.set()

    def run(self, calls: Sequence[ToolCall]) -> Flow[list[Mapping[str, Any]]]:
        """Carry out calls; the flow returns a ``tool_result`` block for each, in order.

        Calls that the program carries out have none; they are in `handed_over`.
        """
        self.handed_over = []
        results: list[Mapping[str, Any]] = []
        # First of all, so that hooks, rules and the user see the tool that is meant.
        for group in self._groups([self._redirected(call) for call in calls]):
            blocks = yield from Gather([self._run(call) for call in group], CONCURRENT)
            for call, block in zip(group, blocks, strict=True):
                if block is None:
                    self.handed_over.append(call)
                else:
                    results.append(block)
        yield from in_thread(self._callbacks.save)
        return results

    @property
    def text_if_not_done(self) -> str:
        """The result of a call that was not carried out because the run was stopped."""
        return NOT_DONE_AT_SHUTDOWN if self.shut_down else NOT_DONE

    @property
    def text_if_left_behind(self) -> str:
        """The result of a call that did not end when the run was stopped."""
        return LEFT_AT_SHUTDOWN if self.shut_down else LEFT

    def is_handed_over(self, call: ToolCall) -> bool:
        """Whether the program carries out this call."""
        return self.hands_over and isinstance(self.box.get(call.name), HandedOverTool)

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """The calls in order, in groups; neighbours that may run concurrently share one."""
        for concurrent, neighbours in groupby(calls, lambda call: self.box.concurrent(call.name)):
            if concurrent:
                yield list(neighbours)
            else:
                for call in neighbours:
                    yield [call]

    def _redirected(self, call: ToolCall) -> ToolCall:
        tool: object = self.box.get(call.name)
        return tool.target(call) if isinstance(tool, Redirects) else call

    # -- one call -------------------------------------------------------------------------------

    def _run(self, call: ToolCall) -> Flow[Mapping[str, Any] | None]:
        """Carry out one call; any failure becomes its result. None if the program carries it out."""
        began_at = time.monotonic()
        try:
            output = yield from self._use(call)
        except _HandedOver:
            return None
        except _Settled as settled:
            output = settled.output
        except Aborted as stop:
            left_behind = isinstance(stop, LeftBehind)
            output = failed(self.text_if_left_behind if left_behind else self.text_if_not_done)
        except SevenfoldError as error:
            output = failed(str(error))
        except Exception as error:  # noqa: BLE001 (a call without a result would end the conversation)
            output = failed(f"{call.name} could not be carried out: {type(error).__name__}: {error}")
        self._callbacks.report(ToolEnded(call, output, time.monotonic() - began_at))
        return result_block(call, output)

    def _use(self, call: ToolCall) -> Flow[ToolOutput]:
        """Check the call, fire PreToolUse, get permission, use the tool, fire PostToolUse."""
        if self.context.abort.is_set():
            raise Aborted()
        self._callbacks.report(ToolBegan(call))
        request = self._request(call)
        pre_outcome = yield from self._fire(PreToolUse(**self._hooks.common_fields(), **_about(call)))
        _settle_if_refused(pre_outcome)
        if pre_outcome.updated_input is not None:
            call = replace(call, input=dict(pre_outcome.updated_input))
            request = self._request(call)
        call, request = yield from self._permitted(call, request, pre_outcome)
        if self.is_handed_over(call):
            raise _HandedOver
        began_at = time.monotonic()
        context = self.context.for_call(call.id, permitted=request, progress=self._progress(call))
        output = yield from self._act_between_checkpoints(call, request, context)
        output = self._without_secrets(call, request, output)
        if self._callbacks.learn:
            self._callbacks.learn(call, output)
        post_event = PostToolUse(
            **self._hooks.common_fields(),
            **_about(call),
            tool_response=output.content,
            duration_ms=round((time.monotonic() - began_at) * 1000),
        )
        try:
            post_outcome = yield from self._fire(post_event)
        except Aborted:
            # The tool has done its work, even if its hooks were interrupted.
            return output
        return _with_hooks(output, call.name, post_outcome, pre_outcome.context)

    def _request(self, call: ToolCall) -> PermissionRequest:
        """The permission a call needs; raises `_Settled` if the call is invalid."""
        request = self.box.permission_request(call.name, call.input, self.context)
        if isinstance(request, ToolOutput):
            raise _Settled(request)
        return with_secrets(request)

    def _decide(self, request: PermissionRequest) -> PermissionDecision:
        """The decision on a request: allow it, or ask the user; raises `_Settled` if it is denied."""
        decision = self.grants.now.decide(request)
        if decision.verdict == "deny":
            raise _Settled(denied(decision.reason))
        return decision

    def _permitted(
        self, call: ToolCall, request: PermissionRequest, pre_outcome: HookOutcome
    ) -> Flow[tuple[ToolCall, PermissionRequest]]:
        """Get permission; returns the call, perhaps with input changed by a hook, and the permitted request."""
        decision = self._decide(request)
        hook_permission = pre_outcome.permission
        by_rule = decision.verdict == "ask" and (decision.rule or request.server or request.leaves_sandbox)
        verdict = (
            hook_permission.verdict if hook_permission is not None and not by_rule else decision.verdict
        )
        if verdict == "allow":
            return call, request
        permitted = self.context.for_call(call.id, permitted=request)
        if (impossible := self.box.check(call.name, call.input, permitted)) is not None:
            raise _Settled(impossible)
        hook_answer = yield from self._fire(
            hook_inputs.PermissionRequest(**self._hooks.common_fields(), **_about(call))
        )
        _settle_if_refused(hook_answer)
        if hook_answer.permission is not None and hook_answer.permission.verdict == "allow":
            if hook_answer.updated_input is not None:
                call = replace(call, input=dict(hook_answer.updated_input))
                request = self._request(call)
                self._decide(request)  # raises if the changed input is denied
            return call, request
        with self.grants.asking(f"{request.tool}: {request.subject or request.action}"):
            answer = yield from self._consent(Asked(call, request, decision))
        if answer.always and answer.granted:
            self.grants.allow(*decision.would_allow)
        if answer.granted:
            return call, replace(request, secret="")
        if self.context.abort.is_set():
            raise Aborted()
        if answer.remark and not answer.unanswered:
            self._callbacks.remarked(call.id, answer.remark)
        refusal = "Not permitted." if answer.unanswered else "The user declined."
        raise _Settled(denied(f"{refusal} {answer.remark}" if answer.remark else refusal))

    def _without_secrets(
        self, call: ToolCall, request: PermissionRequest, output: ToolOutput
    ) -> ToolOutput:
        """The output with its secrets masked, if it may show some that the user did not agree to show."""
        permissions = self.grants.now
        if permissions.masks(request):
            return masked(output, named="by its name" in request.secret)
        searches = self.box.kinds().get(call.name) == "search" and permissions.secret_files != "allow"
        return masked(output, named=False) if searches else output

    def _consent(self, question: Asked) -> Run[Consented]:
        """Ask the user; an interrupt ends the waiting."""
        ask = partial(self._ask_user, question)
        stopped = self.context.abort.is_set
        grace = self.grace_seconds
        return Run(
            lambda: run_interruptibly(ask, stopped, grace),
            lambda: await_interruptibly(asyncio.to_thread(ask), stopped, grace),
        )

    def _act_between_checkpoints(
        self, call: ToolCall, request: PermissionRequest, context: Context
    ) -> Flow[ToolOutput]:
        """Run the tool; if it may change files, save them before and record the changes after it."""
        act = self._act(call, context)
        tool = self.box.get(call.name)
        # A function without a kind may do anything, so any file may change.
        paths = None if isinstance(tool, FunctionTool) and not tool.kind else may_change(request)
        checkpoints = self._callbacks.checkpoints
        if checkpoints is None or paths == ():
            return (yield from act)
        yield from in_thread(partial(checkpoints.begin, paths))
        try:
            output = yield from act
        except BaseException:
            checkpoints.end(paths)
            raise
        yield from in_thread(partial(checkpoints.end, paths))
        return output

    def _act(self, call: ToolCall, context: Context) -> Flow[ToolOutput]:
        """Run the tool; an interrupt ends the waiting."""
        box = self.box
        stopped = self.context.abort.is_set
        if (flow := box.flow(call.name, call.input, context)) is not None:
            return sendable((yield from flow), call.name)
        tool = box.get(call.name)
        # Wait only briefly for a function that cannot notice that it should stop.
        unstoppable = isinstance(tool, FunctionTool) and not tool.can_stop
        grace = min(SHORT_GRACE, self.grace_seconds) if unstoppable else self.grace_seconds
        awaiting = SHORT_GRACE if isinstance(tool, AsyncTool) else grace
        arguments = (call.name, call.input, context)
        return (
            yield from Run(
                lambda: run_interruptibly(partial(box.run, *arguments), stopped, grace),
                lambda: await_interruptibly(box.run_async(*arguments), stopped, awaiting),
            )
        )

    def _ask_user(self, question: Asked) -> Consented:
        """Ask one question at a time, and skip those that an earlier answer has settled."""
        with self._asking:
            # An earlier answer may have agreed to the server of this call as well.
            may_be_settled = question.request.server or question.request.spends
            request = self._request(question.call) if may_be_settled else question.request
            if question.decision.verdict == "ask" and self.grants.now.decide(request).verdict == "allow":
                return Consented(True)
            try:
                answer: Any = self._callbacks.consent(question)
                if isinstance(answer, Consented):
                    if answer.granted and may_be_settled:
                        self._approve(question.call)  # before the next question is looked at again
                    return answer
                problem = f"the answer was {answer!r:.60} instead of Consented."
            except BaseException as error:  # noqa: BLE001 (the program's function may fail in any way; refuse then)
                problem = f"{type(error).__name__}: {error}"
            return Consented(False, remark=f"Asking failed: {problem}", unanswered=True)

    def _approve(self, call: ToolCall) -> None:
        """Let a tool know that the user agreed to more than this call of it: to its server, or to a price."""
        tool: object = self.box.get(call.name)
        if isinstance(tool, Approvable):
            tool.permitted()

    def _fire(self, event: HookInput) -> Flow[HookOutcome]:
        outcome = yield from self._hooks.fire(event)
        if outcome.stop is not None and self.halted is None:
            self.halted = outcome.stop or "a hook wants the agent to stop"
        return outcome

    def _progress(self, call: ToolCall) -> Callable[[str], None]:
        abort = self.context.abort

        def report(text: str) -> None:
            # After an interrupt, the call may have been left behind and its result reported already.
            if not abort.is_set():
                self._callbacks.report(ToolProgress(call, text))

        return report


def result_block(call: ToolCall, output: ToolOutput) -> Mapping[str, Any]:
    """The ``tool_result`` block for a call."""
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": output.content}
    return {**result, "is_error": True} if output.is_error else result


def _about(call: ToolCall) -> dict[str, Any]:
    return {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}


def _settle_if_refused(outcome: HookOutcome) -> None:
    """Raise `_Settled` with a denial if the hooks refuse the call."""
    refused = outcome.permission if outcome.permission and outcome.permission.verdict == "deny" else None
    if outcome.blocked is not None or refused is not None:
        reason = outcome.blocked or (refused.reason if refused else "") or "no reason given"
        raise _Settled(denied(f"A hook refused this call: {reason}"))


def _with_hooks(
    output: ToolOutput, tool: str, post_outcome: HookOutcome, pre_context: Sequence[str]
) -> ToolOutput:
    """The output as changed and extended by hooks; ``pre_context`` is the context added by PreToolUse hooks."""
    if post_outcome.updated_output is not UNSET:
        updated = post_outcome.updated_output
        words = updated if isinstance(updated, str) else msgspec.json.encode(updated).decode()
        output = replace(output, content=words)
    added = [*pre_context, *([post_outcome.blocked] if post_outcome.blocked else []), *post_outcome.context]
    if not added:
        return sendable(output, tool)
    words = "[From a hook: " + "\n".join(added) + "]"
    if isinstance(output.content, str):
        return sendable(replace(output, content=f"{output.content}\n\n{words}"), tool)
    return sendable(replace(output, content=[*output.content, {"type": "text", "text": words}]), tool)
