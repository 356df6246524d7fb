"""An agent at work: tools, order, parallelism, queued words, limits, and what it tells meanwhile."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.agent_events import (
    Ended,
    EventQueue,
    Finished,
    Happened,
    ToolBegan,
    ToolEnded,
    ToolProgress,
)
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.read import ReadTool
from sevenfold.errors import InputError, Refused
from sevenfold.events import Answered, Sending
from sevenfold.lab.simulator.brains import ModelReply
from sevenfold.ports import Piece
from tests.agent.working import (
    agent,
    async_agent,
    blocks,
    kinds,
    messages,
    model_of,
    results,
    use,
    words,
    world,
)


@dataclass
class Point:
    x: int
    y: int


def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


def mirrored(point: Point) -> Point:
    """Mirrors a point."""
    return Point(-point.x, -point.y)


async def later(word: str) -> str:
    """Says a word, later."""
    await asyncio.sleep(0)
    return word.upper()


def failing() -> str:
    """Fails."""
    raise ValueError("the disk is on fire")


def test_any_function_is_a_tool_and_its_answer_reaches_the_model() -> None:
    steps = [
        [
            use("add", "c1", a=2, b=3),
            use("mirrored", "c2", point={"x": 1, "y": 2}),
            use("later", "c3", word="hm"),
        ],
        "All done.",
    ]
    with agent(steps, tools=[add, mirrored, later]) as made:
        done = made.run("Work.")
        assert (done.end, done.text, done.turns) == ("done", "All done.", 2)
        assert done.tokens > 0
        assert results(model_of(made).requests[1]) == {"c1": "5", "c2": '{"x":-1,"y":-2}', "c3": "HM"}
        told = model_of(made).requests[0]["tools"]
        assert [one["name"] for one in told] == ["add", "later", "mirrored"]
        assert told[0]["input_schema"]["required"] == ["a"]


def test_a_tool_that_raises_answers_with_an_error_and_the_agent_goes_on() -> None:
    steps = [
        [use("failing", "c1")],
        [use("nothing_like_it", "c2")],
        [use("add", "c3", a="two")],
        "I give up.",
    ]
    with agent(steps, tools=[failing, add]) as made:
        assert made.run("Try.").end == "done"
        last = model_of(made).requests[-1]
        errors = {block["tool_use_id"]: block for block in blocks(last, "tool_result")}
        assert all(block["is_error"] for block in errors.values())
        answers = results(last)
        assert "the disk is on fire" in answers["c1"]
        assert "nothing_like_it" in answers["c2"]
        assert "Invalid input" in answers["c3"]


def test_a_function_may_ask_for_the_context_of_its_call() -> None:
    def where(context: Context) -> str:
        """Says where it works."""
        context.progress("looking…")
        return f"{context.workspace} in {context.call}"

    with agent([[use("where", "c1")], "Good."], tools=[where]) as made:
        events = list(made.stream("Where?"))
        assert results(model_of(made).requests[1])["c1"] == f"{Path.cwd().resolve()} in c1"
        assert [event.text for event in events if isinstance(event, ToolProgress)] == ["looking…"]


def test_calls_that_may_run_beside_each_other_do_and_answer_in_the_order_asked() -> None:
    meeting = threading.Barrier(3, timeout=30)

    def meet(name: str) -> str:
        """Waits for two others."""
        meeting.wait()
        return name

    tool = sevenfold.function_tool(meet, concurrent=True)
    calls = [use("meet", f"c{n}", name=f"number {n}") for n in range(3)]
    with agent([calls, "Met."], tools=[tool]) as made:
        assert made.run("Meet.").end == "done"
        found = results(model_of(made).requests[1])
        assert list(found.items()) == [(f"c{n}", f"number {n}") for n in range(3)]
        assert len(messages(model_of(made).requests[1])[-1]["content"]) == 3


def test_other_calls_wait_their_turn() -> None:
    running: list[str] = []
    most: list[int] = []

    def alone(name: str) -> str:
        """Must not be disturbed."""
        running.append(name)
        most.append(len(running))
        running.remove(name)
        return name

    with agent(
        [[use("alone", name="a"), use("alone", name="b"), use("alone", name="c")], "Done."], tools=[alone]
    ) as made:
        made.run("Go.")
        assert most == [1, 1, 1]


def test_an_awaited_agent_runs_coroutines_beside_each_other() -> None:
    async def work() -> None:
        came = asyncio.Event()

        async def first() -> str:
            """Waits for the second."""
            await asyncio.wait_for(came.wait(), 30)
            return "first"

        async def second() -> str:
            """Lets the first go on."""
            came.set()
            return "second"

        tools = [sevenfold.function_tool(one, concurrent=True) for one in (first, second)]
        async with async_agent([[use("first"), use("second")], "Both."], tools=tools) as made:
            events = [event async for event in made.stream("Go.")]
            assert isinstance(events[-1], Ended)
            assert events[-1].finished.text == "Both."
            ended = [event.output.content for event in events if isinstance(event, ToolEnded)]
            assert sorted(ended) == ["first", "second"]

    asyncio.run(work())


def test_the_stream_tells_in_order_what_happens_and_ends_with_what_was_finished() -> None:
    with agent([[words("Adding."), use("add", "c1", a=1)], "Two."], tools=[add]) as made:
        events = list(made.stream("Add one."))
        shown = [event for event in events if not isinstance(event, Happened)]
        assert kinds(shown) == ["Piece", "Piece", "Piece", "ToolBegan", "ToolEnded", "Piece", "Ended"]
        assert shown[0] == Piece("text", "Adding.")
        assert isinstance(shown[3], ToolBegan)
        assert shown[3].call.name == "add"
        assert isinstance(shown[4], ToolEnded)
        assert shown[4].output.content == "2"
        assert isinstance(shown[-1], Ended)
        assert shown[-1].finished.end == "done"
        engine = [type(event.event) for event in events if isinstance(event, Happened)]
        assert engine.index(Sending) < engine.index(Answered)


def test_what_is_queued_is_heard_with_the_results_of_the_tools_in_use() -> None:
    made: sevenfold.Agent

    def busy() -> str:
        """Takes a while."""
        made.queue("Stop at five.")
        return "busy"

    with agent([[use("busy", "c1")], "Five it is."], tools=[busy]) as made:
        assert made.run("Count.").text == "Five it is."
        last = messages(model_of(made).requests[1])[-1]
        assert last["role"] == "user"
        assert [block["type"] for block in last["content"]] == ["tool_result", "text"]
        assert last["content"][1]["text"] == "Stop at five."
        assert made.waiting == ()


def test_what_is_queued_while_the_model_speaks_its_last_word_gets_an_answer() -> None:
    made: sevenfold.Agent

    def first(request: Any) -> str:
        made.queue("And then?")
        return "Done."

    with agent([first, "Then nothing."]) as made:
        assert made.run("Go.").text == "Then nothing."
        assert [message["role"] for message in messages(model_of(made).requests[1])] == [
            "user",
            "assistant",
            "user",
        ]


@pytest.mark.parametrize(
    ("limit", "end"),
    [
        ({"max_turns": 3}, "max_turns"),
        ({"max_output_tokens": 40}, "budget"),
    ],
)
def test_a_limit_ends_the_work_between_turns_and_the_next_run_goes_on(
    limit: dict[str, Any], end: str
) -> None:
    steps = [[words("Working on it."), use("add", a=n)] for n in range(30)]
    with agent([*steps, "Done."], tools=[add], **limit) as made:
        done = made.run("Count to thirty.")
        assert done.end == end
        assert 0 < done.turns < 30
        assert made.assembly.conversation.transcript.view.pending_calls == []
        asked = len(model_of(made).requests)
        assert done.turns == asked
        assert made.run().turns == done.turns


def test_a_budget_in_money_is_for_the_whole_session_and_ends_it_for_good() -> None:
    steps = [[words("Working on it."), use("add", a=n)] for n in range(30)]
    with world(steps) as there, there.agent(tools=[add], max_usd=0.005) as made:
        done = made.run("Count to thirty.")
        assert done.end == "budget"
        assert 0 < done.turns < 30
        assert done.usd is not None
        assert done.usd >= 0.005
        assert made.run().turns == 0


def test_an_answer_cut_off_or_refused_is_told() -> None:
    cut = [ModelReply([words("I will n")], "max_tokens")] * 4
    steps = [*cut, ModelReply([words("No.")], "refusal")]
    with world(steps) as there, there.agent() as made:
        assert made.run("Tell me all.").end == "cut"
        assert made.run("Tell me more.").end == "refused"


def test_a_model_that_pauses_is_asked_to_go_on_and_both_parts_are_one_answer() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    steps = [ModelReply([words("Let me see."), search], "pause_turn"), "Found."]
    with world(steps) as there, there.agent() as made:
        assert made.run("Search.").text == "Let me see.Found."


def test_one_run_at_a_time() -> None:
    made: sevenfold.Agent

    def again() -> str:
        """Runs the agent that runs it."""
        made.run("And again.")
        return "never"

    with agent([[use("again", "c1")], "I see."], tools=[again]) as made:
        made.run("Go.")
        assert "queue()" in results(model_of(made).requests[1])["c1"]


def test_a_reader_that_is_slow_makes_the_agent_wait_but_never_the_engine() -> None:
    queue = EventQueue(limit=2)
    queue.put(Piece("text", "1"))
    queue.put(Piece("text", "2"))
    put = threading.Thread(target=lambda: queue.put(Piece("text", "3")), daemon=True)
    put.start()
    queue.put(Happened(Answered(request="r", model="m", provider="p", response="x")))
    assert put.is_alive()
    assert [queue.get() for _ in range(2)] == [Piece("text", "1"), Piece("text", "2")]
    put.join(30)
    assert not put.is_alive()
    assert {type(queue.get()) for _ in range(2)} == {Piece, Happened}
    queue.end()
    assert queue.get() is None


def test_a_reader_that_has_gone_makes_nobody_wait() -> None:
    queue = EventQueue(limit=1)
    queue.put(Piece("text", "1"))
    queue.leave()
    queue.put(Piece("text", "2"))
    queue.end()
    assert queue.get() is None


def test_an_agent_without_a_folder_or_with_two_tools_of_one_name_is_refused() -> None:
    with pytest.raises(InputError, match="not a folder"):
        agent([], Path("/nowhere/at/all"))
    with pytest.raises(InputError, match="two tools"):
        agent([], tools=[add, add])


def test_without_a_key_the_offline_model_answers(folder: Path) -> None:
    with sevenfold.Agent("claude-sonnet-5-5", folder=folder) as made:
        done = made.run("Hello.")
        assert isinstance(done, Finished)
        assert "offline model" in done.text


def test_requests_are_made_on_behalf_of_whoever_it_is_said(folder: Path) -> None:
    for source in ("main", "sdk"):
        with agent(["Hm."], source=source) as made:
            made.run("Hello.")
            assert model_of(made).asked[0].source == source
            assert made.session.why().source == source


def test_the_standard_tools_are_there_unless_others_are_given(folder: Path) -> None:
    with agent(["Hm."], folder) as made:
        made.run("Hello.")
        names = [one["name"] for one in model_of(made).requests[0]["tools"]]
        expected = "AskUser Edit Glob Grep PlanReady PlanStart Read Recall Shell ShellOutput ShellStop Todo"
        assert names == [*expected.split(), "WebFetch", "Write"]
    with agent(["Hm."], folder, tools=[]) as made:
        made.run("Hello.")
        assert not model_of(made).requests[0].get("tools")


def test_what_left_the_view_is_found_by_the_model_itself(folder: Path) -> None:
    steps: list[Any] = ["Noted.", [use("Recall", "c1", query="passphrase")], "Found."]
    with agent(steps, folder) as made:
        made.run("The passphrase is xylophone-42.")
        record = made.assembly.conversation.transcript.view.items[0].record.uuid
        made.session.compact(engine="extractive")
        made.run("What was it?")
        assert "xylophone-42" in results(model_of(made).requests[-1])["c1"]
        whole = made.assembly.executor.context.recall
        assert whole is not None
        assert whole.fetch(record).decode() == "The passphrase is xylophone-42."


def test_a_stored_result_is_read_without_asking(folder: Path) -> None:
    def long() -> str:
        """Says a lot."""
        return "a line of it\n" * 10_000

    def read(request: Any) -> list[dict[str, Any]]:
        shown = results(request)["c1"]
        path = next(word for word in shown.split() if "tool-results" in word).strip(".,:;\"'<>()")
        return [use("Read", "c2", path=path, limit=3)]

    with agent([[use("long", "c1")], read, "Read."], folder, tools=[long, ReadTool()]) as made:
        assert made.run("Go.").end == "done"
        assert "a line of it" in results(model_of(made).requests[2])["c2"]


def test_an_agent_that_is_closed_says_so(folder: Path) -> None:
    made = agent(["Hm."], folder)
    made.close()
    with pytest.raises(Refused, match="closed"):
        made.run("Hello.")
    assert not made.assembly.home.folder.exists()
