"""The agent's hands: from a tool call to its result, past hooks, permissions and the user.

What happens to one call is a flow, `using`, so that it is written once for those who wait and those who await. Calls
of tools that may run beside others do; all others wait their turn. Whatever goes wrong becomes a result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from sevenfold.errors import Aborted
from sevenfold.runtime.drive import Fire
from sevenfold.runtime.hooks.inputs import PermissionRequest, PostToolUse, PreToolUse
from sevenfold.runtime.hooks.outcomes import Outcome
from sevenfold.runtime.hooks.run import AsyncHooks, Hooks
from sevenfold.runtime.loop import Call
from sevenfold.runtime.session import Session
from sevenfold.tools.context import Context
from sevenfold.tools.output import FileRead, ToolOutput, failed
from sevenfold.tools.permissions import Decision, Permissions
from sevenfold.tools.toolbox import Toolbox
from sevenfold.tools.wish import Wish

BESIDE = 8
"""The most calls that run beside each other."""


class Asked(Struct, frozen=True):
    """Something the user has to decide about."""

    call: Call
    wish: Wish
    decision: Decision


class Consented(Struct, frozen=True):
    """What the user decided."""

    granted: bool
    always: bool = False
    """From now on too, by the rules the decision names."""
    remark: str = ""


Consent = Callable[[Asked], Consented]


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


class Grants:
    """The permissions of a session, as they stand now."""

    def __init__(self, permissions: Permissions) -> None:
        self.now = permissions

    def allow(self, *rules: str) -> None:
        """Allow something from now on."""
        self.now = self.now.allowing(*rules)


class Hands:
    """Carries out the calls of one session."""

    def __init__(
        self,
        box: Toolbox,
        context: Context,
        grants: Grants,
        session: Session,
        *,
        common: Callable[[], dict[str, str]],
        consent: Consent,
        hooks: Hooks | None = None,
        async_hooks: AsyncHooks | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.box = box
        self.context = context
        self.grants = grants
        self.witness = witness
        self._session = session
        self._common = common
        self._consent = consent
        self._hooks = hooks
        self._async_hooks = async_hooks

    # -- many calls -----------------------------------------------------------------------------

    def act(self, calls: Sequence[Call]) -> list[Mapping[str, Any]]:
        """Carry out calls; a ``tool_result`` block for each, in order."""
        results: list[Mapping[str, Any]] = []
        for group in self._groups(calls):
            if len(group) == 1:
                results.append(self._one(group[0]))
                continue
            with ThreadPoolExecutor(min(BESIDE, len(group)), "sevenfold-tool") as pool:
                results += list(pool.map(self._one, group))
        return results

    async def act_async(self, calls: Sequence[Call]) -> list[Mapping[str, Any]]:
        """The same, awaited."""
        results: list[Mapping[str, Any]] = []
        for group in self._groups(calls):
            results += await asyncio.gather(*(self._one_async(call) for call in group))
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
        flow, began = self.using(call), time.monotonic()
        got: Any = None
        try:
            while True:
                match flow.send(got):
                    case Fire(event=event):
                        got = (
                            self._hooks.fire(event) if self._hooks else Outcome(event=type(event).__name__)
                        )
                    case Asked() as asked:
                        got = self._consent(asked)
                    case Use(name=name, given=given, context=context):
                        got = self.box.run(name, given, context)
        except StopIteration as end:
            return self._result(call, end.value, time.monotonic() - began)
        finally:
            flow.close()

    async def _one_async(self, call: Call) -> Mapping[str, Any]:
        flow, began = self.using(call), time.monotonic()
        got: Any = None
        try:
            while True:
                match flow.send(got):
                    case Fire(event=event):
                        hooks = self._async_hooks
                        got = await hooks.fire(event) if hooks else Outcome(event=type(event).__name__)
                    case Asked() as asked:
                        got = await asyncio.to_thread(self._consent, asked)
                    case Use(name=name, given=given, context=context):
                        got = await self.box.run_async(name, given, context)
        except StopIteration as end:
            return self._result(call, end.value, time.monotonic() - began)
        finally:
            flow.close()

    def using(self, call: Call) -> Generator[Any, Any, ToolOutput]:
        """What happens to a call: checked, looked at by hooks, permitted, carried out, looked at again."""
        if self.context.abort.is_set():
            raise Aborted()
        if self.witness:
            self.witness.began(call)
        given = call.input
        wish = self.box.wish(call.name, given, self.context)
        if isinstance(wish, ToolOutput):
            return wish
        about = {"tool_name": call.name, "tool_input": given, "tool_use_id": call.id}
        heard: Outcome = yield Fire(PreToolUse(**self._common(), **about))
        if heard.blocked is not None:
            return failed(f"A hook refused this call: {heard.blocked}")
        if heard.updated_input is not None:
            given = dict(heard.updated_input)
            wish = self.box.wish(call.name, given, self.context)
            if isinstance(wish, ToolOutput):
                return wish
        refused = yield from self._permitted(replace(call, input=given), wish, heard)
        if refused is not None:
            return refused
        began = time.monotonic()
        context = self.context.for_call(call.id, wish=wish, progress=self._progress(call))
        output: ToolOutput = yield Use(call.name, given, context)
        self._learn(call, output)
        spent = round((time.monotonic() - began) * 1000)
        after: Outcome = yield Fire(
            PostToolUse(**self._common(), **about, tool_response=output.content, duration_ms=spent)
        )
        return _after_hooks(output, after)

    def _permitted(self, call: Call, wish: Wish, heard: Outcome) -> Generator[Any, Any, ToolOutput | None]:
        """None if the call may be carried out, else the result that says why not."""
        decision = self.grants.now.decide(wish)
        hook = heard.permission
        if decision.verdict == "deny":
            return failed(decision.reason)
        if hook is not None and hook.verdict == "deny":
            return failed(f"A hook refused this call: {hook.reason or 'no reason given'}")
        if hook is not None and hook.verdict == "allow":
            return None
        if decision.verdict == "allow" and (hook is None or hook.verdict != "ask"):
            return None
        about = {"tool_name": call.name, "tool_input": call.input, "tool_use_id": call.id}
        answered: Outcome = yield Fire(PermissionRequest(**self._common(), **about))
        if answered.permission is not None and answered.permission.verdict in ("allow", "deny"):
            if answered.permission.verdict == "allow":
                return None
            return failed(f"A hook refused this call: {answered.permission.reason or 'no reason given'}")
        said: Consented = yield Asked(call, wish, decision)
        if said.always and said.granted:
            self.grants.allow(*decision.would_allow)
        if said.granted:
            return None
        return failed(f"The user did not permit this.{' ' + said.remark if said.remark else ''}")

    def _progress(self, call: Call) -> Callable[[str], None]:
        def told(text: str) -> None:
            if self.witness:
                self.witness.progress(call, text)

        return told

    def _learn(self, call: Call, output: ToolOutput) -> None:
        for fact in output.facts:
            if isinstance(fact, FileRead) and fact.whole and not fact.again:
                self._session.remember_read(fact.path, call.id, fact.version)

    def _result(self, call: Call, output: ToolOutput, seconds: float) -> Mapping[str, Any]:
        if self.witness:
            self.witness.ended(call, output, seconds)
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": output.content}
        if output.is_error:
            result["is_error"] = True
        return result


def _after_hooks(output: ToolOutput, after: Outcome) -> ToolOutput:
    if after.updated_output is not UNSET:
        updated = after.updated_output
        output = replace(
            output, content=updated if isinstance(updated, str) else msgspec.json.encode(updated).decode()
        )
    told = [*([after.blocked] if after.blocked else []), *after.context]
    if not told:
        return output
    words = "\n".join(told)
    if isinstance(output.content, str):
        return replace(output, content=f"{output.content}\n\n[From a hook: {words}]")
    return replace(output, content=[*output.content, {"type": "text", "text": f"[From a hook: {words}]"}])
