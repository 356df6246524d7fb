"""Codex rollouts in every command that reads a session: converted on reading, their files untouched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.formats import open_log
from sevenfold.archive.readers.codex import KNOWN_TYPES, convert
from sevenfold.conversation.history import whole
from sevenfold.conversation.resume import resume
from sevenfold.record import entries
from sevenfold.record.authorship import users_words
from sevenfold.record.entries import Damaged
from sevenfold.stores.jsonl.log import JsonlLog
from tests.commands.recorded import ran
from tests.profile.making import Rollout

Capsys = pytest.CaptureFixture[str]
KEYS = (
    *(
        "role",
        "content",
        "text",
        "output",
        "arguments",
        "call_id",
        "name",
        "info",
        "message",
        "image_url",
        "action",
    ),
    *(
        "replacement_history",
        "encrypted_content",
        "summary",
        "metadata",
        "exit_code",
        "total_token_usage",
        "id",
    ),
)
TYPES = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "web_search_call",
    "token_count",
    "input_image",
)
WISH = "Never let the ferry leave before the tide table says 07:40."
AGREED = "yes, drop the table old_moorings, it is empty"


def words(role: str, said: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": said}]}


def heard(rollout: Rollout, said: str) -> None:
    rollout.record("response_item", **words("user", said))
    rollout.record("event_msg", type="user_message", message=said)


def work(rollout: Rollout, number: int, output: str = "Process exited with code 0\nOutput:\nfine") -> None:
    given = json.dumps({"cmd": f"cat pier{number}.txt"})
    rollout.item("function_call", name="exec_command", arguments=given, call_id=f"c{number}")
    rollout.count(prompt=9_000 + number, output=20)
    rollout.item("function_call_output", call_id=f"c{number}", output=output)


def begun() -> Rollout:
    rollout = Rollout().record("session_meta", id="5e551011", cwd="/harbour", cli_version="0.118.0")
    rollout.record("turn_context", model="gpt-5.4")
    rollout.record(
        "response_item", **words("developer", "<permissions instructions>Ask.</permissions instructions>")
    )
    rollout.record("response_item", **words("user", "<environment_context>zsh</environment_context>"))
    heard(rollout, WISH)
    rollout.item("reasoning", summary=[], encrypted_content="x" * 80, id="rs_1")
    rollout.record("response_item", **words("assistant", "I look at the ferry first."))
    work(rollout, 1)
    work(rollout, 2, "Process exited with code 2\nOutput:\npier2.txt: no such berth")
    rollout.record(
        "response_item", **words("user", "<brand_new_notice>Forty gulls circle.</brand_new_notice>")
    )
    patch = "*** Begin Patch\n*** Update File: quay.py\n-a\n+b\n*** End Patch"
    rollout.item("custom_tool_call", name="apply_patch", input=patch, call_id="p1")
    rollout.item(
        "custom_tool_call_output", call_id="p1", output=json.dumps({"output": "ok", "metadata": {}})
    )
    rollout.record("response_item", **words("assistant", "Shall I drop the table old_moorings?"))
    rollout.count(prompt=12_000, output=30)
    heard(rollout, AGREED)
    rollout.record("response_item", **words("assistant", "Dropped."))
    return rollout.count(prompt=12_100, output=10)


def compacted(summary: str = "We dropped a table.") -> Rollout:
    begins = "Another language model started to solve this problem and produced a summary of its work:"
    rollout, said = begun(), words("user", f"{begins}\n{summary}")
    history = [words("user", WISH), said, {"type": "compaction", "encrypted_content": "sealed"}]
    rollout.record("compacted", message="", replacement_history=history)
    heard(rollout, "And now the lighthouse.")
    rollout.record("response_item", **words("assistant", "On my way."))
    return rollout.count(prompt=4_000, output=10)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return compacted().save(tmp_path / "rollout-2026-11-01-5e551011.jsonl")


@pytest.mark.spec("S10.7")
def test_the_users_words_are_the_messages_the_user_typed(session: Path) -> None:
    said = [found for item in whole(open_log(session)).items if (found := users_words(item.record))]
    assert said == [WISH, AGREED, WISH, "And now the lighthouse."]


@pytest.mark.spec("S10.4")
@pytest.mark.parametrize("events", [True, False])
def test_what_an_editor_or_codex_itself_sends_along_is_not_the_users(events: bool, tmp_path: Path) -> None:
    rollout = Rollout().record("session_meta", id="5e551011", cwd="/harbour")
    sent_along = "# AGENTS.md instructions for /harbour\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"
    rollout.record("response_item", **words("user", sent_along))
    shown = "# Context from my IDE setup:\n\n## Active file: quay.py\n\n## My request for Codex:\n"
    shell = "<user_shell_command>\n<command>\nls pier\n</command>\n<result>\nboat\n</result>\n</user_shell_command>"
    for said in (f"{shown}{WISH}", shell):
        rollout.record("response_item", **words("user", said))
        if events and said != shell:
            rollout.record("event_msg", type="user_message", message=said)
    items = whole(open_log(rollout.save(tmp_path / "r.jsonl"))).items
    assert [found for item in items if (found := users_words(item.record))] == [WISH, "! ls pier"]


@pytest.mark.spec("S10.7")
def test_calls_have_their_results_and_an_answer_its_usage(tmp_path: Path) -> None:
    view = whole(open_log(begun().save(tmp_path / "r.jsonl")))
    assert view.repairs == []
    assert [item.record.usage.prompt for item in view.items if item.record.usage][-1] == 12_100
    failed = [
        block.id for item in view.items for block in item.record.blocks if b'"is_error":true' in block.raw
    ]
    assert failed == ["c2"]


@pytest.mark.spec("S10.7")
def test_after_a_compaction_the_model_sees_what_replaced_the_history(session: Path) -> None:
    items = resume(open_log(session)).items
    assert items[0].record.summary
    assert [block.kind for block in items[0].record.blocks] == ["text", "compaction"]
    assert [users_words(item.record) for item in items[1:3]] == [WISH, "And now the lighthouse."]


@pytest.mark.spec("S10.7")
def test_the_same_lines_give_the_same_records(session: Path) -> None:
    lines = session.read_bytes().splitlines(keepends=True)
    assert list(convert(lines)) == list(convert(lines))
    names = [json.loads(line)["uuid"] for line in convert(lines)]
    assert len(set(names)) == len(names)


@pytest.mark.spec("S10.7")
def test_recall_finds_what_left_the_context(session: Path, capsys: Capsys) -> None:
    done = ran(capsys, "recall", session, "drop the table old_moorings", "--kind", "user", "--json")
    assert [AGREED in hit["excerpt"] for hit in json.loads(done.out)["hits"]] == [True]
    assert ran(capsys, "recall", session, "forty gulls", "--kind", "user", "--all").code == 1
    assert ran(capsys, "recall", session, "quay.py", "--kind", "edit").code == 0


@pytest.mark.spec("S10.7")
@pytest.mark.parametrize(
    ("summary", "invented"),
    [(f'The user said: "{AGREED}".', 0), ("The user approved deleting the production database.", 1)],
)
def test_the_audit_knows_what_the_user_said(
    summary: str, invented: int, tmp_path: Path, capsys: Capsys
) -> None:
    path = compacted(summary).save(tmp_path / "r.jsonl")
    found = json.loads(ran(capsys, "audit", path, "--json").out)
    assert found["total"]["boundaries"] == 1
    assert found["total"]["invented"] == invented
    assert found["boundaries"][0]["by_kind"]["preference"]["in_context"] == 1


@pytest.mark.spec("S10.7", "S10.8")
@pytest.mark.parametrize(("said_before", "invented"), [(True, 0), (False, 1)])
def test_an_answer_that_a_compaction_keeps_whole_is_none_of_its_inventions(
    said_before: bool, invented: int, tmp_path: Path, capsys: Capsys
) -> None:
    rollout, answer = begun(), words("assistant", "The user approved deleting the production database.")
    if said_before:
        rollout.record("response_item", **answer)
    rollout.record("compacted", message="", replacement_history=[words("user", WISH), answer])
    heard(rollout, "And now the lighthouse.")
    found = ran(capsys, "audit", rollout.save(tmp_path / "r.jsonl"), "--json")
    assert json.loads(found.out)["total"]["invented"] == invented


@pytest.mark.spec("S10.7")
def test_a_compaction_is_a_new_file_of_our_own_format(session: Path, capsys: Capsys) -> None:
    before = session.read_bytes()
    refused = ran(capsys, "compact", session, "--in-place")
    assert (refused.code, "only read" in refused.err) == (2, True)
    done = ran(capsys, "compact", session)
    assert done.code == 0
    assert session.read_bytes() == before
    written = session.with_name(f"{session.stem}-compacted.jsonl")
    view = resume(JsonlLog(written))
    assert view.boundary is not None
    assert WISH in written.read_text().partition("compact_boundary")[2]
    assert json.loads(ran(capsys, "audit", written, "--json").out)["total"]["lost"] == 0


@pytest.mark.spec("S10.7")
def test_notes_are_taken_of_a_rollout(session: Path, capsys: Capsys) -> None:
    before = session.read_bytes()
    done = ran(capsys, "notes", session, "--update", "--json")
    assert (done.code, json.loads(done.out)["session"]) == (0, "5e551011")
    assert session.read_bytes() == before


@pytest.mark.spec("S10.7")
def test_a_session_of_codex_is_found_by_its_id(
    session: Path, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".codex" / "sessions" / "2026" / "11" / "01"
    folder.mkdir(parents=True)
    session.rename(folder / session.name)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ran(capsys, "recall", "5e551011", "old_moorings").code == 0


@pytest.mark.spec("S10.7")
def test_damaged_lines_of_a_rollout_stop_nothing(tmp_path: Path, capsys: Capsys) -> None:
    rollout = begun()
    rollout.lines[5:5] = ["{torn", '{"timestamp":"t","type":"response_item","payload":7}', "[]", ""]
    rollout.item("message", role="user", content=7)
    rollout.item("function_call", name=None, arguments="{no json", call_id="q")
    rollout.record("compacted", message="so far", replacement_history="no list")
    path = rollout.save(tmp_path / "r.jsonl")
    assert ran(capsys, "recall", path, "ferry", "--all").code == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.spec("S10.7")
@given(st.lists(st.tuples(st.sampled_from(sorted(KNOWN_TYPES)), st.sampled_from(TYPES), JSON), max_size=6))
def test_whatever_payloads_hold_every_line_is_a_record(lines: list[tuple[str, str, Any]]) -> None:
    rollout = Rollout()
    for kind, inner, payload in lines:
        fields = payload if isinstance(payload, dict) else {"content": payload}
        rollout.record(kind, **{**fields, "type": inner})
    for line in convert(line.encode() + b"\n" for line in rollout.lines):
        assert not isinstance(entries.read(line), Damaged)
