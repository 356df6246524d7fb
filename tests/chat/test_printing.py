"""A single run for scripts: the answer alone, or JSON, and an exit code that says how it ended."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from sevenfold.agent.agent import Agent
from sevenfold.cli import main as cli
from sevenfold.cli.chat import print_mode as printing
from sevenfold.providers.offline import OfflineClient, Script

CALL = {"type": "tool_use", "id": "toolu_a", "name": "Shell", "input": {"command": "rm -rf x"}}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def ran(how: printing.Format, steps: list[Any], **options: Any) -> tuple[int, str]:
    out = io.StringIO()
    with Agent("claude-sonnet-5-5", client=OfflineClient(Script(steps)), **options) as agent:
        code = printing.run(agent, "go", how, session="s", offline=False, out=out)
    return code, out.getvalue()


def test_text_is_the_answer_alone():
    assert ran("text", ["Done \x1b[31mit\x1b[0m."]) == (0, "Done it.\n")


def test_json_is_one_object_with_the_figures():
    code, out = ran("json", ["Done."])
    result = msgspec.json.decode(out, type=printing.PrintResult)
    assert (code, result.end, result.text, result.turns, result.model) == (
        0,
        "done",
        "Done.",
        1,
        "claude-sonnet-5-5",
    )
    assert result.prompt_tokens > 0
    assert result.output_tokens > 0


def test_stream_json_is_a_line_for_each_event_and_the_result_last():
    code, out = ran("stream-json", [[CALL], "Then not."])
    lines = [msgspec.json.decode(line) for line in out.splitlines()]
    assert code == 0
    assert [line["type"] for line in lines if line["type"].startswith("tool")] == [
        "tool_began",
        "tool_ended",
    ]
    refused = next(line for line in lines if line["type"] == "tool_ended")
    assert refused["is_error"]
    assert "No user is available" in refused["text"]
    assert lines[-1]["type"] == "result"
    assert lines[-1]["text"] == "Then not."


def test_a_run_that_stops_before_it_is_done_says_so(capsys):
    code, out = ran("json", [[CALL], [CALL | {"id": "toolu_b"}]], max_turns=1)
    assert (code, msgspec.json.decode(out)["end"]) == (1, "max_turns")
    code, out = ran("text", [[CALL]])
    assert code == 1
    assert "not done (error)" in capsys.readouterr().err


def test_the_command_prints_and_the_session_can_be_continued(capsys):
    assert cli.main(["chat", "-p", "hello there", "--output-format", "json"]) == 0
    first = msgspec.json.decode(capsys.readouterr().out)
    assert first["offline"]
    assert first["usd"] == 0
    assert cli.main(["chat", "--continue", "-p", "and again"]) == 0
    heard = capsys.readouterr()
    assert "You said: and again" in heard.out
    assert "the offline model answers" in heard.err
    assert cli.main(["sessions", "--json"]) == 0
    listed = msgspec.json.decode(capsys.readouterr().out)
    assert [(one["name"], one["title"]) for one in listed] == [(first["session"], "hello there")]


def test_sessions_are_listed_with_titles_and_deleted_by_name(capsys):
    cli.main(["chat", "-p", "the title of it", "--output-format", "json"])
    name = msgspec.json.decode(capsys.readouterr().out)["session"]
    assert cli.main(["sessions"]) == 0
    assert "the title of it" in capsys.readouterr().out
    assert cli.main(["sessions", "delete", name, "--yes"]) == 0
    capsys.readouterr()
    assert cli.main(["sessions"]) == 0
    assert "No sessions in this folder" in capsys.readouterr().out
    assert cli.main(["sessions", "delete", name]) == 2


def test_without_a_terminal_a_chat_says_what_to_do_instead(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe"))
    assert cli.main(["chat"]) == 2
    assert "use -p PROMPT" in capsys.readouterr().err
    assert cli.main(["chat", "-p", "-"]) == 0
    assert "You said: from a pipe" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-p", "  "], "the prompt is empty"),
        (["-p", "x", "--resume", "nobody"], "no session nobody"),
        (["-p", "x", "--resume"], "say which session"),
        (["-p", "x", "--continue"], "there is no session"),
    ],
)
def test_what_cannot_begin_says_why(capsys, arguments, words):
    if "--resume" in arguments and arguments[-1] == "--resume":
        cli.main(["chat", "-p", "something"])
        capsys.readouterr()
    assert cli.main(["chat", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_answer_that_cannot_be_written_is_an_error_in_words(capsys, monkeypatch):
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stdout", Full())
    assert cli.main(["chat", "-p", "hello"]) == 2
    assert "cannot write the answer to standard output: No space left" in capsys.readouterr().err


def test_without_any_input_stream_a_chat_says_what_to_do_instead(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["chat"]) == 2
    assert cli.main(["chat", "-p", "-"]) == 2
    assert "the prompt is empty" in capsys.readouterr().err


def test_files_that_are_mentioned_are_read_and_told_of(capsys, tmp_path):
    (tmp_path / "a.md").write_text("hello\n")
    assert cli.main(["chat", "-p", "see @a.md and @b.md", "--output-format", "stream-json"]) == 0
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    told = [(one["path"], one["is_error"]) for one in lines if one["type"] == "mentioned"]
    assert told == [("a.md", False), ("b.md", True)]
    assert cli.main(["chat", "-p", "see @b.md"]) == 0
    assert "@b.md was not read: There is no file" in capsys.readouterr().err
