"""The MCP server over recorded sessions: its tools, whose session is "this" one, and what it survives."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from sevenfold.doors.mcp_server import answers, protocol, tools
from sevenfold.doors.mcp_server.sessions import MOST_OPEN, SessionShelf
from sevenfold.doors.plugins.window import WindowSession
from sevenfold.memory.entry import new_entry
from sevenfold.session.factory import open_memory
from tests.doors.serving import SERVER, Line, served
from tests.profile.making import Tape, text, usage

ROOM = 40_000
"""Characters of an answer, below what Claude Code warns at."""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose sessions Claude Code keeps in a folder of its own; returns the project."""
    folder = tmp_path / "pier"
    folder.mkdir()
    for name in (
        "SEVENFOLD_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "PI_CODING_AGENT_DIR",
        "KIMI_SHARE_DIR",
    ):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return folder


def recorded(project: Path, session: str, *words: str, compacted: bool = True) -> Path:
    """A session of Claude Code in a project, whose words a compaction has hidden."""
    tape = Tape(cwd=str(project), sessionId=session)
    for number, said in enumerate(words):
        tape.user(said).answer(f"{session}-{number}", usage(100, read=50, output=5), text("I see."))
    if compacted:
        tape.compacted()
        tape.user("And now?").answer(f"{session}-now", usage(50, output=5), text("Now the rest."))
    named = "".join(sign if sign.isalnum() else "-" for sign in str(project))
    path = project.parent / "claude_config_dir" / "projects" / named / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return tape.save(path)


def shelf_of(project: Path, path: Path | None) -> SessionShelf:
    window = None if path is None else WindowSession(path.stem, path, project)
    return SessionShelf(project, lambda: window)


@pytest.fixture
def line(project: Path) -> Iterator[Line]:
    with served(project) as line:
        yield line


# -- the tools -----------------------------------------------------------------------------------------


@pytest.mark.spec("S23.31")
def test_what_a_compaction_hid_is_found_and_can_be_read_whole(project: Path, line: Line) -> None:
    long = f"The codeword is granite-7. {'And the pier is long. ' * 2_000}The end."
    recorded(project, "s-1", long)
    (found,) = line.call("recall", query="codeword granite", session="s-1")["found"]
    assert "granite-7" in found["text"]
    record = line.call("read_record", record=found["record"], session="s-1")
    pieces = [record["text"]]
    while record["next"] is not None:
        record = line.call("read_record", record=found["record"], session="s-1", start=record["next"])
        pieces.append(record["text"])
    assert "".join(pieces) == long
    assert record["in_context"] is False
    assert "granite-7" in line.call("left_context", session="s-1", part="words")["text"]


@pytest.mark.spec("S23.31")
def test_what_is_still_in_the_context_is_only_searched_if_asked_for(project: Path, line: Line) -> None:
    recorded(project, "s-1", "The codeword is granite-7.", compacted=False)
    assert line.call("recall", query="granite-7", session="s-1")["found"] == []
    assert line.call("recall", query="granite-7", session="s-1", still_in_context=True)["found"]
    assert line.call("left_context", session="s-1")["text"] == ""


@pytest.mark.spec("S23.31")
def test_a_session_that_is_written_meanwhile_is_searched_as_it_is_now(project: Path, line: Line) -> None:
    recorded(project, "s-1", "The codeword is granite-7.")
    assert line.call("recall", query="obsidian", session="s-1")["found"] == []
    recorded(project, "s-1", "The codeword is granite-7.", "No, it is obsidian-8.")
    assert line.call("recall", query="obsidian", session="s-1")["found"]


@pytest.mark.spec("S23.31")
def test_sessions_of_the_project_and_of_the_machine_are_searched_by_scope(
    project: Path, line: Line
) -> None:
    other = project.parent / "harbour"
    other.mkdir()
    recorded(project, "s-1", "The codeword is granite-7.")
    recorded(project, "s-2", "The codeword is granite-8.")
    recorded(other, "s-3", "The codeword is granite-9.")
    damaged = recorded(project, "s-4", "x")
    damaged.write_bytes(b"\xff\n" * 10)
    here = line.call("recall", query="codeword granite", scope="project")
    assert {found["session"] for found in here["found"]} == {"s-1", "s-2"}
    assert here["searched"] == 2
    assert here["unreadable"] == 1
    everything = line.call("recall", query="codeword granite", scope="everything")
    assert {found["session"] for found in everything["found"]} == {"s-1", "s-2", "s-3"}


