"""A single run for scripts: the answer alone, or JSON, and an exit code that says how it ended."""

from __future__ import annotations

import io
import threading
from typing import Any

import msgspec
import pytest

from sevenfold.agent.agent import Agent
from sevenfold.cli import main as cli
from sevenfold.cli.chat import print_mode as printing
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.record.authorship import PASTED
from sevenfold.stores.home import user_home

from .stage import simulated

CALL = {"type": "tool_use", "id": "toolu_a", "name": "Shell", "input": {"command": "rm -rf x"}}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.chdir(tmp_path)


def chat(*arguments: str) -> int:
    """Run the command with the offline model."""
    return cli.main(["chat", "--model", "offline", *arguments])


def ran(how: printing.Format, steps: list[Any], **options: Any) -> tuple[int, str]:
    out = io.StringIO()
    with Agent("claude-sonnet-5-5", client=OfflineClient(Script(steps)), **options) as agent:
        code = printing.run(agent, "go", how, session="s", offline=False, out=out)
    return code, out.getvalue()


def test_text_is_the_answer_alone():
    assert ran("text", ["Done \x1b[31mit\x1b[0m."]) == (0, "Done it.\n")


def test_json_is_one_object_with_the_figures():
    code, out = ran("json", ["Done."])
    result = msgspec.json.decode(out)
    assert (code, result["end"], result["text"], result["turns"], result["model"]) == (
        0,
        "done",
        "Done.",
        1,
        "claude-sonnet-5-5",
    )
    assert result["prompt_tokens"] > 0
    assert result["output_tokens"] > 0


def test_stream_json_is_a_line_for_each_event_and_the_result_last():
    code, out = ran("stream-json", [[CALL], "Then not."])
    lines = [msgspec.json.decode(line) for line in out.splitlines()]
    assert code == printing.NOT_PERMITTED
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
    assert chat("-p", "hello there", "--output-format", "json") == 0
    first = msgspec.json.decode(capsys.readouterr().out)
    assert first["offline"]
    assert first["usd"] == 0
    assert chat("--continue", "-p", "and again") == 0
    heard = capsys.readouterr()
    assert "You said: and again" in heard.out
    assert heard.err == ""
    assert cli.main(["sessions", "--json"]) == 0
    listed = msgspec.json.decode(capsys.readouterr().out)
    assert [(one["name"], one["title"]) for one in listed] == [(first["session"], "hello there")]


def test_sessions_are_listed_with_titles_and_deleted_by_name(capsys):
    chat("-p", "the title of it", "--output-format", "json")
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
    assert chat("-p", "-") == 0
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
        chat("-p", "something")
        capsys.readouterr()
    assert chat(*arguments) == 2
    assert words in capsys.readouterr().err


def test_an_answer_that_cannot_be_written_is_an_error_in_words(capsys, monkeypatch):
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stdout", Full())
    assert chat("-p", "hello") == 2
    assert "cannot write the answer to standard output: No space left" in capsys.readouterr().err


def test_without_any_input_stream_a_chat_says_what_to_do_instead(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["chat"]) == 2
    assert chat("-p", "-") == 2
    assert "the prompt is empty" in capsys.readouterr().err


def test_files_that_are_mentioned_are_read_and_told_of(capsys, tmp_path):
    (tmp_path / "a.md").write_text("hello\n")
    assert chat("-p", "see @a.md and @b.md", "--output-format", "stream-json") == 0
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    told = [(one["path"], one["is_error"]) for one in lines if one["type"] == "mentioned"]
    assert told == [("a.md", False), ("b.md", True)]
    assert chat("-p", "see @b.md") == 0
    assert "@b.md was not read: There is no file" in capsys.readouterr().err


@pytest.mark.spec("S8.7")
@pytest.mark.parametrize(
    ("given", "piped", "sent"),
    [
        ("review", "a\nb\n", "review\n\n```\na\nb\n```"),
        ("review", "see\n````\nx\n````\n", "review\n\n`````\nsee\n````\nx\n````\n`````"),
        ("review", " \n", "review"),
        ("-", "review", "review"),
        ("", "review", "review"),
    ],
)
def test_what_is_piped_in_goes_with_the_prompt(given: str, piped: str, sent: str) -> None:
    prompt = printing.read_prompt(given, io.StringIO(piped))
    assert prompt.text == sent
    # Nobody typed what came through the pipe.
    assert prompt.origin == ("pasted" if piped.strip() else "typed")
    assert prompt.typed is None or prompt.typed == f"{given}\n\n{PASTED}"


@pytest.mark.spec("S8.7")
def test_what_is_piped_in_mentions_no_files(capsys, monkeypatch, tmp_path):
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("hello\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("+@a.md\n@@ -1 +1 @@\n @a.md\n"))
    assert chat("-p", "compare with @b.md", "--output-format", "stream-json") == 0
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["path"] for one in lines if one["type"] == "mentioned"] == ["b.md"]
    kept = next((tmp_path / "home").rglob(f"{lines[-1]['session']}.jsonl")).read_text()
    assert "@@ -1 +1 @@" in kept


@pytest.mark.spec("S8.7")
def test_input_that_is_too_long_or_cannot_be_read_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(printing, "MOST_PIPED", 10)
    monkeypatch.setattr("sys.stdin", io.StringIO("x" * 11))
    assert chat("-p", "review") == 2
    assert "standard input has more than 10 characters" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), "utf-8"))
    assert chat("-p", "review") == 2
    assert "cannot read standard input" in capsys.readouterr().err


