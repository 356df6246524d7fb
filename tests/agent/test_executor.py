"""The executor as a flow: driven by hand, and what the drivers do with flows that run at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from sevenfold import Consented, function_tool
from sevenfold.agent.agent_events import AgentEvent, ToolBegan, ToolEnded
from sevenfold.agent.executor import LEFT, NOT_DONE, AgentHooks, Callbacks, Executor
from sevenfold.agent.interrupt import LeftBehind
from sevenfold.agent.permissions.engine import Grants, Permissions
from sevenfold.agent.tools.context import Context, Desk
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import Toolbox
from sevenfold.conversation import hooks
from sevenfold.conversation.flow import Fire, Flow, Gather, Run, drive, drive_async, in_thread
from sevenfold.conversation.hooks import HookOutcome, PostToolUse, PreToolUse
from sevenfold.conversation.request import ToolCall
from sevenfold.errors import Aborted

CALL = ToolCall("c1", "act", {})


def executor(folder: Path, told: list[AgentEvent]) -> Executor:
    def act() -> str:
        return "done"

    common = {"session_id": "s", "transcript_path": "", "cwd": str(folder)}
    return Executor(
        Toolbox([function_tool(act, asks=True)]),
        Context(workspace=folder, desk=Desk(folder)),
        Grants(Permissions(workspace=str(folder))),
        AgentHooks(lambda: common, lambda outcome: None),
        Callbacks(report=told.append),
    )


def one_call(made: Executor) -> tuple[Flow[Any], Flow[Any]]:
    """The flow of a round with one call, and the flow of that call in it."""
    whole = made.run([CALL])
    effect = next(whole)
    assert isinstance(effect, Gather)
    (flow,) = effect.flows
    return whole, flow


def until_used(flow: Flow[Any]) -> Run[Any]:
    """Step through hooks and consent up to the tool itself."""
    effect = next(flow)
    assert isinstance(effect, Fire)
    assert isinstance(effect.event, PreToolUse)
    effect = flow.send(HookOutcome(event="PreToolUse"))
    assert isinstance(effect, Fire)
    assert isinstance(effect.event, hooks.PermissionRequest)
    effect = flow.send(HookOutcome(event="PermissionRequest"))
    assert isinstance(effect, Run)
    effect = flow.send(Consented(True))
    assert isinstance(effect, Run)
    return effect


def test_a_call_goes_past_hooks_and_the_user_to_the_tool_and_past_hooks_again(tmp_path: Path) -> None:
    told: list[AgentEvent] = []
    whole, flow = one_call(executor(tmp_path, told))
    output = until_used(flow).now()
    effect = flow.send(output)
    assert isinstance(effect, Fire)
    assert isinstance(effect.event, PostToolUse)
    with pytest.raises(StopIteration) as ended:
        flow.send(HookOutcome(event="PostToolUse", context=("well done",)))
    result = ended.value.value
    assert result["content"] == "done\n\n[From a hook: well done]"
    assert [type(one) for one in told] == [ToolBegan, ToolEnded]
    saved = whole.send([result])
    assert isinstance(saved, Run)
    with pytest.raises(StopIteration) as all_ended:
        whole.send(None)
    assert all_ended.value.value == [result]


@pytest.mark.parametrize(
    ("error", "says"), [(Aborted(), NOT_DONE), (LeftBehind(), LEFT), (KeyError("x"), "KeyError")]
)
def test_whatever_a_driver_throws_in_becomes_the_result(
    error: Exception, says: str, tmp_path: Path
) -> None:
    _, flow = one_call(executor(tmp_path, []))
    until_used(flow)
    with pytest.raises(StopIteration) as ended:
        flow.throw(error)
    assert ended.value.value["is_error"]
    assert says in ended.value.value["content"]


def test_a_tool_that_has_run_keeps_its_result_when_its_hooks_are_interrupted(tmp_path: Path) -> None:
    _, flow = one_call(executor(tmp_path, []))
    until_used(flow)
    flow.send(ToolOutput("done"))
    with pytest.raises(StopIteration) as ended:
        flow.throw(Aborted())
    assert ended.value.value == {"type": "tool_result", "tool_use_id": "c1", "content": "done"}


def meeting(barrier: threading.Barrier, number: int) -> Flow[int]:
    yield from in_thread(barrier.wait)
    return number


@pytest.mark.parametrize("waits", [True, False])
def test_gathered_flows_run_at_once_without_the_guard_and_their_results_are_in_order(waits: bool) -> None:
    guard, barrier = threading.Lock(), threading.Barrier(3, timeout=30)

    def free(number: int) -> Flow[int]:
        assert not guard.locked()
        return (yield from meeting(barrier, number))

    def flow() -> Flow[list[int]]:
        return (yield from Gather([free(number) for number in range(3)], 3))

    if waits:
        assert drive(flow(), None, guard=guard) == [0, 1, 2]
    else:
        assert asyncio.run(drive_async(flow(), None)) == [0, 1, 2]


@pytest.mark.parametrize("waits", [True, False])
def test_no_more_flows_run_at_once_than_the_limit_says(waits: bool) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    def one() -> Flow[None]:
        yield from in_thread(work)

    def flow() -> Flow[list[None]]:
        return (yield from Gather([one() for _ in range(6)], 2))

    done = drive(flow(), None) if waits else asyncio.run(drive_async(flow(), None))
    assert (len(done), most) == (6, 2)


def test_an_error_of_a_gathered_flow_is_thrown_into_the_flow_that_gathers() -> None:
    def fails() -> Flow[None]:
        yield from in_thread(lambda: None)
        raise ValueError("no")

    def flow() -> Flow[str]:
        try:
            yield from Gather([fails(), fails()], 2)
        except ValueError as error:
            return str(error)
        return "yes"

    assert drive(flow(), None) == "no"
    assert asyncio.run(drive_async(flow(), None)) == "no"
