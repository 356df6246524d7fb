"""Hooks around an agent: they refuse, add, change, answer for the user and keep it going, each within its bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.agent_events import Happened, Notice
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.hooks.registry import AsyncHooks, Hooks, run_command
from sevenfold.agent.loop import STOP_HOOKS
from sevenfold.events import SteppedAside
from sevenfold.stores.trust import Trust, user_folder
from tests.agent.working import agent, async_agent, messages, model_of, results, texts, use

pytestmark = pytest.mark.spec("S8.1")


def hooks(**functions: Callable[[Any], Any]) -> Hooks:
    made = Hooks(run=run_command, environ={}, project_dir=".")
    for event, function in functions.items():
        made.add(event, function)
    return made


def specific(event: str, **more: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **more}}


def write(path: str, text: str) -> str:
    """Writes a file."""
    return f"{path}: {text}"


def test_a_prompt_that_a_hook_refuses_is_never_sent_nor_recorded() -> None:
    guard = hooks(UserPromptSubmit=lambda event: {"decision": "block", "reason": "no secrets here"})
    with agent(["Never."], hooks=guard, tools=[]) as made:
        done = made.run("My password is hunter2.")
        assert (done.end, done.detail, done.turns) == ("blocked", "no secrets here", 0)
        assert model_of(made).requests == []
        assert made.assembly.conversation.transcript.view.items == []


def test_what_a_hook_adds_to_a_prompt_stands_behind_it_and_is_not_the_users() -> None:
    told = hooks(
        UserPromptSubmit=lambda event: specific("UserPromptSubmit", additionalContext="It is raining.")
    )
    with agent(["Hm."], hooks=told, tools=[]) as made:
        made.run("How is it?")
        assert texts(model_of(made).requests[0]).splitlines() == ["How is it?", "It is raining."]
        said = [item.record for item in made.assembly.conversation.transcript.view.items]
        assert [one.meta for one in said] == [False, True, False]


def test_queued_words_that_a_hook_refuses_are_told_and_passed_over() -> None:
    def guard(event: Any) -> Any:
        return {"decision": "block", "reason": "not that"} if "bad" in event.prompt else None

    heard: list[Any] = []
    with agent(
        ["One.", "Two."], hooks=hooks(UserPromptSubmit=guard), tools=[], listen=[heard.append]
    ) as made:
        made.queue("something bad")
        made.queue("something good")
        made.run("Go.")
        assert "bad" not in texts(model_of(made).requests[0])
        assert "something good" in texts(model_of(made).requests[0])
        assert [event.reason for event in heard if isinstance(event, SteppedAside)] == ["not that"]


@pytest.mark.parametrize(
    "answer",
    [
        {"decision": "block", "reason": "hands off"},
        specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="hands off"),
    ],
)
def test_a_call_that_a_hook_refuses_is_not_carried_out(answer: dict[str, Any], folder: Path) -> None:
    guard = hooks(PreToolUse=lambda event: answer)
    steps = [[use("Write", "c1", path="a.txt", content="x")], "I see."]
    with agent(steps, folder, mode="autonomous", hooks=guard) as made:
        made.run("Write.")
        assert "hands off" in results(model_of(made).requests[1])["c1"]
        assert not (folder / "a.txt").exists()


def test_a_hook_may_allow_what_would_be_asked_but_not_what_a_rule_forbids(folder: Path) -> None:
    guard = hooks(PreToolUse=lambda event: specific("PreToolUse", permissionDecision="allow"))
    steps = [
        [use("Write", "c1", path="a.txt", content="x"), use("Write", "c2", path="b.txt", content="x")],
        "Good.",
    ]
    with agent(steps, folder, hooks=guard, rules={"deny": ["Edit(b.txt)"]}) as made:
        made.run("Write.")
        assert (folder / "a.txt").read_text() == "x"
        assert not (folder / "b.txt").exists()
        assert "forbids" in results(model_of(made).requests[1])["c2"]


def test_a_hook_that_allows_does_not_answer_for_a_user_whom_a_rule_wants_asked(folder: Path) -> None:
    asked: list[Asked] = []

    def consent(about: Asked) -> Consented:
        asked.append(about)
        return Consented(False)

    guard = hooks(PreToolUse=lambda event: specific("PreToolUse", permissionDecision="allow"))
    steps = [[use("Shell", "c1", command="touch a.txt"), use("Shell", "c2", command="mkdir b")], "I see."]
    with agent(steps, folder, hooks=guard, consent=consent, rules={"ask": ["Shell(touch:*)"]}) as made:
        made.run("Go.")
        assert [about.call.id for about in asked] == ["c1"]
        assert [path.name for path in folder.iterdir()] == ["b"]


def test_a_hook_may_have_asked_what_would_be_free(folder: Path) -> None:
    asked: list[Asked] = []

    def consent(about: Asked) -> Consented:
        asked.append(about)
        return Consented(False, remark="Not now.")

    guard = hooks(PreToolUse=lambda event: specific("PreToolUse", permissionDecision="ask"))
    with agent([[use("Read", "c1", path="a.txt")], "I see."], folder, hooks=guard, consent=consent) as made:
        (folder / "a.txt").write_text("x")
        made.run("Read.")
        assert [about.call.name for about in asked] == ["Read"]
        assert "Not now." in results(model_of(made).requests[1])["c1"]


def test_what_a_hook_makes_of_an_input_is_what_is_checked_and_carried_out(folder: Path) -> None:
    def elsewhere(event: Any) -> Any:
        return specific("PreToolUse", updatedInput={**event.tool_input, "path": "safe.txt"})

    steps = [[use("Write", "c1", path="risky.txt", content="x")], "Good."]
    rules = {"allow": ["Edit(safe.txt)"]}
    with agent(steps, folder, hooks=hooks(PreToolUse=elsewhere), rules=rules) as made:
        made.run("Write.")
        assert [path.name for path in folder.iterdir()] == ["safe.txt"]


def test_a_hook_may_say_something_about_a_result_or_replace_it() -> None:
    def about(event: Any) -> Any:
        if event.tool_input["path"] == "a":
            return specific("PostToolUse", additionalContext="a is old")
        if event.tool_input["path"] == "b":
            return {"decision": "block", "reason": "b is broken"}
        return specific("PostToolUse", updatedToolOutput="replaced")

    steps = [[use("write", f"c{one}", path=one, text="x") for one in "abc"], "Good."]
    with agent(steps, tools=[write], hooks=hooks(PostToolUse=about)) as made:
        made.run("Write.")
        answers = results(model_of(made).requests[1])
        assert answers["ca"] == "a: x\n\n[From a hook: a is old]"
        assert answers["cb"] == "b: x\n\n[From a hook: b is broken]"
        assert answers["cc"] == "replaced"


@pytest.mark.parametrize(("behaviour", "there"), [("allow", True), ("deny", False)])
def test_a_hook_may_answer_for_the_user(behaviour: str, there: bool, folder: Path) -> None:
    def consent(about: Asked) -> Consented:
        raise AssertionError("the user was asked all the same")

    answering = hooks(
        PermissionRequest=lambda event: specific("PermissionRequest", decision={"behavior": behaviour})
    )
    steps = [[use("Write", "c1", path="a.txt", content="x")], "Good."]
    with agent(steps, folder, hooks=answering, consent=consent) as made:
        made.run("Write.")
        assert (folder / "a.txt").exists() == there


def test_a_hook_that_answers_for_the_user_may_change_the_input_but_not_to_what_is_forbidden(
    folder: Path,
) -> None:
    def answer(event: Any) -> Any:
        other = {**event.tool_input, "path": event.tool_input["path"] + ".bak"}
        return specific("PermissionRequest", decision={"behavior": "allow", "updatedInput": other})

    steps = [
        [use("Write", "c1", path="a", content="x"), use("Write", "c2", path="b", content="x")],
        "Good.",
    ]
    rules = {"deny": ["Edit(b.bak)"]}
    with agent(steps, folder, hooks=hooks(PermissionRequest=answer), rules=rules) as made:
        made.run("Write.")
        assert [path.name for path in folder.iterdir()] == ["a.bak"]
        assert "forbids" in results(model_of(made).requests[1])["c2"]


def test_what_hooks_show_and_what_fails_of_them_is_told() -> None:
    def show(event: Any) -> Any:
        return {"systemMessage": "Mind the step."}

    def fail(event: Any) -> Any:
        raise RuntimeError("broken hook")

    with agent(["Hm."], tools=[], hooks=hooks(UserPromptSubmit=show, Stop=fail)) as made:
        events = list(made.stream("Hello."))
        assert [event.text for event in events if isinstance(event, Notice)] == ["Mind the step."]
        told = [event.event for event in events if isinstance(event, Happened)]
        assert ["broken hook" in event.reason for event in told if isinstance(event, SteppedAside)] == [
            True
        ]


def test_stop_hooks_keep_the_agent_going_with_their_reason_but_not_for_ever() -> None:
    active: list[bool] = []

    def more(event: Any) -> Any:
        active.append(event.stop_hook_active)
        return {"decision": "block", "reason": f"Check again, {len(active)}."}

    with agent([f"Done {n}." for n in range(20)], tools=[], hooks=hooks(Stop=more)) as made:
        done = made.run("Work.")
        assert done.end == "done"
        assert done.turns == STOP_HOOKS + 1
        assert active == [False] + [True] * (STOP_HOOKS - 1)
        last = model_of(made).requests[-1]
        assert [message["role"] for message in messages(last)] == ["user", "assistant"] * STOP_HOOKS + [
            "user"
        ]
        assert f"Check again, {STOP_HOOKS}." in texts(last)


def test_work_in_between_lets_stop_hooks_begin_anew() -> None:
    def more(event: Any) -> Any:
        return (
            None if "really" in event.last_assistant_message else {"decision": "block", "reason": "Go on."}
        )

    steps = [["Done." if n % 2 else [use("write", path="a", text="x")]][0] for n in range(24)]
    with agent([*steps, "really done"], tools=[write], hooks=hooks(Stop=more)) as made:
        assert made.run("Work.").text == "really done"


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_a_hook_may_stop_the_agent_altogether(event: str) -> None:
    halting = hooks(**{event: lambda told: {"continue": False, "stopReason": "enough for today"}})
    with agent([[use("write", "c1", path="a", text="x")], "Never."], tools=[write], hooks=halting) as made:
        done = made.run("Work.")
        assert (done.end, done.detail) == ("blocked", "enough for today")
        assert made.assembly.conversation.transcript.view.pending_calls == []


def test_hooks_hear_of_the_session_its_instructions_and_its_end(folder: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)
    (folder / "AGENTS.md").write_text("Use tabs.")
    heard: list[Any] = []

    def note(event: Any) -> None:
        heard.append(event)

    def start(event: Any) -> Any:
        heard.append(event)
        return specific("SessionStart", additionalContext="The build is red.")

    names = ("InstructionsLoaded", "SessionEnd")
    for number in range(2):
        listening = hooks(SessionStart=start, **dict.fromkeys(names, note))
        with agent(["Hm.", "Hm."], folder, name="s", hooks=listening, system=None) as made:
            made.run("Hello.")
            made.run("Hello again.")
            assert texts(model_of(made).requests[0]).count("The build is red.") == number + 1
    told = [
        (type(event).__name__, getattr(event, "source", getattr(event, "load_reason", "")))
        for event in heard
    ]
    assert told == [
        ("SessionStart", "startup"),
        ("InstructionsLoaded", "session_start"),
        ("SessionEnd", ""),
        ("SessionStart", "resume"),
        ("InstructionsLoaded", "session_start"),
        ("SessionEnd", ""),
    ]
    assert heard[1].file_path == str(folder / "AGENTS.md")
    assert heard[0].permission_mode == "ask"


def test_coroutines_are_hooks_of_an_awaited_agent() -> None:
    async def guard(event: Any) -> Any:
        await asyncio.sleep(0)
        return {"decision": "block", "reason": "hands off"}

    async def work() -> None:
        made = AsyncHooks(run=run_command, environ={}, project_dir=".")
        made.add("PreToolUse", guard)
        steps = [[use("write", "c1", path="a", text="x")], "I see."]
        async with async_agent(steps, tools=[write], hooks=made) as awaited:
            assert (await awaited.run("Write.")).text == "I see."
            assert b"hands off" in await awaited.session.at(-1)

    asyncio.run(work())