@pytest.mark.spec("S23.31")
def test_costs_say_what_was_spent_and_what_broke_the_cache(project: Path, line: Line) -> None:
    recorded(project, "s-1", "Hello.", "Again.")
    costs = line.call("session_costs", session="s-1")
    assert costs["calls"] == 3
    assert costs["compactions"] == 1
    assert costs["prompt_tokens"] == 350
    assert costs["cached_tokens"] == 100
    assert costs["usd"] > 0
    assert costs["cache_warm_until"] is None


@pytest.mark.spec("S23.31")
def test_memory_is_listed_and_read_and_not_changed(project: Path, line: Line) -> None:
    assert line.call("memory") == {"entries": [], "left_out": 0}
    entry = new_entry("codeword", "project", "The word.", "> The codeword is granite-7.")
    open_memory(project).write(entry, "user", "said")
    open_memory(project).write(new_entry("over", "project", "Gone.", "> Old."), "user", "said")
    open_memory(project).close("over")
    (entry,) = line.call("memory")["entries"]
    assert entry["about"] == "The word."
    assert "granite-7" in line.call("memory", name=entry["name"])["entries"][0]["text"]
    assert "nothing is remembered under this name" in line.refusal("memory", name="no such")


@pytest.mark.spec("S23.31")
def test_every_tool_only_reads_and_says_what_it_takes_and_gives(line: Line) -> None:
    listed = line.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in listed] == [tool.name for tool in tools.TOOLS]
    for tool in listed:
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["annotations"]["destructiveHint"] is False
        assert tool["inputSchema"]["type"] == "object"
        assert tool["outputSchema"]["type"] == "object"
        assert len(tool["description"]) < 2_000


@pytest.mark.spec("S23.31")
def test_answers_are_bounded_whatever_is_recorded(project: Path) -> None:
    path = recorded(project, "s-1", *(f"granite {number}: {'x' * 30_000} end" for number in range(30)))
    shelf = shelf_of(project, path)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"query": "granite", "limit": answers.MOST_HITS}),
        ("left_context", {"characters": answers.MOST_CHARACTERS}),
        ("read_record", {"record": "u0"}),
        ("session_costs", {}),
    ]
    for name, arguments in asked:
        tool = tools.find(name)
        assert tool
        answer = tools.call(tool, arguments, shelf)
        assert not answer.is_error, answer
        assert 0 < len(answer.text) < ROOM
    shelf.close()


@pytest.mark.spec("S23.31")
def test_wrong_arguments_are_refused_with_what_is_wrong(line: Line) -> None:
    assert "Expected `int`, got `str`" in line.refusal("recall", query="x", limit="many")
    assert "unknown field `path`" in line.refusal("recall", query="x", path="/etc/passwd")
    assert "missing required field `query`" in line.refusal("recall")
    assert "exclude each other" in line.refusal("recall", query="x", scope="project", session="s-1")


@pytest.mark.spec("S23.31")
def test_a_path_is_never_a_name_of_a_session(project: Path, line: Line) -> None:
    path = recorded(project, "s-1", "The codeword is granite-7.")
    outside = project / "talk.jsonl"
    outside.write_bytes(path.read_bytes())
    for name in (str(outside), "talk.jsonl", "talk", "../pier/talk.jsonl"):
        assert "no such" in line.refusal("recall", query="granite", session=name)


@pytest.mark.spec("S23.31")
def test_only_so_many_sessions_are_kept_open(project: Path) -> None:
    paths = [recorded(project, f"s-{number}", "granite") for number in range(MOST_OPEN + 3)]
    shelf = shelf_of(project, None)
    sessions = [shelf.opened(path) for path in paths]
    assert shelf.opened(paths[-1]) is sessions[-1]
    assert shelf.opened(paths[0]) is not sessions[0]
    shelf.close()


# -- whose session ---------------------------------------------------------------------------------------

PROGRAM = """
import subprocess, sys
hook, event, server = sys.argv[1:4]
subprocess.run(["sh", "-c", hook], input=event.encode(), check=True)
sys.exit(subprocess.run(sys.argv[3:]).returncode)
"""


