"""The progress line of an agent: three to five words, in the -ing form, naming something concrete."""

from __future__ import annotations

from typing import Any

import pytest

import sevenfold
from sevenfold.agent.processes import LocalProcesses
from sevenfold.agent.standard_tools import standard_tools
from sevenfold.agent.team.summary import progress_line
from sevenfold.providers.offline import OfflineClient, Script
from tests.agent.working import MODEL, use

pytestmark = pytest.mark.spec("S7.5")


def line(*steps: Any) -> str:
    with sevenfold.Session.in_memory(model=MODEL, client=OfflineClient(Script(steps))) as session:
        session.user("Go.")
        for _ in steps:
            done = session.complete()
            session.tool_results({call.id: "done" for call in done.calls})
            if not done.calls:
                session.user("Go on.")
        return progress_line(session.conversation.transcript.view)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (use("Read", path="/project/src/parser.py"), "Reading the file parser.py"),
        (use("Edit", path="a/b.py", old="x", new="y"), "Editing the file b.py"),
        (use("Shell", command="pytest -q tests && echo ok"), "Running the command pytest"),
        (use("Grep", pattern="def main"), "Searching files for def"),
        (use("WebFetch", url="https://example.com/a/b"), "Fetching the page example.com"),
        (use("Agent", description="review it", prompt="x"), "Directing an agent: review"),
        (use("mcp__tickets__get", id=7), "Using the tool mcp__tickets__get"),
        (use("Todo", todos=[]), "Updating the to-do list"),
    ],
)
def test_the_line_names_what_the_newest_call_is_about(call, words):
    assert line([use("Read", path="old.txt")], [call]) == words
    assert 3 <= len(words.split()) <= 5
    assert words.split()[0].endswith("ing")


def test_before_the_first_call_there_is_no_line():
    assert line("Hello.") == ""


def test_an_answer_without_calls_leaves_the_line_as_it_is():
    assert line([use("Read", path="a.txt")], "Hm.") == "Reading the file a.txt"


@pytest.mark.parametrize(
    "given", [{}, {"path": ""}, {"path": ["x"]}, {"path": "\n \n"}, {"path": "x" * 999}]
)
def test_a_call_with_an_odd_input_still_gives_a_line(given):
    shown = line([use("Read", **given)])
    assert shown.startswith("Reading the file")
    assert len(shown) < 80
    assert "\n" not in shown


def test_every_standard_tool_has_words_of_its_own_or_its_name(tmp_path):
    processes = LocalProcesses(tmp_path)
    for tool in standard_tools(processes):
        shown = line([use(tool.name)])
        assert shown.split()[0].endswith("ing"), tool.name
    processes.close()
