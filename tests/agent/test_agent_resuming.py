"""Agents that go on in another process: after being closed, and after being killed in the middle of a tool."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.tools.context import Todo
from sevenfold.archive.upkeep.purge import find, remove
from sevenfold.archive.upkeep.rewrite import RecordStamper
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.errors import TranscriptLocked
from sevenfold.lab.simulator.invariant import extends
from sevenfold.stores.home import user_home
from tests.agent.working import agent, messages, model_of, results, texts, use, world

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

ROOT = Path(__file__).resolve().parents[2]


def in_another_process(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Runs an agent elsewhere, with the same home."""
    head = """
        import os, signal, sys
        from pathlib import Path
        import sevenfold
        from sevenfold.providers.offline import OfflineClient, Script
        folder = Path(sys.argv[1])

        def use(name, call="", /, **given):
            return {"type": "tool_use", "name": name, "input": given} | ({"id": call} if call else {})

        def agent(steps, **more):
            given = {"name": "s", "system": "Be brief.", "settings": {"notes": False}, **more}
            return sevenfold.Agent("claude-sonnet-5-5", folder=folder, client=OfflineClient(Script(steps)), **given)

        def die() -> str:
            "Ends everything at once."
            os.kill(os.getpid(), signal.SIGKILL)
            return "never"
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(script), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_agent_goes_on_where_it_stopped(folder: Path) -> None:
    def add(a: int) -> int:
        """Adds one."""
        return a + 1

    bodies: list[bytes] = []
    for number in range(3):
        steps = [[use("add", f"c{number}", a=number)], f"It is {number + 1}."]
        with agent(steps, folder, name="s", tools=[add], system=None) as made:
            made.run(f"Add one to {number}.")
            bodies += [call.body for call in model_of(made).asked]
            assert made.session.gauge.requests == 2 * (number + 1)
    assert [extends(before, now) for before, now in itertools.pairwise(bodies)] == [None] * 5
    assert [message["role"] for message in messages(model_of(made).requests[-1])][-2:] == [
        "assistant",
        "user",
    ]


def test_a_call_during_which_the_process_died_is_answered_when_it_goes_on(folder: Path) -> None:
    died = in_another_process(
        folder,
        """
        with agent([[use("die", "c1"), use("die", "c2")]], tools=[die]) as made:
            made.run("Go.")
        """,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr

    def die() -> str:
        """Is not called again."""
        raise AssertionError("called again")

    with world(["I am back."]) as there, there.agent(folder, name="s", tools=[die]) as made:
        assert made.run("Are you there?").text == "I am back."
        request = there.bodies[-1]
        assert list(results(request)) == ["c1", "c2"]
        assert all(answer for answer in results(request).values())
        assert [message["role"] for message in messages(request)] == ["user", "assistant", "user"]


def test_what_a_tool_did_before_the_process_died_is_kept(folder: Path) -> None:
    died = in_another_process(
        folder,
        """
        todo = use("Todo", todos=[{"content": "mend the pipe", "status": "in_progress"}])
        shell = use("Shell", command="kill -9 $PPID")
        with agent([[todo], [shell]], mode="autonomous") as made:
            made.goal = "Keep the house dry."
            made.grants.allow("Shell(make:*)")
            made.run("Go.")
        """,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    with agent(["Hm."], folder, name="s") as made:
        assert [todo.content for todo in made.todos.get()] == ["mend the pipe"]
        assert made.goal == "Keep the house dry."
        assert made.grants.granted == ("Shell(make:*)",)
        assert made.grants.mode == "autonomous"
        assert made.run("And?").text == "Hm."


def test_a_question_the_user_had_not_answered_when_the_process_died_is_remembered(folder: Path) -> None:
    died = in_another_process(
        folder,
        """
        write = use("Write", path="a.txt", content="x")
        with agent([[write]], consent=lambda asked: die()) as made:
            made.run("Go.")
        """,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    with agent(["Hm.", "Hm."], folder, name="s") as made:
        made.run("And?")
        made.session.compact(engine="extractive")
        made.run("And now?")
        told = f"The user was asked about this and has not answered: Write: {folder / 'a.txt'}"
        assert told in texts(model_of(made).requests[-1])
        assert made.grants.granted == ()


def test_a_session_is_removed_with_what_its_agent_kept(folder: Path, home: Path) -> None:
    with agent(["Hm."], folder, name="s") as made:
        made.todos.set([Todo("call 0171 555 0199", "pending")])
        made.run("Hello.")
        kept = made.assembly.home.folder
    store = user_home()
    assert kept / "state.json" in set(store.texts())
    (found,) = find(store, "s")
    remove(store, found, RecordStamper(SystemClock(), RandomIds()))
    assert not kept.exists()
    # What is remembered outlives the sessions it comes from.
    assert [path for path in store.texts() if "memory" not in path.parts] == []


def test_a_file_that_was_read_may_be_changed_in_the_next_process(folder: Path) -> None:
    (folder / "a.py").write_text("a = 1\n")
    with agent([[use("Read", path="a.py")], "Read."], folder, name="s") as made:
        made.run("Read it.")
    edit = [use("Edit", "c1", path="a.py", old="a = 1", new="a = 2")]
    again = [use("Read", "c2", path="a.py")]
    with agent([edit, again, "Done."], folder, name="s", mode="accept_edits") as made:
        made.run("Change it.")
        assert (folder / "a.py").read_text() == "a = 2\n"
        assert "a = 2" in results(model_of(made).requests[-1])["c2"]


def test_a_file_that_is_unchanged_and_in_view_need_not_be_shown_again(folder: Path) -> None:
    (folder / "a.py").write_text("value = 'only once'\n" * 50)
    with agent([[use("Read", "c1", path="a.py")], "Read."], folder, name="s") as made:
        made.run("Read it.")
    with agent([[use("Read", "c2", path="a.py")], "Done."], folder, name="s") as made:
        made.run("Read it again.")
        answers = results(model_of(made).requests[-1])
        assert "only once" in answers["c1"]
        assert "only once" not in answers["c2"]


def test_the_mode_given_counts_more_than_the_one_left(folder: Path) -> None:
    with agent([], folder, name="s") as made:
        made.grants.mode = "accept_edits"
    with agent([], folder, name="s") as made:
        assert made.grants.mode == "accept_edits"
    with agent([], folder, name="s", mode="ask") as made:
        assert made.grants.mode == "ask"


def test_the_working_directory_is_kept(folder: Path) -> None:
    (folder / "deep").mkdir()
    steps = [[use("Shell", command="cd deep")], "There."]
    with agent(steps, folder, name="s", mode="autonomous") as made:
        made.run("Go there.")
    with agent([[use("Shell", "c1", command="pwd")], "Here."], folder, name="s") as made:
        made.run("Where?")
        assert results(model_of(made).requests[-1])["c1"].strip() == str(folder / "deep")


def test_one_process_at_a_time_holds_a_session(folder: Path) -> None:
    with agent([], folder, name="s"), pytest.raises(TranscriptLocked):
        agent([], folder, name="s")
    with agent(["Hm."], folder, name="s") as made:
        assert made.run("Hello.").end == "done"


def test_a_thousand_words_said_elsewhere_are_there_too(folder: Path) -> None:
    with sevenfold.Session.open("s", model="claude-sonnet-5-5", folder=folder, client=None) as session:
        session.user("The code word is zebra-99.")
    with agent(["Zebra."], folder, name="s") as made:
        made.run("What is it?")
        assert "zebra-99" in texts(model_of(made).requests[-1])


def test_an_agent_of_another_model_goes_on_with_the_same_session(folder: Path) -> None:
    def noop() -> str:
        """Does nothing."""
        return "nothing"

    with world([[use("noop", "toolu_1")], "Done.", "Still here."]) as there:
        with there.agent(folder, name="s", tools=[noop]) as made:
            made.run("Go.")
        with there.agent(folder, name="s", tools=[noop], model="claude-opus-4-6") as made:
            assert made.run("Are you there?").text == "Still here."
        last: dict[str, Any] = there.bodies[-1]
        assert last["model"] == "claude-opus-4-6"
        assert results(last) == {"toolu_1": "nothing"}
