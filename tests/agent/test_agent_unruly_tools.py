"""Tools that misbehave: whatever they return, raise or do, each call has one result and the agent can go on."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sevenfold import function_tool
from sevenfold.agent.agent_events import Ended, ToolBegan, ToolEnded, ToolProgress
from sevenfold.agent.executor import LEFT
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.errors import InputError
from sevenfold.events import SteppedAside
from sevenfold.record.wire import NO_RESULT
from tests.agent.working import agent, async_agent, blocks, model_of, results, use


class Own(BaseException):
    """An error of somebody's own."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it cannot even say what it is")


def raising(error: BaseException) -> Callable[[], str]:
    def act() -> str:
        """Raises."""
        raise error

    return act


def deep() -> str:
    """Never comes back."""
    return deep()


RAISED = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration("x"),
    MemoryError(),
    RecursionError(),
    Own("own"),
    Mute(),
    asyncio.CancelledError(),
    ExceptionGroup("several", [ValueError("one")]),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad \udcff"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_tool_raises_its_call_and_those_beside_it_have_results(error: BaseException) -> None:
    def fine() -> str:
        """Works."""
        return "fine"

    tools = [function_tool(raising(error), concurrent=True), function_tool(fine, concurrent=True)]
    with agent([[use("act", "c1"), use("fine", "c2")], "Good.", "Again."], tools=tools) as made:
        assert made.run("Go.").text == "Good."
        said = results(model_of(made).requests[-1])
        assert type(error).__name__ in said["c1"]
        assert said["c2"] == "fine"
        assert made.run("And?").text == "Again."


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("awaited", [True, False])
def test_the_same_holds_for_an_agent_that_awaits(error: BaseException, awaited: bool) -> None:
    async def act() -> str:
        """Raises."""
        raise error

    def fine() -> str:
        """Works."""
        return "fine"

    async def work() -> None:
        tools = [function_tool(act if awaited else raising(error), concurrent=True)]
        tools += [function_tool(fine, concurrent=True)]
        async with async_agent([[use("act", "c1"), use("fine", "c2")], "Good."], tools=tools) as made:
            ended = [event async for event in made.stream("Go.") if isinstance(event, ToolEnded)]
            told = {event.call.id: event.output for event in ended}
            assert type(error).__name__ in str(told["c1"].content)
            assert told["c2"].content == "fine"
            assert not made.assembly.conversation.transcript.view.pending_calls

    asyncio.run(work())


def test_a_tool_that_calls_itself_for_ever_has_a_result() -> None:
    with agent([[use("deep", "c1")], "Good."], tools=[deep]) as made:
        assert made.run("Go.").text == "Good."
        assert "RecursionError" in results(model_of(made).requests[-1])["c1"]


def test_a_file_name_in_another_encoding_is_spelled_out(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).touch()

    def ls() -> str:
        """Lists."""
        return "\n".join(path.name for path in tmp_path.glob("*.txt"))

    with agent([[use("ls", "c1")], "Good."], tools=[ls]) as made:
        assert made.run("Go.").text == "Good."
        assert results(model_of(made).requests[-1]) == {"c1": r"caf\xe9.txt"}


class Plain:
    """A tool of somebody's own, which gives back what it likes."""

    name, description, kind, concurrent = "plain", "Gives.", "", False
    schema: dict[str, Any] = {"type": "object", "properties": {}}  # noqa: RUF012 (what people write)

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    def permission_request(self, given: Any, context: Context) -> Any:
        from sevenfold.agent.permissions.rules import PermissionRequest

        return PermissionRequest(self.name)

    def run(self, given: Any, context: Context) -> Any:
        return self.gives


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.text(st.characters(categories=("Cs", "Cc", "L")))
    | st.binary()
    | st.builds(object)
    | st.just(Path("x\udcff"))
    | st.sampled_from(["text", "image", "tool_result", "", " "]),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.fixed_dictionaries({"type": inner}, optional={"text": inner, "source": inner})
        | st.frozensets(st.text() | st.integers())
        | st.iterables(inner)
        | st.builds(ToolOutput, inner, is_error=inner)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(anything, anything)
def test_whatever_tools_return_each_call_has_one_valid_result_and_the_next_run_works(
    one: Any, other: Any
) -> None:
    def gives() -> Any:
        """Gives."""
        return one

    steps = [[use("gives", "c1"), use("plain", "c2")], "Good.", "Again."]
    with agent(steps, tools=[gives, Plain(other)]) as made:
        assert made.run("Go.").text == "Good."
        assert made.run("And?").text == "Again."
        answered = blocks(model_of(made).requests[-1], "tool_result")
        assert [block["tool_use_id"] for block in answered] == ["c1", "c2"]
        for block in answered:
            content = block["content"]
            assert content
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            assert all(part["type"] in ("text", "image", "document", "search_result") for part in parts)
            assert all(part["text"].strip() for part in parts if part["type"] == "text")
            assert block.get("is_error") in (None, True)


def test_a_tool_that_runs_the_agent_is_told_that_it_is_at_work() -> None:
    def again() -> str:
        """Runs the agent."""
        return made.run("Again!").text

    with agent([[use("again", "c1")], "Good."], tools=[again]) as made:
        assert made.run("Go.").text == "Good."
        assert "the agent is working" in results(model_of(made).requests[-1])["c1"]


