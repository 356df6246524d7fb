"""A block that the provider refuses is sent as text from then on, so that no session is stuck with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from bench.foreign_logs import IMAGE
from sevenfold.errors import RequestRefused
from sevenfold.events import Event, Repaired
from sevenfold.lab.rules import RuleFacts, refusals
from tests.session.talking import ALONE, TOOLS, alone, calling, fake_reply, hear, said

pytestmark = pytest.mark.spec("S21.13")

WHY = "Could not process image"


def refusal(path: str, why: str = WHY) -> RequestRefused:
    """The Messages API's refusal of the block at this path."""
    return RequestRefused(f"https://api.example: {path}: {why}", status=400)


def opened(file: Path, model: str = "claude-opus-4-6", **more: Any) -> sevenfold.Session:
    options: dict[str, Any] = {"tools": TOOLS, "max_tokens": 4_000, "settings": ALONE}
    return sevenfold.Session.open("s", file=file, model=model, **options, **more)


def refused(session: sevenfold.Session, path: str, why: str = WHY) -> bool:
    """The next request is refused because of the block at this path; whether another one may help."""
    assert session.prepare().body
    return session.failed(refusal(path, why))


def kinds(body: bytes) -> list[list[str]]:
    return [[block["type"] for block in message["content"]] for message in said(body)]


def test_a_picture_that_cannot_be_read_becomes_a_note_and_the_session_goes_on(tmp_path: Path) -> None:
    told: list[Event] = []

    def listen(event: Event) -> None:
        told.append(event)

    file = tmp_path / "s.jsonl"
    with opened(file, listen=[listen]) as session:
        session.user([{"type": "text", "text": "What is this?"}, IMAGE, IMAGE])
        assert kinds(session.prepare().body) == [["text", "image", "image"]]
        assert refused(session, "messages.0.content.1.image.source.base64.data")
        body = session.prepare().body
        assert kinds(body) == [["text", "text", "image"]]
        assert f"[A picture that the provider could not take: {WHY}]" in json.dumps(said(body))
        assert [event.what for event in told if isinstance(event, Repaired)] == ["refused_block"]
        hear(session, fake_reply({"type": "text", "text": "A cat."}))
    with opened(file) as session:
        session.user("And now?")
        assert kinds(session.prepare().body)[0] == ["text", "text", "image"]
        first = session.conversation.transcript.view.items[0].record
        assert [block.kind for block in first.blocks] == ["text", "image", "image"]
        # Nor does the provider take it when the user goes back to before the decision.
        session.rewind(first.uuid)
        assert kinds(session.prepare().body) == [["text", "text", "image"]]


def test_a_picture_in_a_result_becomes_a_note_and_the_call_keeps_its_result() -> None:
    with alone() as session:
        session.user("Look.")
        hear(session, fake_reply(calling("toolu_1"), stop_reason="tool_use"))
        session.tool_results({"toolu_1": [{"type": "text", "text": "a screenshot"}, IMAGE]})
        assert refused(session, "messages.2.content.0.tool_result.content.1.image.source.base64.data")
        body = session.prepare().body
        [result] = said(body)[2]["content"]
        assert result["tool_use_id"] == "toolu_1"
        assert [part["type"] for part in result["content"]] == ["text", "text"]
        assert result["content"][0]["text"] == "a screenshot"
        assert not refusals(said(body), facts=RuleFacts())


def test_a_result_with_a_field_of_damage_is_sent_as_text_that_holds_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with opened(file) as session:
        session.user("Look.")
        hear(session, fake_reply(calling("toolu_1"), stop_reason="tool_use"))
        session.tool_results({"toolu_1": "the tide turns at 07:40"})
        session.prepare()
    file.write_bytes(file.read_bytes().replace(b'"content":"the tide', b'"contnt":"the tide'))
    with opened(file) as session:
        assert refused(session, "messages.2.content.0.tool_result.contnt", "Extra inputs are not permitted")
        body = session.prepare().body
        assert b"the tide turns at 07:40" in body
        assert "contnt" not in said(body)[2]["content"][0]
        assert not refusals(said(body), facts=RuleFacts())


def test_a_text_with_a_field_that_is_none_is_sent_as_text_that_holds_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with opened(file) as session:
        session.user("Look at the tide table.")
        session.prepare()
    file.write_bytes(file.read_bytes().replace(b'table."}', b'table.","inputt":{"path":"a.py"}}'))
    with opened(file) as session:
        assert refused(session, "messages.0.content.0.text.inputt", "Extra inputs are not permitted")
        [block] = said(session.prepare().body)[0]["content"]
        assert set(block) - {"cache_control"} == {"type", "text"}
        assert "tide table" in block["text"]
        assert "a.py" in block["text"]


def test_a_call_that_is_refused_leaves_its_result_as_text() -> None:
    with alone() as session:
        session.user("Look.")
        hear(session, fake_reply(calling("toolu_1"), stop_reason="tool_use"))
        session.tool_results({"toolu_1": "found"})
        assert refused(session, "messages.1.content.0.tool_use.name", "String should match pattern")
        body = session.prepare().body
        assert not refusals(said(body), facts=RuleFacts())
        assert b"found" in body


@pytest.mark.parametrize(
    "path",
    [
        "messages.0.content.0.text",
        "messages.0.content.9",
        "messages.7.content.0",
        "system.0",
        "tools.0.name",
    ],
)
def test_a_refusal_that_names_no_block_that_could_be_replaced_changes_nothing(path: str) -> None:
    with alone() as session:
        session.user([{"type": "text", "text": "What is this?"}, IMAGE])
        before = session.prepare().body
        assert not session.failed(refusal(path))
        assert session.prepare().body == before


def test_each_block_is_replaced_once_and_a_server_that_refuses_everything_consumes_no_session() -> None:
    with alone() as session:
        session.user([IMAGE] * 30)
        assert refused(session, "messages.0.content.0")
        assert not refused(session, "messages.0.content.0")
        more = [refused(session, f"messages.0.content.{number}") for number in range(1, 30)]
        assert sum(more) == 19


def test_thinking_that_is_bound_to_the_block_goes_too(tmp_path: Path) -> None:
    with opened(tmp_path / "s.jsonl", "claude-sonnet-5-5") as session:
        session.user([{"type": "text", "text": "What is this?"}, IMAGE])
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        hear(session, fake_reply(thought, {"type": "text", "text": "A cat."}))
        session.user("Sure?")
        assert refused(session, "messages.0.content.1.image.source")
        assert kinds(session.prepare().body) == [["text", "text"], ["text"], ["text"]]
