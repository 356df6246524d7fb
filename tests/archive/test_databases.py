"""Sessions that other tools keep in a database; the rows have the values that the tools themselves wrote."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.archive import sessions
from sevenfold.errors import TranscriptError, TranscriptForeign, TranscriptMissing

pytestmark = pytest.mark.spec("S31.1")
Row = Mapping[str, Any]
MODEL = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
OPENCODE = """
CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, title TEXT, version TEXT, revert TEXT, time_updated INT);
CREATE TABLE message (id TEXT, session_id TEXT, time_created INT, data TEXT);
CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);
"""
HERMES = """
CREATE TABLE schema_version (version INT);
CREATE TABLE sessions (
  id TEXT, model TEXT, model_config TEXT, parent_session_id TEXT, started_at REAL, cwd TEXT, title TEXT);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_call_id TEXT, tool_calls TEXT, timestamp REAL,
  active INT, reasoning TEXT, compacted INT, finish_reason TEXT);
"""


def database(path: Path, schema: str, tables: Mapping[str, Iterable[Row]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        for table, rows in tables.items():
            for row in rows:
                names = ", ".join(row)
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
        connection.commit()
    return path


def tokens(fresh: int, output: int, read: int, write: int, reasoning: int = 0) -> Row:
    return {
        "input": fresh,
        "output": output,
        "reasoning": reasoning,
        "cache": {"read": read, "write": write},
    }


class OpencodeSession:
    """Builds the rows of a session as opencode 1.18 writes them."""

    def __init__(self, name: str = "ses_1", version: str = "1.18.33", **about: Any) -> None:
        self.messages: list[Row] = []
        self.parts: list[Row] = []
        self.about: dict[str, Any] = {
            "id": name,
            "directory": "/projects/quay",
            "title": "The lantern on the pier",
            "version": version,
            "time_updated": 1_795_038_954_947,
            **about,
        }

    def message(self, fields: Row, *parts: Row) -> str:
        number = len(self.messages) + 1
        name = f"msg_{number:03}"
        created = 1_795_038_000_000 + number * 1_000
        about = {**fields, "time": {"created": created}}
        row = {
            "id": name,
            "session_id": self.about["id"],
            "time_created": created,
            "data": json.dumps(about),
        }
        self.messages.append(row)
        for part in parts:
            part_name = f"prt_{len(self.parts) + 1:03}"
            row = {
                "id": part_name,
                "message_id": name,
                "session_id": self.about["id"],
                "data": json.dumps(part),
            }
            self.parts.append(row)
        return name

    def user(self, *parts: Row) -> str:
        return self.message({"role": "user", "agent": "build", "model": MODEL}, *parts)

    def answer(self, usage: Row, *parts: Row, **fields: Any) -> str:
        finish = {"type": "step-finish", "reason": "stop", "tokens": usage}
        start = {"type": "step-start", "snapshot": "6c11"}
        about = {"role": "assistant", "finish": "stop", "tokens": usage, **MODEL, **fields}
        return self.message(about, start, *parts, finish)

    def write(self, path: Path) -> Path:
        tables: dict[str, list[Row]] = {
            "session": [self.about],
            "message": self.messages,
            "part": self.parts,
        }
        return database(path, OPENCODE, tables)


def text(words: str, **fields: Any) -> Row:
    return {"type": "text", "text": words, **fields}


def read_call(output: str, **time: int) -> Row:
    state = {"status": "completed", "input": {"filePath": "notes.txt"}, "output": output, "time": time}
    return {"type": "tool", "tool": "read", "callID": "toolu_1", "state": state}


def compacted_session(**about: Any) -> OpencodeSession:
    session = OpencodeSession(**about)
    session.user(text("Where does Lantern 7 stand?"), text("You are in build mode.", synthetic=True))
    session.answer(
        tokens(0, 43, 0, 12_907, reasoning=9),
        {"type": "reasoning", "text": "The file will say it."},
        text("I will read it."),
        read_call("Lantern 7 stands on the east pier."),
    )
    kept = session.answer(tokens(0, 10, 12_907, 143), text("On the east pier."))
    session.user({"type": "compaction", "auto": False, "tail_start_id": kept})
    session.answer(tokens(946, 17, 0, 0), text("Lantern 7 is on the east pier."), summary=True)
    session.user(text("And who keeps it?"))
    session.answer(tokens(0, 10, 12_883, 46), text("Nobody does."))
    return session


def spoken(path: Path) -> list[tuple[str, str]]:
    with sevenfold.transcript(path) as transcript:
        return [(record.speaker, record.text) for record in transcript.records()]


def context(path: Path) -> list[tuple[str, str]]:
    with sevenfold.transcript(path) as transcript:
        return [(record.speaker, record.text) for record in transcript.context()]


# -- opencode --------------------------------------------------------------------------------


def test_messages_calls_results_and_usage_of_opencode_are_read(tmp_path: Path) -> None:
    path = compacted_session().write(tmp_path / "opencode.db")
    records = spoken(path)
    assert [speaker for speaker, _ in records] == [
        "user",
        "note",
        "model",
        "tool",
        "model",
        "user",
        "model",
    ]
    assert "notes.txt" in records[2][1]
    assert "east pier" in records[3][1]
    with sevenfold.transcript(path) as transcript:
        profile = transcript.profile()
    assert (profile.format, profile.title, profile.project) == (
        "opencode",
        "The lantern on the pier",
        "/projects/quay",
    )
    assert profile.usage.output_tokens == 43 + 9 + 10 + 17 + 10
    assert profile.usage.cache_creation_input_tokens == 12_907 + 143 + 46
    assert profile.damaged_lines == 0
    assert profile.unknown_lines == {}


def test_a_compaction_of_opencode_keeps_the_tail_that_it_names(tmp_path: Path) -> None:
    path = compacted_session().write(tmp_path / "opencode.db")
    assert context(path) == [
        ("summary", "Lantern 7 is on the east pier."),
        ("model", "On the east pier."),
        ("user", "And who keeps it?"),
        ("model", "Nobody does."),
    ]


def test_the_call_that_wrote_a_summary_of_opencode_is_billed_beside_the_conversation(
    tmp_path: Path,
) -> None:
    with sevenfold.transcript(compacted_session().write(tmp_path / "opencode.db")) as transcript:
        profile = transcript.profile()
    assert (profile.api_calls, profile.side_calls, profile.compactions) == (4, 1, 1)
    assert profile.usage.input_tokens == 946
    assert profile.cost_usd is not None


def test_a_result_that_opencode_cleared_left_the_context_and_not_the_record(tmp_path: Path) -> None:
    session = OpencodeSession()
    session.user(text("Where does Lantern 7 stand?"))
    session.answer(
        tokens(0, 5, 0, 900), read_call("Lantern 7 stands on the east pier.", compacted=1_795_038_002_500)
    )
    session.answer(tokens(0, 5, 900, 40), text("On the east pier."))
    path = session.write(tmp_path / "opencode.db")
    assert not any("stands on the east pier" in words for _, words in context(path))
    assert any("stands on the east pier" in words for _, words in spoken(path))


def test_what_the_user_of_opencode_took_back_is_left_out(tmp_path: Path) -> None:
    session = OpencodeSession()
    session.user(text("Paint the buoy."))
    session.answer(tokens(0, 5, 0, 900), text("Red?"))
    session.user(text("Yes, red."))
    session.about["revert"] = json.dumps({"messageID": "msg_003"})
    assert spoken(session.write(tmp_path / "opencode.db")) == [
        ("user", "Paint the buoy."),
        ("model", "Red?"),
    ]


@pytest.mark.parametrize(
    "data", ["", "[]", "null", "{", '{"role": 7}', '{"role": "assistant", "tokens": []}']
)
def test_a_damaged_row_of_opencode_costs_only_itself(tmp_path: Path, data: str) -> None:
    session = OpencodeSession()
    session.user(text("Hello."))
    session.messages.append({**session.messages[0], "id": "msg_000", "time_created": 1, "data": data})
    session.parts.append({"id": "prt_9", "message_id": "msg_001", "session_id": "ses_1", "data": data})
    assert ("user", "Hello.") in spoken(session.write(tmp_path / "opencode.db"))


# -- Hermes ----------------------------------------------------------------------------------


def hermes(path: Path, version: int = 22) -> Path:
    calls = [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path":"notes.txt"}'},
        }
    ]
    parts = [
        text("Who keeps it?"),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    summary = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted. Lantern 7: east pier."
    messages: list[Row] = [
        {"role": "user", "content": "Where does Lantern 7 stand?", "compacted": 1},
        {"role": "assistant", "content": "Looking.", "tool_calls": json.dumps(calls), "compacted": 1},
        {"role": "tool", "content": "east pier", "tool_call_id": "c1", "compacted": 1},
        {"role": "assistant", "content": "On the east pier.", "reasoning": "it says so", "compacted": 1},
        {"role": "user", "content": "Never mind this.", "active": 0, "compacted": 0},
        {"role": "user", "content": summary},
        {"role": "user", "content": "\x00json:" + json.dumps(parts)},
    ]
    rows: list[Row] = [
        {
            "session_id": "s-1",
            "timestamp": 1_795_038_000.5 + number,
            "active": int(not message.get("compacted")),
            "compacted": 0,
            **message,
        }
        for number, message in enumerate(messages)
    ]
    about = {
        "id": "s-1",
        "model": "claude-sonnet-5-5",
        "started_at": 1.5,
        "cwd": "/projects/quay",
        "title": "Pier",
    }
    delegated = {"id": "s-2", "started_at": 2.5, "model_config": '{"_delegate_from": "s-1"}'}
    tables: dict[str, list[Row]] = {
        "schema_version": [{"version": version}],
        "sessions": [about, delegated],
        "messages": rows,
    }
    return database(path, HERMES, tables)


def test_messages_calls_and_results_of_hermes_are_read_without_what_was_rewound(tmp_path: Path) -> None:
    records = spoken(hermes(tmp_path / "state.db") / "s-1")
    assert [speaker for speaker, _ in records] == ["user", "model", "tool", "model", "user"]
    assert "notes.txt" in records[1][1]
    assert not any("Never mind" in words for _, words in records)


def test_a_compaction_of_hermes_leaves_its_summary_and_what_came_after(tmp_path: Path) -> None:
    path = hermes(tmp_path / "state.db") / "s-1"
    assert [speaker for speaker, _ in context(path)] == ["summary", "user"]
    assert "east pier" in context(path)[0][1]
    with sevenfold.transcript(path) as transcript:
        profile = transcript.profile()
    assert (profile.format, profile.compactions, profile.cost_usd) == ("hermes", 1, None)


# -- databases -------------------------------------------------------------------------------


def test_a_session_in_a_database_is_listed_and_found_by_its_id_and_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "PI_CODING_AGENT_DIR",
        "KIMI_SHARE_DIR",
        "SEVENFOLD_HOME",
    ):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes"))
    compacted_session().write(tmp_path / "opencode" / "opencode.db")
    hermes(tmp_path / "hermes" / "state.db")
    listed = {session.name: (session.tool, session.about().title) for session in sessions.stored()}
    assert listed == {"ses_1": ("opencode", "The lantern on the pier"), "s-1": ("Hermes", "Pier")}
    assert sessions.find("lantern on").name == "ses_1"
    assert sessions.find("s-1").name == "s-1"
    assert spoken(sessions.find("ses_1"))[0] == ("user", "Where does Lantern 7 stand?")


def test_a_database_with_several_sessions_says_which_it_has(tmp_path: Path) -> None:
    path = hermes(tmp_path / "state.db")
    with pytest.raises(TranscriptForeign, match=r"2 sessions; name one of them.*s-1"):
        sevenfold.transcript(path)
    with pytest.raises(TranscriptMissing, match="no session s-9"):
        sevenfold.transcript(path / "s-9")


def test_a_database_of_a_newer_version_is_refused_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(TranscriptForeign, match="schema is version 23"):
        sevenfold.transcript(hermes(tmp_path / "state.db", version=23) / "s-1")
    path = OpencodeSession(version="2.0.1").write(tmp_path / "opencode.db")
    with pytest.raises(TranscriptForeign, match=r"opencode 2\.0\.1"):
        sevenfold.transcript(path)


def test_a_database_without_a_column_that_is_needed_is_refused_by_it(tmp_path: Path) -> None:
    schema = OPENCODE.replace("revert TEXT, ", "")
    path = database(tmp_path / "opencode.db", schema, {})
    with pytest.raises(TranscriptForeign, match=r"unknown version: it has no session\.revert"):
        sevenfold.transcript(path)


def test_other_and_damaged_databases_are_refused(tmp_path: Path) -> None:
    other = database(tmp_path / "other.db", "CREATE TABLE books (id INT);", {})
    with pytest.raises(TranscriptForeign, match="no sessions of opencode or Hermes"):
        sevenfold.transcript(other)
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(other.read_bytes()[:100] + b"\xff" * 4_000)
    with pytest.raises(TranscriptError, match=r"damaged\.db: this database cannot be read"):
        sevenfold.transcript(damaged)


def test_reading_a_database_changes_nothing_in_its_folder(tmp_path: Path) -> None:
    path = compacted_session().write(tmp_path / "data" / "opencode.db")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    state = path.stat()
    spoken(path)
    assert [file.name for file in path.parent.iterdir()] == ["opencode.db"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert path.stat().st_mtime_ns == state.st_mtime_ns


def test_what_is_only_in_the_write_ahead_log_is_read(tmp_path: Path) -> None:
    path = compacted_session().write(tmp_path / "opencode.db")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE session SET title = 'The keeper'")
        writer.commit()
        with sevenfold.transcript(path) as transcript:
            assert transcript.profile().title == "The keeper"