def test_a_tool_that_closes_the_agent_ends_the_run() -> None:
    def close() -> str:
        """Closes the agent."""
        made.close()
        return "closed"

    made = agent([[use("close", "c1")], "Good."], tools=[close])
    assert made.run("Go.").end == "interrupted"
    assert made.assembly.conversation.transcript.view.pending_calls == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tool_that_forks_answers_once() -> None:
    def split() -> str:
        """Forks."""
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return "parent" if child else "child"

    with agent([[use("split", "c1")], "Good."], tools=[split]) as made:
        assert made.run("Go.").text == "Good."
        assert results(model_of(made).requests[-1]) == {"c1": "parent"}


def test_consent_that_is_none_grants_nothing() -> None:
    def act() -> str:
        """Acts."""
        raise AssertionError("nobody permitted it")

    tools = [function_tool(act, asks=True)]
    with agent([[use("act", "c1")], "Good."], tools=tools, consent=lambda asked: True) as made:
        assert made.run("Go.").text == "Good."
        assert "Not permitted" in results(model_of(made).requests[-1])["c1"]


def test_calls_that_something_kept_from_being_answered_are_closed_by_the_next_run() -> None:
    with agent([[use("act", "c1")], "Good."], tools=[raising(ValueError())]) as made:

        def broken(calls: Any) -> Any:
            raise SystemExit(3)

        act, made.assembly.executor.run = made.assembly.executor.run, broken  # type: ignore[method-assign]  # a fault
        with pytest.raises(SystemExit):
            made.run("Go.")
        made.assembly.executor.run = act  # type: ignore[method-assign]  # mended
        assert made.run().text == "Good."
        assert results(model_of(made).requests[-1]) == {"c1": NO_RESULT}


def test_with_nothing_to_do_it_says_what_an_agent_can_be_told() -> None:
    with agent(["Hello.", "More."], tools=[]) as made:
        for _ in range(2):
            with pytest.raises(InputError, match=r'run\("…"\)'):
                made.run()
            assert not made.running
        assert made.run("Hi.").text == "Hello."
        with pytest.raises(InputError, match="nothing left to do"):
            made.run()
        made.queue("Go on.")
        assert made.run().text == "More."


@pytest.mark.parametrize("grace", [3.0, 60.0])
def test_a_plain_function_is_not_waited_for_and_what_it_says_later_is_dropped(grace: float) -> None:
    over, told = threading.Event(), threading.Event()

    def stubborn() -> str:
        """Cannot hear."""
        over.wait(30)
        told.set()
        return "too late"

    with agent([[use("stubborn", "c1")], "I see."], tools=[stubborn]) as made:
        made.assembly.executor.grace_seconds = grace
        for event in made.stream("Go."):
            if isinstance(event, ToolBegan):
                made.interrupt()
        assert not told.is_set()
        over.set()
        told.wait(30)
        assert made.run("And?").text == "I see."
        assert results(model_of(made).requests[-1]) == {"c1": LEFT}


def test_an_async_function_is_cancelled_by_an_agent_that_waits() -> None:
    ended: list[str] = []

    async def endless(context: Context) -> str:
        """Never ends by itself."""
        context.progress("on")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return "never"

    with agent([[use("endless", "c1")], "I see."], tools=[endless]) as made:
        for event in made.stream("Go."):
            if isinstance(event, ToolProgress):
                made.interrupt()
        assert ended == ["cancelled"]
        assert made.run("And?").text == "I see."
        assert "stopped" in results(model_of(made).requests[-1])["c1"]


def test_what_a_tool_that_was_left_behind_tells_reaches_nobody() -> None:
    go, said = threading.Event(), threading.Event()

    def stubborn(context: Context) -> str:
        """Does not listen."""
        go.wait(30)
        context.progress("still here")
        said.set()
        return "too late"

    def wait() -> str:
        """Lets the other go on."""
        go.set()
        said.wait(30)
        return "waited"

    with agent([[use("stubborn", "c1")], [use("wait", "c2")], "Good."], tools=[stubborn, wait]) as made:
        made.assembly.executor.grace_seconds = 0.01
        for event in made.stream("Go."):
            if isinstance(event, ToolBegan):
                made.interrupt()
        events = list(made.stream("And?"))
        assert not any(isinstance(event, ToolProgress) for event in events)
        assert isinstance(events[-1], Ended)
        assert events[-1].finished.text == "Good."


def test_a_rule_that_names_no_tool_is_told_of() -> None:
    heard: list[str] = []

    def hear(event: Any) -> None:
        heard.extend([event.reason] if isinstance(event, SteppedAside) and event.layer == "rules" else [])

    rules = {
        "allow": ["Frobnicate(x)", "mcp__git__log", "Shell(git *)", "Gr*"],
        "ask": ["shel(ls)"],
        "deny": ["Read(.env)"],
    }
    with agent(["Hello.", "Again."], rules=rules, listen=[hear]) as made:
        made.run("Hi.")
        made.run("And?")
    assert len(heard) == 2
    assert "Frobnicate(x) has no effect" in heard[0]
    assert "did you mean Shell?" in heard[1]
