"""Agents: the loop around a session, with tools, permissions, plans and what comes back behind a summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sevenfold
from tests.recorded.playing import BOUND, QUIET, output, scenario, summary
from tests.recorded.rig import Mind, Rig

LONG = "Something that was said and need not be said again. " * 20


def use(name: str, call: str, /, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def look(path: str) -> str:
    """Looks at a file."""
    return f"{path} holds\n{output(600)}"


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def own_tools() -> list[Any]:
    return [
        sevenfold.function_tool(look, kind="read", concurrent=True),
        sevenfold.function_tool(add, concurrent=True),
    ]


def agent_options(rig: Rig, steps: Iterable[Any] | None, **more: Any) -> dict[str, Any]:
    rig.provider(Mind(steps))
    given = {"model": BOUND, "name": "s", "system": "Be brief.", "client": rig.client(), **more}
    # A look for lasting facts at the end would be one more request of every case.
    quiet = {**QUIET, "memory_wait": 0}
    return {**given, "settings": {**quiet, **more.get("settings", {})}}


@scenario
async def an_agent_with_parallel_tools(rig: Rig) -> None:
    steps = [
        [use("look", "c1", path="a.py"), use("look", "c2", path="b.py"), use("add", "c3", a=2, b=3)],
        [use("add", "c4", a="two"), use("subtract", "c5", a=1)],
        "It is 5.",
        "Yes.",
    ]
    given = agent_options(rig, steps, tools=own_tools(), mode="autonomous")
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("Look at both, and add."))
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("Sure?"))


@scenario
async def an_agent_that_is_refused(rig: Rig) -> None:
    (rig.project / "a.txt").write_text("one\n")
    asked: list[str] = []

    def consent(wish: Any) -> Any:
        asked.append(wish.call.name)
        return sevenfold.Consented(len(asked) > 1, remark="Not that." if len(asked) == 1 else "")

    steps = [
        [use("Write", "c1", path="b.txt", content="two\n")],
        [use("Shell", "c2", command="rm -rf /")],
        [use("Write", "c3", path="c.txt", content="three\n"), use("Read", "c4", path="a.txt")],
        "Done.",
    ]
    given = agent_options(rig, steps, consent=consent, rules={"deny": ["Shell(rm:*)"]})
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("Write."))
        rig.note("asked", asked)


@scenario
async def an_agent_with_todos_and_a_plan(rig: Rig) -> None:
    entries = [("find the leak", "completed"), ("mend the pipe", "in_progress"), ("paint", "pending")]
    todos = [{"content": content, "status": status} for content, status in entries]
    answers = iter(
        [sevenfold.Consented(False, remark="Where are the tests?"), sevenfold.Consented(True, remark="Go.")]
    )
    steps = [
        [use("Todo", "c1", todos=todos)],
        [use("PlanStart", "c2")],
        [use("PlanReady", "c3", plan="1. Look.\n2. Mend.")],
        [use("PlanReady", "c4", plan="1. Look.\n2. Mend.\n3. Test.")],
        f"Approved. {LONG}",
        f"Hm. {LONG}",
        "I know.",
    ]
    given = agent_options(rig, steps, mode="accept_edits", consent=lambda wish: next(answers))
    async with rig.agent(**given) as agent:
        agent.goal = "Ship version 2 before Friday."
        rig.note("finished", await agent.run("Plan it."))
        rig.note("finished", await agent.run(f"Wait. {LONG}"))
        await summary(rig, await agent.session.compact(engine="extractive"))
    async with rig.agent(**given) as agent:
        rig.note("plan", agent.plans.text())
        rig.note("finished", await agent.run("What do you know?"))


@scenario
async def an_agents_files_restored(rig: Rig) -> None:
    (rig.project / "main.py").write_text("answer = 42\n")
    (rig.project / "other.py").write_text("question = None\n")
    steps = [
        [use("Read", "c1", path="main.py"), use("Read", "c2", path="other.py")],
        [use("Edit", "c3", path="main.py", old="42", new="43")],
        f"Changed. {LONG}",
        f"Hm. {LONG}",
        [use("Read", "c4", path="main.py")],
        "Still 43.",
    ]
    given = agent_options(rig, steps, mode="accept_edits")
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("Make it 43."))
        rig.note("finished", await agent.run("And?"))
        await summary(rig, await agent.compact("keep the number", engine="fork"))
        rig.note("finished", await agent.run("What is it now?"))


@scenario
async def an_agent_that_compacts_ahead(rig: Rig) -> None:
    running: list[Any] = []

    async def waits(path: str) -> str:
        """Looks at a file, when nothing is going on beside the conversation."""
        await running[0].session.settle(60)
        return f"{path} holds\n{output(5_000)}"

    def waits_plainly(path: str) -> str:
        """Looks at a file, when nothing is going on beside the conversation."""
        rig.settle(running[0])
        return f"{path} holds\n{output(5_000)}"

    steps: list[Any] = [[use("look", f"c{number}", path=f"{number}.py")] for number in range(7)]
    made = sevenfold.function_tool(waits if rig.awaited else waits_plainly, name="look", kind="read")
    # Looking for facts would begin with the last answer, and its events would come before or after the end.
    more: dict[str, Any] = {
        "tools": [made],
        "settings": {"background_compaction": True, "extraction": False},
    }
    given = agent_options(rig, [*steps, "Done."], mode="autonomous", **more)
    async with rig.agent(**given) as agent:
        running.append(agent)
        rig.note("finished", await agent.run("Look at all of it."))


@scenario
async def an_agent_at_its_limits(rig: Rig) -> None:
    steps: list[Any] = [[use("look", f"c{number}", path=f"{number}.py")] for number in range(4)]
    given = agent_options(rig, [*steps, "Done."], tools=own_tools(), mode="autonomous", max_turns=2)
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("Look at all of it."))
        agent.queue("And hurry.")
        rig.note("finished", await agent.run())
        rig.note("finished", await agent.run())


@scenario
async def an_agent_that_tells_what_it_does(rig: Rig) -> None:
    (rig.project / "a.txt").write_text("one\n")
    steps = [
        [{"type": "text", "text": "First this."}, use("Read", "c1", path="a.txt")],
        [use("Edit", "c2", path="a.txt", old="one", new="two")],
        [use("Grep", "c3", pattern="two")],
        "Done.",
    ]
    given = agent_options(rig, steps, mode="accept_edits", mentions=True)
    async with rig.agent(**given) as agent:
        stream = agent.stream("Change @a.txt and @b.txt.")
        rig.streamed([event async for event in stream] if rig.awaited else list(await stream))


@scenario
async def an_agent_that_is_interrupted(rig: Rig) -> None:
    running: list[Any] = []

    def stop(path: str) -> str:
        """Looks at a file."""
        running[0].interrupt()
        return f"{path} is empty"

    tools = [sevenfold.function_tool(stop, name="look", kind="read")]
    steps = [[use("look", "c1", path="a.py"), use("look", "c2", path="b.py")], "Done."]
    given = agent_options(rig, steps, tools=tools, mode="autonomous")
    async with rig.agent(**given) as agent:
        running.append(agent)
        rig.note("finished", await agent.run("Look."))
        rig.note("finished", await agent.run("Go on."))


@scenario
async def an_agent_with_hooks(rig: Rig) -> None:
    heard: list[str] = []

    def before(event: Any) -> Any:
        heard.append(f"{event.tool_name} {event.tool_input}")
        if event.tool_input.get("path") == "secret.py":
            return {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "not that one",
                }
            }
        return None

    def prompted(event: Any) -> Any:
        words = f"The user said {len(event.prompt)} characters."
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": words}}

    hooks = rig.hooks(PreToolUse=before, UserPromptSubmit=prompted, Stop=lambda event: heard.append("stop"))
    steps = [[use("look", "c1", path="secret.py")], [use("look", "c2", path="a.py")], "Done."]
    given = agent_options(rig, steps, tools=own_tools(), mode="autonomous", hooks=hooks)
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("Look."))
        rig.note("heard", heard)


@scenario
async def an_agent_in_a_window_of_8k(rig: Rig) -> None:
    (rig.project / "long.txt").write_text(output(9_000))
    steps: list[Any] = [[use("Read", f"c{number}", path="long.txt")] for number in range(3)]
    more: dict[str, Any] = {"settings": {"context_window": 8_000, "size_clearing": True}}
    given = agent_options(rig, [*steps, "Done."], mode="autonomous", **more)
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("Read it."))
        rig.note("gauge", agent.session.gauge)


@scenario
async def an_agent_offline(rig: Rig) -> None:
    steps = [[{"type": "tool_use", "name": "add", "input": {"a": 2, "b": 3}}], "It is 5."]
    given = agent_options(rig, None, client=rig.offline(steps), tools=own_tools(), mode="autonomous")
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("What is 2 + 3?"))


@scenario
async def an_agent_with_the_standard_prompt(rig: Rig) -> None:
    (rig.project / "AGENTS.md").write_text("Use tabs.\n")
    given = agent_options(rig, ["Hello.", "Still here."], system=None, guidance="The user is in a hurry.")
    given["settings"] = {**given["settings"], "context_window": 100_000}
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("Hello?"))
    rig.clock.advance(100_000)
    async with rig.agent(**given) as agent:
        rig.note("finished", await agent.run("And today?"))
