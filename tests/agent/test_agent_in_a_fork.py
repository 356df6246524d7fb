"""A fork is a conversation: an agent works in it, is compacted there and resumed, and its parent notices nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.events import Compacted
from sevenfold.lab.simulator.invariant import extends
from tests.agent.working import agent, messages, model_of, results, use, words

SMALL = {"context_window": 24_000, "size_clearing": False}
LONG = "A line of the tide table, with its hour and its height.\n" * 180


def next_body(made: sevenfold.Agent) -> bytes:
    """The request an agent would send next, after the same words each time."""
    made.session.user("And now?", key="and now")
    return made.session.prepare().body


def bodies(made: sevenfold.Agent) -> list[dict[str, Any]]:
    return [json.loads(call.body) for call in model_of(made).asked]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(8):
        (tmp_path / f"tides{number}.txt").write_text(f"Table {number}\n{LONG}")
    return tmp_path


@pytest.mark.spec("S7.1", "S4.1", "S8.4", "S10.1")
def test_an_agent_works_in_a_fork_is_compacted_and_resumed_there_and_its_parent_is_unchanged_to_the_byte(
    folder: Path,
) -> None:
    parent = agent(
        [[words("I look."), use("Read", "toolu_p1", path="tides0.txt")], [words("Read it.")]],
        folder,
        name="harbour",
        settings=SMALL,
    )
    assert parent.run("Look at the first table.").end == "done"
    before, log = next_body(parent), parent.session.conversation.transcript.log
    written = list(log.read())

    compacted: list[Compacted] = []
    steps: list[Any] = [
        [words("On it."), use("Read", f"toolu_f{number}", path=f"tides{number}.txt")]
        for number in range(1, 8)
    ]
    fork = agent(
        [*steps, [words("All tables read.")]],
        folder,
        name="harbour",
        branch="survey",
        source="agent:survey",
        settings=SMALL,
        listen=[lambda event: compacted.append(event) if isinstance(event, Compacted) else None],
    )
    assert fork.run("Read all the other tables.").text == "All tables read."
    first = bodies(fork)[0]
    assert [message["role"] for message in messages(first)][-1] == "user"
    assert "Read all the other tables." in json.dumps(messages(first)[-1])
    assert set(results(first)) == {"toolu_p1"}
    assert compacted, "the fork was compacted on its own"
    view = fork.session.conversation.transcript.view
    assert view.boundary is not None
    fork.close()

    assert list(log.read()) == written
    assert next_body(parent) == before
    assert parent.session.conversation.transcript.view.boundary is None

    again = agent([[words("Nothing left to do.")]], folder, name="harbour", branch="survey", settings=SMALL)
    assert again.session.conversation.transcript.view.boundary == view.boundary
    assert again.run("Anything left?").text == "Nothing left to do."
    assert "toolu_p1" not in results(bodies(again)[-1])
    again.close()
    parent.close()


@pytest.mark.spec("S7.1", "S7.2")
def test_a_fork_begins_with_its_parents_bytes_and_a_message_of_its_own(folder: Path) -> None:
    with sevenfold.Session.open("s", model="claude-sonnet-5-5", folder=folder) as session:
        session.user("One.")
        sent = session.prepare().body
        with sevenfold.Session.open("s", model="claude-sonnet-5-5", folder=folder, branch="b") as branch:
            branch.user("Two.")
            forked = branch.prepare().body
        session.user("Three.")
        assert extends(sent, forked) is None
        shared, own = messages(json.loads(forked))
        assert [block["text"] for block in shared["content"]] == ["One."]
        assert [block["text"] for block in own["content"]] == ["Two."]
        assert "Two." not in session.prepare().body.decode()


@pytest.mark.spec("S7.1", "S7.2")
def test_calls_under_way_get_one_placeholder_in_a_fork(folder: Path) -> None:
    steps: list[Any] = [
        [words("Both."), use("Read", "toolu_1", path="a"), use("Read", "toolu_2", path="b")]
    ]
    made = agent(steps, folder, name="s", max_turns=1, tools=[])
    made.session.user("Read both.")
    made.session.complete()
    with sevenfold.Session.open("s", model="claude-sonnet-5-5", folder=folder, branch="b") as branch:
        branch.user("What do you expect?")
        given = results(json.loads(branch.prepare().body))
    assert set(given) == {"toolu_1", "toolu_2"}
    assert len(set(given.values())) == 1
    assert made.session.conversation.waiting == ["toolu_1", "toolu_2"]
    made.close()