@pytest.mark.spec("S8.7")
def test_a_pipe_that_stays_open_is_announced(monkeypatch):
    announced = threading.Event()

    class Screen(io.StringIO):
        def write(self, text: str) -> int:
            if "waiting for standard input" in text:
                announced.set()
            return super().write(text)

    class Slow(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            return "late" if announced.wait(30) else "not announced"

    monkeypatch.setattr("sys.stderr", Screen())
    monkeypatch.setattr(printing, "PATIENCE", 0.01)
    assert printing.read_prompt("-", Slow()).text == "late"


@pytest.mark.spec("S8.8")
def test_calls_that_were_not_permitted_are_listed_and_change_the_exit_code(capsys):
    code, out = ran("json", [[CALL], "Then not."])
    result = msgspec.json.decode(out)
    assert (code, result["end"]) == (3, "done")
    denied = result["permission_denials"][0]
    assert (denied["tool"], denied["id"], denied["input"]) == ("Shell", "toolu_a", {"command": "rm -rf x"})
    assert "No user is available" in denied["reason"]
    code, out = ran("text", [[CALL], "Then not."], rules={"deny": ["Shell(rm *)"]})
    assert (code, out) == (3, "Then not.\n")
    assert "not permitted: Shell" in capsys.readouterr().err
    code, out = ran("json", [[CALL | {"input": {"command": "false"}}], "Failed."], mode="autonomous")
    assert (code, msgspec.json.decode(out)["permission_denials"]) == (0, [])


@pytest.mark.spec("S8.8")
def test_without_a_key_a_script_gets_an_error_instead_of_an_echo(capsys):
    assert cli.main(["chat", "-p", "hello"]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert "ANTHROPIC_API_KEY" in heard.err
    assert "--model offline" in heard.err


@pytest.mark.spec("S8.8")
def test_the_offline_model_answers_by_name_even_if_there_is_a_key(capsys, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    assert chat("-p", "hello") == 0
    assert "You said: hello" in capsys.readouterr().out


@pytest.mark.spec("S15.5")
def test_stream_json_has_the_lines_that_scripts_for_claude_code_read():
    _, out = ran("stream-json", [[{"type": "text", "text": "Look."}, CALL], "Then not."])
    lines = [msgspec.json.decode(line) for line in out.splitlines()]
    shaped = [line for line in lines if line["type"] in ("system", "assistant", "user", "result")]
    assert [line["type"] for line in shaped] == [
        "system",
        "assistant",
        "assistant",
        "user",
        "assistant",
        "result",
    ]
    assert {line["session_id"] for line in shaped} == {"s"}
    init, first, called, denied, last, result = shaped
    assert lines[0] == init
    assert (init["subtype"], "Shell" in init["tools"], init["permissionMode"]) == ("init", True, "ask")
    assert first["message"]["content"] == [{"type": "text", "text": "Look."}]
    assert called["message"]["content"] == [CALL]
    assert called["message"]["id"] == first["message"]["id"] != last["message"]["id"]
    assert first["message"]["usage"]["output_tokens"] > 0
    [answer] = denied["message"]["content"]
    assert (answer["type"], answer["tool_use_id"], answer["is_error"]) == ("tool_result", CALL["id"], True)
    assert last["message"]["content"] == [{"type": "text", "text": "Then not."}]
    assert (result["subtype"], result["result"], result["num_turns"]) == ("success", "Then not.", 2)
    [denial] = result["permission_denials"]
    assert (denial["tool_name"], denial["tool_use_id"], denial["tool_input"]) == (
        "Shell",
        CALL["id"],
        CALL["input"],
    )


@pytest.mark.spec("S15.5")
def test_what_was_written_to_the_cache_is_counted_as_the_messages_api_counts_it(monkeypatch, capsys):
    with simulated() as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated-key")
        assert cli.main(["chat", "-p", "hi", "--output-format", "json"]) == 0
    result = msgspec.json.decode(capsys.readouterr().out)
    fresh, written = (result["usage"][name] for name in ("input_tokens", "cache_creation_input_tokens"))
    assert written > fresh
    assert fresh + written == result["prompt_tokens"]


@pytest.mark.spec("S15.5")
def test_prompts_come_as_lines_and_each_is_answered_in_the_same_session(monkeypatch, capsys):
    said = [
        {"role": "user", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
    ]
    typed = "\n\n".join(msgspec.json.encode({"type": "user", "message": one}).decode() for one in said)
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert chat("-p", "--input-format", "stream-json", "--output-format", "stream-json") == 0
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    results = [line for line in lines if line["type"] == "result"]
    assert ["one" in results[0]["result"], "two" in results[1]["result"]] == [True, True]
    assert results[0]["session_id"] == results[1]["session_id"]


@pytest.mark.spec("S15.5")
@pytest.mark.parametrize(
    "line", ["hello", '{"type": "assistant"}', '{"type": "user", "message": {"content": " "}}']
)
def test_a_line_that_is_no_message_is_refused_in_one_line_and_leaves_no_session(line, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(line))
    assert chat("-p", "--input-format", "stream-json") == 2
    shown = capsys.readouterr().err
    assert ("line 1 of the input" in shown, shown.count("\n")) == (True, 1)
    assert list(user_home().root.rglob("p-*.jsonl")) == []


@pytest.mark.spec("S15.5")
def test_a_prompt_and_lines_of_input_are_not_taken_together(capsys):
    assert chat("-p", "hi", "--input-format", "stream-json") == 2
    assert "leave -p without one" in capsys.readouterr().err