def program(project: Path, path: Path) -> subprocess.Popen[bytes]:
    """A window: it tells our hook its session, and starts our server."""
    event = {"session_id": path.stem, "transcript_path": str(path), "cwd": str(project)}
    hook = f"{shlex.quote(sys.executable)} -P -m sevenfold.doors.plugins.hook session-starts"
    arguments = [sys.executable, "-c", PROGRAM, hook, json.dumps(event), *SERVER]
    return subprocess.Popen(arguments, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.spec("S23.32")
def test_two_windows_in_one_folder_never_see_each_others_session_as_this(project: Path) -> None:
    windows = [
        program(project, recorded(project, f"s-{number}", f"The codeword is granite-{number}."))
        for number in (1, 2)
    ]
    lines = [Line(window) for window in windows]
    for _ in range(2):
        for number, line in enumerate(lines, 1):
            found = line.call("recall", query="codeword granite")["found"]
            assert [entry["session"] for entry in found] == [f"s-{number}"]
            left = line.call("left_context")
            assert left["session"] == f"s-{number}"
            assert f"granite-{number}" in left["text"]
            assert f"granite-{3 - number}" not in left["text"]
    for window in windows:
        window.communicate()
        assert window.returncode == 0


@pytest.mark.spec("S23.32")
def test_where_no_hook_named_the_window_there_is_no_session_to_be_this(project: Path, line: Line) -> None:
    recorded(project, "s-1", "The codeword is granite-7.")
    refusal = line.refusal("recall", query="granite")
    assert "which session runs in this window is not known" in refusal
    assert "s-1" in refusal


# -- the protocol ----------------------------------------------------------------------------------------


@pytest.mark.spec("S23.33")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdks_own_client_is_served_in_both_generations_of_the_protocol(
    project: Path, mode: str
) -> None:
    recorded(project, "s-1", "The codeword is granite-7.")

    async def talk() -> None:
        parameters = StdioServerParameters(
            command=SERVER[0], args=SERVER[1:], env=dict(os.environ), cwd=str(project)
        )
        async with Client(parameters, mode=mode) as client:
            assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == [tool.name for tool in tools.TOOLS]
            # The SDK checks each answer against the schema that the tool names for it.
            found = await client.call_tool("recall", {"query": "granite", "session": "s-1"})
            assert found.structured_content
            assert "granite-7" in found.structured_content["found"][0]["text"]
            assert (await client.call_tool("left_context", {"session": "s-1"})).is_error is False
            assert (await client.call_tool("session_costs", {"session": "s-1"})).is_error is False
            assert (await client.call_tool("memory", {})).is_error is False
            assert (await client.call_tool("recall", {})).is_error is True

    asyncio.run(talk())


@pytest.mark.spec("S23.33")
def test_a_version_that_is_not_known_gets_the_newest_that_is() -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}}
    answer = protocol.take(json.dumps(asked).encode())
    assert isinstance(answer, bytes)
    assert json.loads(answer)["result"]["protocolVersion"] == "2025-11-25"
    meta = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    later = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": meta}}
    answer = protocol.take(json.dumps(later).encode())
    assert isinstance(answer, bytes)
    assert json.loads(answer)["error"]["data"]["supported"] == ["2026-07-28"]


HOSTILE = [
    b"no json",
    b"\xff\xfe",
    b"[]",
    b"7",
    b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"id": 1, "method": "' + b"x" * (5 << 20),
]


@pytest.mark.spec("S23.33")
def test_no_message_ends_the_server(line: Line) -> None:
    for message in HOSTILE:
        line.say(message)
        assert "error" in line.hear()
    line.say(b"")
    line.say(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    line.say(b'{"jsonrpc": "2.0", "id": 9, "result": {}}')
    assert line.ask("ping")["result"] == {}


@pytest.mark.spec("S23.33")
def test_a_tool_that_breaks_is_an_error_for_the_model(project: Path) -> None:
    def breaks(*_: object) -> answers.MemoryAnswer:
        raise RuntimeError("the shelf is on fire")

    tool = tools.ServedTool("memory", "", "", answers.MemoryQuestion, answers.MemoryAnswer, breaks)
    answer = tools.call(tool, {}, shelf_of(project, None))
    assert answer.is_error
    assert "the shelf is on fire" in answer.text


@pytest.mark.spec("S23.33")
def test_what_is_printed_on_the_way_is_no_message(project: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from sevenfold.doors.mcp_server import stdio, tools;"
        "real = tools.call;"
        "tools.call = lambda *given: (print('noise'), os.write(1, b'noise'), real(*given))[2];"
        "stdio.serve(Path('.'))"
    )
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory"}}\n'
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=project, input=asked, capture_output=True, check=True)
    assert json.loads(done.stdout)["id"] == 1
    assert b"noise" in done.stderr


@pytest.mark.spec("S23.33")
def test_the_handshake_needs_nothing_that_takes_long_to_load(project: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from sevenfold.doors.mcp_server import protocol, stdio;"
        'protocol.take(b\'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\');'
        "print([name for name in ('mcp', 'pydantic', 'sqlite3', 'asyncio', 'rich', 'sevenfold.archive.transcript')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=project, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
