"""Hooks fired in a session: commands and functions, waited for and awaited."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.hooks.registry import Hooks, run_command
from sevenfold.agent.hooks.settings import parse
from sevenfold.conversation.hooks import EVENTS, HookInput, HookOutcome, HookPermission, PreCompact
from sevenfold.errors import Aborted, SettingError
from tests.hooks.hooking import PLENTY, async_hooks, happened, hooks, script, settings

pytestmark = pytest.mark.skipif(os.name != "posix", reason="commands need a POSIX system")


def fire_sync(given: Any, event: HookInput, *functions: Any, project: str = ".") -> HookOutcome:
    registry = hooks(given, project)
    for function in functions:
        registry.add(type(event).__name__, function)
    return registry.fire(event)


def fire_async(given: Any, event: HookInput, *functions: Any, project: str = ".") -> HookOutcome:
    registry = async_hooks(given, project)
    for function in functions:
        registry.add(type(event).__name__, function)
    return asyncio.run(registry.fire(event))


both_ways = pytest.mark.parametrize("fire", [fire_sync, fire_async])


@pytest.mark.spec("S8.1")
@both_ways
@pytest.mark.parametrize("event", EVENTS)
def test_a_command_finds_the_event_on_its_input(fire, event, tmp_path):
    came = fire(settings(event, "cat > told.json"), happened(event, tmp_path))
    assert came.failures == ()
    assert json.loads((tmp_path / "told.json").read_text())["hook_event_name"] == event


@both_ways
def test_a_command_knows_the_project_with_and_without_a_shell(fire, tmp_path):
    given = settings(
        "SessionStart",
        'echo "$SEVENFOLD_PROJECT_DIR $CLAUDE_PROJECT_DIR"',
        {"type": "command", "command": "echo", "args": ["${CLAUDE_PROJECT_DIR}/x", "$HOME"]},
    )
    came = fire(given, happened("SessionStart", tmp_path), project="/the/project")
    assert came.context == ("/the/project /the/project", "/the/project/x $HOME")


@pytest.mark.spec("S8.1")
@both_ways
def test_hooks_run_at_the_same_time(fire, tmp_path):
    for name in "ab":
        os.mkfifo(tmp_path / name)
    given = settings("SessionStart", "echo 1 > a; cat b", "cat a; echo 2 > b")
    # Each waits for the other: one after the other they would never end.
    came = fire(given, happened("SessionStart", tmp_path))
    assert came.context == ("2", "1")


@both_ways
def test_a_function_runs_beside_the_commands(fire, tmp_path):
    for name in "ab":
        os.mkfifo(tmp_path / name)

    def meets_the_command(_):
        (tmp_path / "b").write_text("from the function")
        return (tmp_path / "a").read_text()

    given = settings("SessionStart", "cat b; echo from the command > a")
    came = fire(given, happened("SessionStart", tmp_path), meets_the_command)
    assert came.context == ("from the function", "from the command")


@both_ways
def test_answers_are_in_the_order_of_registration_whoever_ends_first(fire, tmp_path):
    os.mkfifo(tmp_path / "second-is-done")
    given = settings("SessionStart", "cat second-is-done; echo first", "echo > second-is-done; echo second")
    came = fire(given, happened("SessionStart", tmp_path))
    assert came.context == ("first", "second")


@pytest.mark.spec("S8.1")
@both_ways
def test_only_the_hooks_whose_matcher_fits_run(fire):
    given = settings("PreCompact", "echo no >&2; exit 2", matcher="manual")
    assert fire(given, happened("PreCompact", trigger="auto")).blocked is None
    assert fire(given, happened("PreCompact", trigger="manual")).blocked == "no"


@pytest.mark.spec("S8.1")
@both_ways
def test_a_refused_compaction_is_no_failure(fire):
    came = fire(settings("PreCompact", "echo backup first >&2; exit 2"), happened("PreCompact"))
    assert came.blocked == "backup first"
    assert came.failures == ()


@pytest.mark.spec("S8.1")
@both_ways
def test_hooks_that_fail_never_break_the_turn(fire, tmp_path):
    def breaks(_):
        raise KeyError("gone")

    waits = {"type": "command", "command": "exec sleep 1000", "timeout": 0.2}
    missing = {"type": "command", "command": "/no/such", "args": []}
    given = settings("UserPromptSubmit", "exit 1", waits, missing, "kill -9 $$", "echo still here")
    came = fire(given, happened("UserPromptSubmit", tmp_path), breaks)
    assert came.context == ("still here",)
    problems = [failure.problem for failure in came.failures]
    for problem, words in zip(
        problems, ["exit code 1", "0.2 s", "not be started", "exit code -9", "KeyError"], strict=True
    ):
        assert words in problem


@both_ways
@pytest.mark.parametrize(
    "command",
    [
        "head -c 100000000 /dev/zero",
        "head -c 2000000 /dev/urandom >&2; exit 1",
        "printf '{'; head -c 2000000 /dev/zero",
        "printf '\\xff\\xfe\\x00'",
    ],
)
def test_hostile_output_leaves_a_bounded_outcome(fire, command):
    came = fire(settings("SessionStart", command), happened("SessionStart"))
    told = [*came.context, *(failure.problem for failure in came.failures)]
    assert all(len(words) < 11_000 and "\0" not in words for words in told)


@pytest.mark.spec("S8.1")
@both_ways
def test_a_function_answers_like_a_command(fire):
    def guard(call):
        assert call.tool_input == {"command": "ls"}
        return {"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "hm"}}

    allow = '{"hookSpecificOutput": {"permissionDecision": "allow"}}'
    came = fire(settings("PreToolUse", f"echo '{allow}'"), happened("PreToolUse"), guard, lambda _: None)
    assert came.permission == HookPermission("ask", "hm")
    assert len(came.ran) == 3


@both_ways
@pytest.mark.parametrize("said", [object(), 7, {"a": object()}, {"systemMessage": "\ud800"}])
def test_a_function_that_returns_what_is_no_answer_is_reported(fire, said):
    came = fire(None, happened("PreToolUse"), lambda _: said)
    assert len(came.failures) == 1
    assert came.permission is None


def test_a_function_has_a_matcher_too():
    registry = hooks()
    registry.add("PreCompact", lambda call: {"systemMessage": call.trigger}, matcher="auto")
    assert registry.fire(happened("PreCompact", trigger="auto")).messages == ("auto",)
    assert registry.fire(happened("PreCompact", trigger="manual")).ran == ()


async def coroutine(_: HookInput) -> dict[str, str]:
    await asyncio.sleep(0)
    return {"systemMessage": "awaited"}


class Awaits:
    async def __call__(self, _):
        return None


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize("function", [coroutine, functools.partial(coroutine), Awaits()])
def test_a_coroutine_function_is_refused_by_a_session_that_does_not_await(function):
    with pytest.raises(SettingError, match="does not await"):
        hooks().add("Stop", function)


def test_a_function_that_hides_a_coroutine_is_reported_when_it_runs():
    came = fire_sync(None, happened("Stop"), lambda call: coroutine(call))
    assert "does not await" in came.failures[0].problem


def test_an_async_session_awaits_coroutine_functions_beside_each_other():
    met = asyncio.Barrier(2)

    async def meets(_):
        await met.wait()
        return {"systemMessage": "met"}

    came = fire_async(None, happened("Stop"), meets, meets, coroutine)
    assert came.messages == ("met", "met", "awaited")


def test_a_coroutine_function_that_takes_too_long_is_ended():
    async def waits(_):
        await asyncio.Event().wait()

    came = fire_async(None, happened("SessionEnd"), waits)
    assert "1.5 s" in came.failures[0].problem


@pytest.mark.parametrize(("event", "function"), [("PreCompat", print), ("Stop", "print")])
def test_what_cannot_be_a_hook_is_refused_when_it_is_added(event, function):
    for registry in (hooks(), async_hooks()):
        with pytest.raises(SettingError, match=event):
            registry.add(event, function)


def test_a_hook_that_runs_once_runs_once_for_each_event_it_stands_at():
    once = {"type": "command", "command": "echo hello", "once": True}
    given = settings("SessionStart", once)
    given["hooks"] |= settings("UserPromptSubmit", once)["hooks"]
    registry = hooks(given)
    said = [registry.fire(happened(event)).context for event in ("SessionStart", "UserPromptSubmit") * 2]
    assert said == [("hello",), ("hello",), (), ()]


def test_a_command_that_stands_twice_runs_once():
    given = settings("SessionStart", "echo hello", "echo hello")
    assert hooks(given).fire(happened("SessionStart")).context == ("hello",)


def test_nobody_waits_for_a_background_hook_and_its_failure_is_told_later(tmp_path):
    os.mkfifo(tmp_path / "go")
    background = {"type": "command", "command": "cat go; echo broken >&2; exit 1", "async": True}
    registry = hooks(settings("SessionStart", background))
    assert registry.fire(happened("SessionStart", tmp_path)).failures == ()
    (tmp_path / "go").write_text("go")
    wait_for_running_hooks()
    (failure,) = registry.fire(happened("Stop", tmp_path)).failures
    assert "broken" in failure.problem
    assert registry.fire(happened("Stop", tmp_path)).failures == ()


def running_hooks() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hook"]


def wait_for_running_hooks() -> None:
    for thread in running_hooks():
        thread.join(PLENTY)


def test_closing_ends_background_hooks():
    background = {"type": "command", "command": "exec sleep 1000", "async": True}
    registry = hooks(settings("SessionStart", background))
    registry.fire(happened("SessionStart"))
    registry.close()
    (failure,) = registry.fire(happened("Stop")).failures
    assert "stopped" in failure.problem


def told_when_it_runs(tmp_path: Path) -> tuple[str, Callable[[], str]]:
    """A command that says that it runs and then waits for ever, and how to wait for its saying so."""
    os.mkfifo(tmp_path / "runs")
    command = script(tmp_path, "open('runs', 'w').write('x')\nimport time\ntime.sleep(1000)")
    return command, lambda: (tmp_path / "runs").read_text()


@pytest.mark.spec("S8.1")
def test_a_stop_ends_running_hooks_and_is_no_consent(tmp_path):
    command, until_it_runs = told_when_it_runs(tmp_path)
    stop = threading.Event()

    def abort() -> None:
        until_it_runs()
        stop.set()

    aborter = threading.Thread(target=abort)
    aborter.start()
    with pytest.raises(Aborted, match="PreToolUse"):
        hooks(settings("PreToolUse", command)).fire(happened("PreToolUse", tmp_path), stop.is_set)
    aborter.join(PLENTY)
    assert running_hooks() == []


@pytest.mark.spec("S8.1")
def test_an_interrupt_ends_running_hooks(tmp_path):
    command, until_it_runs = told_when_it_runs(tmp_path)

    def interrupted(_):
        until_it_runs()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fire_sync(settings("PreToolUse", command), happened("PreToolUse", tmp_path), interrupted)
    assert running_hooks() == []


@pytest.mark.spec("S8.1")
def test_cancelling_an_async_session_ends_running_hooks(tmp_path):
    command, until_it_runs = told_when_it_runs(tmp_path)

    async def cancelled() -> list[threading.Thread]:
        registry = async_hooks(settings("PreToolUse", command))
        firing = asyncio.create_task(registry.fire(happened("PreToolUse", tmp_path)))
        await asyncio.to_thread(until_it_runs)
        firing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await firing
        return running_hooks()

    for thread in asyncio.run(cancelled()):
        # One that is just about to end may still be listed.
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.spec("S8.1")
def test_hooks_of_an_untrusted_folder_are_shown_and_never_run(tmp_path):
    loaded = parse(settings("SessionStart", "touch ran"), "project.json", trusted=False)
    registry = Hooks(loaded, run=run_command, environ=os.environ, project_dir=".")
    assert registry.fire(happened("SessionStart", tmp_path)).ran == ()
    assert not (tmp_path / "ran").exists()
    assert [one.hook for one in registry.skipped] == ["touch ran"]


def test_a_tool_call_no_guard_can_be_told_about_is_denied():
    nested: list[object] = []
    nested.append(nested)
    event = happened("PreToolUse", tool_input={"command": "rm -rf /", "more": nested})
    came = fire_sync(settings("PreToolUse", "exit 0"), event)
    assert came.permission is not None
    assert came.permission.verdict == "deny"
    assert came.blocked


def test_events_are_typed():
    event = happened("PreCompact", trigger="manual", custom_instructions="keep names")
    assert isinstance(event, PreCompact)
    assert event.matched == "manual"
