"""What stands behind the plugin for Hermes: sessions that follow its messages, compact them and find what left."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sevenfold.cli.main import main
from sevenfold.doors.adapters.hermes import HermesDesk, HermesQuestion, serve
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve as served

SUMMARY = "<summary>\n1. Primary request: the harbour is looked after.\n</summary>"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HermesDesk]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "sevenfold"))
    monkeypatch.chdir(tmp_path)
    opened = HermesDesk(tmp_path)
    yield opened
    opened.close()


def turn(number: int) -> list[dict[str, Any]]:
    """A round of work, with what Hermes notes in its messages."""
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"The codeword of day {number} is beacon-{number}."},
        {"role": "assistant", "content": None, "tool_calls": [call], "finish_reason": "tool_calls"},
        {
            "role": "tool",
            "tool_call_id": f"call_{number}",
            "content": f"output {number}\n" * 200,
            "at": number,
        },
        {"role": "assistant", "content": f"Done with {number}.", "finish_reason": "stop"},
    ]


def asked(desk: HermesDesk, messages: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    question = HermesQuestion(
        do="compact", session="20261119", messages=messages, model="local", window=64_000, **more
    )
    answer = desk.answer(question)
    assert answer.error == ""
    return answer.messages


@pytest.mark.spec("S41.6")
def test_hermes_gets_a_shorter_list_with_every_word_of_the_user_three_times_in_a_row(
    desk: HermesDesk,
) -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are Hermes."}]
    for compaction in range(3):
        for number in range(compaction * 5, compaction * 5 + 5):
            messages += turn(number)
        longer = messages
        messages = asked(desk, messages)
        assert len(messages) < len(longer) / 2
        assert messages[0] == longer[0]
        assert messages[-1] is longer[-1]
        assert all(f"beacon-{number}." in json.dumps(messages) for number in range(compaction * 5 + 5))


@pytest.mark.spec("S41.6")
def test_hermes_own_model_writes_the_summary_and_what_is_kept_keeps_what_hermes_notes_in_it(
    desk: HermesDesk,
) -> None:
    def brain(prompt: ModelPrompt) -> str:
        return SUMMARY

    simulator = Simulator(ScriptedBrain(brain))
    with served(simulator) as url:
        messages = [*(message for number in range(6) for message in turn(number)), *turn(6)[:3]]
        endpoint = {"address": f"{url}/v1", "key": "key", "api": "chat_completions"}
        shorter = asked(desk, messages, **endpoint)
        desk.close()
    assert "the harbour is looked after" in json.dumps(shorter)
    assert shorter[-1] is messages[-1]
    assert any(received.status == 200 for received in simulator.requests)


@pytest.mark.spec("S41.6")
def test_a_conversation_whose_id_hermes_changes_goes_on_in_the_same_session(
    desk: HermesDesk, tmp_path: Path
) -> None:
    asked(desk, [*turn(0), *turn(1)])
    desk.answer(HermesQuestion(do="rename", session="20261120", before="20261119"))
    desk.answer(HermesQuestion(do="end", session="20261119"))
    again = HermesDesk(tmp_path)
    answer = again.answer(
        HermesQuestion(do="record", session="20261120", messages=turn(2), model="local", window=64_000)
    )
    again.close()
    assert answer.error == ""
    assert [path.stem for path in (tmp_path / "sevenfold").rglob("hermes-*.jsonl")] == ["hermes-20261119"]


@pytest.mark.spec("S41.7")
def test_what_left_the_context_is_found_and_what_earlier_sessions_said_is_brought_back(
    desk: HermesDesk,
) -> None:
    messages = asked(desk, [*turn(0), *turn(1), *turn(2)])
    found = desk.answer(HermesQuestion(do="recall", session="20261119", query="output 0"))
    assert "output 0" in found.text
    desk.answer(HermesQuestion(do="record", session="20261119", messages=messages, model="local"))
    desk.answer(HermesQuestion(do="end", session="20261119"))
    reminded = desk.answer(HermesQuestion(do="remind", session="another", query="beacon-1"))
    assert "beacon-1" in reminded.text
    assert "20261119" in reminded.text
    # Hermes has the model take it as authoritative: nothing that a tool returned is in it.
    of_a_tool = desk.answer(HermesQuestion(do="remind", session="another", query="output 1"))
    assert "output 1" not in of_a_tool.text
    nothing = desk.answer(HermesQuestion(do="remind", session="20261119", query="beacon-1"))
    assert nothing.text == ""


@pytest.mark.spec("S41.6")
def test_what_cannot_be_done_is_said_and_nothing_ends(desk: HermesDesk) -> None:
    questions = io.BytesIO(
        b'{"do": "dance"}\nno json\n{"do": "compact", "messages": [{"role": "user", "content": "Hello."}]}\n'
    )
    answers = io.BytesIO()
    serve(questions, answers)
    said = [json.loads(line)["error"] for line in answers.getvalue().splitlines()]
    assert said[0] == "nothing is known under the name 'dance'"
    assert said[1].startswith("the question cannot be read: ")
    assert said[2] == "there is nothing to summarise yet"


@pytest.mark.spec("S41.6")
def test_the_plugin_is_written_and_removed_to_the_byte_and_its_command_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "sevenfold"))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes"))
    monkeypatch.chdir(tmp_path)
    assert main(["install", "hermes"]) == 0
    assert "hermes config set context.engine sevenfold" in capsys.readouterr().out
    folder = tmp_path / "hermes" / "plugins" / "sevenfold"
    command = json.loads((folder / "command.json").read_text())
    assert command[0] == sys.executable
    answered = subprocess.run(
        command, input=b'{"do": "end"}\n', capture_output=True, timeout=60, check=True
    )
    assert answered.stdout == b"{}\n"
    assert main(["uninstall", "hermes"]) == 0
    assert not (tmp_path / "hermes").exists()
