"""The agent's hands: from a tool call to its result, past hooks, permissions and the user.

What happens to one call is a flow, `using`, so that it is written once for those who wait and those who await. Calls
of tools that may run beside others do; all others wait their turn. Whatever goes wrong becomes a result, and so does
an interruption: a tool that does not stop when it is told to is left behind.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent import call_results
from sevenfold.agent.hooks.registry import AsyncHooks, Hooks
from sevenfold.agent.loop import Call, unheard
from sevenfold.agent.permissions.engine import Decision, Grants
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.tools.context import Abort, Context
from sevenfold.agent.tools.functions import FunctionTool
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.tool import AsyncTool, Toolbox
from sevenfold.agent.wait import CANCEL_GRACE, GRACE, Left, unless_left, unless_left_async
from sevenfold.conversation import hooks as hook_inputs
from sevenfold.conversation.flow import Fire
from sevenfold.conversation.hooks import HookInput, HookOutcome, PostToolUse, PreToolUse
from sevenfold.errors import Aborted

BESIDE = 8
"""The most calls that run beside each other."""


class Asked(Struct, frozen=True):
    """Something the user has to decide about."""

    call: Call
    wish: PermissionRequest
    decision: Decision


class Consented(Struct, frozen=True):
    """What the user decided."""

    granted: bool
    always: bool = False
    """From now on too, by the rules the decision names."""
    remark: str = ""


Consent = Callable[[Asked], Consented]
NOBODY = "Nobody can be asked in this session; do without, or say what you would need permission for."


def nobody(asked: Asked) -> Consented:
    """Consent where there is nobody to give it."""
    return Consented(False, remark=NOBODY)


class Use(Struct, frozen=True):
    """What the flow yields to have the tool itself run."""

    name: str
    given: Any
    context: Context


class Witness(Protocol):
    """Whoever watches the agent work."""

    def began(self, call: Call) -> None:
        """A call is about to be carried out."""
        ...

    def progress(self, call: Call, text: str) -> None:
        """Output of a call that is still running."""
        ...

    def ended(self, call: Call, output: ToolOutput, seconds: float) -> None:
        """A call has its result."""
        ...


Permitted = tuple[Call, PermissionRequest] | ToolOutput
Learn = Callable[[Call, ToolOutput], None]
"""Told of each call that was carried out, before its result goes anywhere."""


class Hands:
    """Carries out the calls of one session."""

    def __init__(
        self,
        box: Toolbox,
        context: Context,
        grants: Grants,
        *,
        common: Callable[[], Mapping[str, str]],
        consent: Consent = nobody,
        hooks: Hooks | AsyncHooks | None = None,
        witness: Witness | None = None,
        learn: Learn | None = None,
        keep: Callable[[], None] = lambda: None,
        heard: Callable[[HookOutcome], None] = unheard,
    ) -> None:
        self.box = box
        self.context = context
        self.grants = grants
        self.halted: str | None = None
        """Why the agent is to stop altogether, if a hook said so."""
        self.patience = GRACE
        """Seconds a tool gets to end when it is told to; then it is left behind."""
        self._witness = witness
        self._learn = learn
        self._keep = keep
        self._heard = heard
        self._common = common
        self._consent = consent
        self._asking = threading.Lock()
        self._others: list[Hands] = []
        self._hooks = hooks if isinstance(hooks, Hooks) else None
        self._async_hooks = hooks if isinstance(hooks, AsyncHooks) else None

    def beside(self, box: Toolbox, learn: Learn) -> Hands:
        """Hands with other tools and the same permissions, which nobody watches."""
        hooks = self._hooks or self._async_hooks
        other = Hands(
            box,
            self.context,
            self.grants,
            common=self._common,
            consent=self._consent,
            hooks=hooks,
            learn=learn,
            keep=self._keep,
            heard=self._heard,
        )
        self._others.append(other)
        return other

    def ready(self) -> None:
        """Before a run: what stopped the one before does not stop this one."""
        self.context = replace(self.context, abort=Abort())
        for other in self._others:
            other.context = self.context

    def stop(self) -> None:
        """Stop what is running, with all it started."""
        self.context.abort.set()

    # -- many calls -----------------------------------------------------------------------------

    def act(self, calls: Sequence[Call]) -> list[Mapping[str, Any]]:
        """Carry out calls; a ``tool_result`` block for each, in order."""
        results: list[Mapping[str, Any]] = []
        for group in self._groups(calls):
            if len(group) == 1:
                results.append(self._one(group[0]))
                continue
            contexts = [contextvars.copy_context() for _ in group]
            with ThreadPoolExecutor(min(BESIDE, len(group)), "sevenfold-tool") as pool:
                results += list(pool.map(lambda run, call: run.run(self._one, call), contexts, group))
        self._keep()
        return results

    async def act_async(self, calls: Sequence[Call]) -> list[Mapping[str, Any]]:
        """The same, awaited."""
        results: list[Mapping[str, Any]] = []
        room = asyncio.Semaphore(BESIDE)

        async def one(call: Call) -> Mapping[str, Any]:
            async with room:
                return await self._one_async(call)

        for group in self._groups(calls):
            results += await asyncio.gather(*map(one, group))
        await asyncio.to_thread(self._keep)
        return results

    def _groups(self, calls: Sequence[Call]) -> list[list[Call]]:
        """Calls that may run beside each other, together; the order stays."""
        groups: list[list[Call]] = []
        open_group = False
        for call in calls:
            beside = self.box.concurrent(call.name)
            if beside and open_group:
                groups[-1].append(call)
            else:
                groups.append([call])
            open_group = beside
        return groups

    # -- one call -------------------------------------------------------------------------------

    def _one(self, call: Call) -> Mapping[str, Any]:
        flow, began, abort = self.using(call), time.monotonic(), self.context.abort
        try:
            wanted = next(flow)
            while True:
                try:
                    got = self._do(wanted, abort)
                except Aborted as stop:
                    wanted = flow.throw(stop)
                else:
                    wanted = flow.send(got)
        except StopIteration as end:
            output: ToolOutput = end.value
        except (Aborted, Left) as stop:
            output = call_results.stopped(stop)
        except Exception as error:  # noqa: BLE001 (a call without a result would end the conversation)
            output = call_results.broken(call, error)
        finally:
            flow.close()
        return self._result(call, output, began)

    def _do(self, wanted: Any, abort: Abort) -> Any:
        """What a flow wants done."""
        match wanted:
            case Fire(event=event):
                return self._hooks.fire(event, abort.is_set) if self._hooks else _silent(event)
            case Asked() as asked:
                return unless_left(partial(self._ask_user, asked), abort, self.patience)
            case Use(name=name, given=given, context=context):
                work = partial(self.box.run, name, given, context)
                return unless_left(work, abort, self._patience(name))
            case _:
                raise AssertionError(f"nobody knows how to do {wanted!r}")

    async def _one_async(self, call: Call) -> Mapping[str, Any]:
        flow, began, abort = self.using(call), time.monotonic(), self.context.abort
        got: Any = None
        try:
            while True:
                match wanted := flow.send(got):
                    case Fire(event=event):
                        hooks = self._async_hooks
                        got = await hooks.fire(event) if hooks else _silent(event)
                    case Asked() as asked:
                        got = await unless_left_async(
                            asyncio.to_thread(self._ask_user, asked), abort, self.patience
                        )
                    case Use(name=name, given=given, context=context):
                        brief = isinstance(self.box.get(name), AsyncTool)
                        work = self.box.run_async(name, given, context)
                        got = await unless_left_async(
                            work, abort, CANCEL_GRACE if brief else self._patience(name)
                        )
                    case _:
                        raise AssertionError(f"nobody knows how to do {wanted!r}")
        except StopIteration as end:
            output: ToolOutput = end.value
        except (Aborted, Left) as stop:
            output = call_results.stopped(stop)
        except Exception as error:  # noqa: BLE001 (a call without a result would end the conversation)
            output = call_results.broken(call, error)
        finally:
            flow.close()
        return self._result(call, output, began)

    def _patience(self, name: str) -> float:
        """How long a tool is waited for that was told to stop; hardly at all if it cannot hear it."""
        tool = self.box.get(name)
        deaf = isinstance(tool, FunctionTool) and not tool.listens
        return min(CANCEL_GRACE, self.patience) if deaf else self.patience

    def _ask_user(self, asked: Asked) -> Consented:
        """One question at a time; what an answer before has settled is not asked."""
        with self._asking:
            if asked.decision.verdict == "ask" and self.grants.now.decide(asked.wish).verdict == "allow":
                return Consented(True)
            try:
                said: Any = self._consent(asked)
            except BaseException as error:  # noqa: BLE001 (whoever asks may fail in any way; then nothing is granted)
                return Consented(False, remark=f"Asking failed: {type(error).__name__}: {error}")
            if isinstance(said, Consented):
                return said
            return Consented(False, remark=f"Asking failed: the answer was {said!r:.60} and no Consented.")

    def using(self, call: Call) -> Generator[Any, Any, ToolOutput]:
        """What happens to a call: checked, looked at by hooks, permitted, carried out, looked at again."""
        if self.context.abort.is_set():
            raise Aborted()
        if self._witness:
            self._witness.began(call)
        wish = self.box.permission_request(call.name, call.input, self.context)
        if isinstance(wish, ToolOutput):
            return wish
        heard = yield from self._fire(PreToolUse(**self._common(), **_about(call)))
        if heard.blocked is not None:
            return failed(f"A hook refused this call: {heard.blocked}")
        if heard.updated_input is not None:
            call = replace(call, input=dict(heard.updated_input))
            wish = self.box.permission_request(call.name, call.input, self.context)
            if isinstance(wish, ToolOutput):
                return wish
        permitted = yield from self._permitted(call, wish, heard)
        if isinstance(permitted, ToolOutput):
            return permitted
        call, wish = permitted
        began = time.monotonic()
        context = self.context.for_call(call.id, permitted=wish, progress=self._progress(call))
        output: ToolOutput = yield Use(call.name, call.input, context)
        if self._learn:
            self._learn(call, output)
        spent = round((time.monotonic() - began) * 1000)
        told = PostToolUse(
            **self._common(), **_about(call), tool_response=output.content, duration_ms=spent
        )
        try:
            after = yield from self._fire(told)
        except Aborted:
            # What the tool did is done, whoever was not asked about it any more.
            return output
        return call_results.after_hooks(output, call.name, after, heard.context)

    def _permitted(
        self, call: Call, wish: PermissionRequest, heard: HookOutcome
    ) -> Generator[Any, Any, Permitted]:
        """The call as it may be carried out, else the result that says why not."""
        decision, hook = self.grants.now.decide(wish), heard.permission
        if decision.verdict == "deny":
            return failed(decision.reason)
        if hook is not None and hook.verdict == "deny":
            return failed(f"A hook refused this call: {hook.reason or 'no reason given'}")
        by_rule = decision.verdict == "ask" and decision.rule
        wanted = hook.verdict if hook is not None and not by_rule else decision.verdict
        if wanted == "allow":
            return call, wish
        answered = yield from self._fire(hook_inputs.PermissionRequest(**self._common(), **_about(call)))
        if answered.blocked is not None:
            return failed(f"A hook refused this call: {answered.blocked}")
        if answered.permission is not None and answered.permission.verdict == "deny":
            return failed(f"A hook refused this call: {answered.permission.reason or 'no reason given'}")
        if answered.permission is not None and answered.permission.verdict == "allow":
            return self._changed(call, wish, answered.updated_input)
        with self.grants.asking(f"{wish.tool}: {wish.subject or wish.action}"):
            said: Consented = yield Asked(call, wish, decision)
        if said.always and said.granted:
            self.grants.allow(*decision.would_allow)
        if said.granted:
            return call, wish
        return failed(f"The user did not permit this.{' ' + said.remark if said.remark else ''}")

    def _changed(self, call: Call, wish: PermissionRequest, given: Mapping[str, Any] | None) -> Permitted:
        """A call a hook has allowed, with the input it gave; what a rule forbids stays forbidden."""
        if given is None:
            return call, wish
        other = self.box.permission_request(call.name, dict(given), self.context)
        if isinstance(other, ToolOutput):
            return other
        decision = self.grants.now.decide(other)
        if decision.verdict == "deny":
            return failed(decision.reason)
        return replace(call, input=dict(given)), other

    def _fire(self, event: HookInput) -> Generator[Any, Any, HookOutcome]:
        heard: HookOutcome = yield from Fire(event)
        self._heard(heard)
        if heard.stop is not None and self.halted is None:
            self.halted = heard.stop or "a hook wants the agent to stop"
        return heard

    def _progress(self, call: Call) -> Callable[[str], None]:
        abort = self.context.abort

        def told(text: str) -> None:
            # Once it is to stop, it may be left behind, and then nobody knows of it any more.
            if self._witness and not abort.is_set():
                self._witness.progress(call, text)

        return told

    def _result(self, call: Call, output: ToolOutput, began: float) -> Mapping[str, Any]:
        if self._witness:
            self._witness.ended(call, output, time.monotonic() - began)
        return call_results.block(call, output)


def _about(call: Call) -> dict[str, Any]:
    return {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}


def _silent(event: Any) -> HookOutcome:
    return HookOutcome(event=type(event).__name__)
