"""Documents in whole sessions: weighed, stored, cleared and stopped like the text that they hold."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from sevenfold.errors import ContextFull
from sevenfold.record.entries import Said
from tests.session.holding import LINE, Held, calls, scripted

BIG = LINE * 3_000


def stuck(held: Held) -> str:
    """Why the next request is not sent."""
    with pytest.raises(ContextFull) as raised:
        held.session.prepare()
    return str(raised.value)


def paper(text: str, shape: str = "text") -> dict[str, Any]:
    """A document that holds this text."""
    match shape:
        case "text":
            source: dict[str, Any] = {"type": "text", "media_type": "text/plain", "data": text}
        case "content":
            source = {"type": "content", "content": [{"type": "text", "text": text}]}
        case _:
            source = {"type": "content", "content": text}
    return {"type": "document", "source": source, "title": "The report"}


def pdf(pages: int) -> dict[str, Any]:
    data = b"%PDF-1.7\n" + b"<< /Type /Pages /Count %d >>\n" % pages + b"<< /Type /Page >>\n" * pages
    source = {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(data).decode()}
    return {"type": "document", "source": source}


@pytest.mark.spec("S21.2", "S1.1")
@pytest.mark.parametrize("shape", ["text", "content", "words"])
def test_a_document_in_a_result_is_stored_like_text(shape: str) -> None:
    held = scripted(calls("Shell"))
    held.session.user("Begin.")
    (call,) = held.ask().calls
    held.session.tool_results({call.id: [paper(BIG, shape)]})
    said = held.session.conversation.transcript.view.items[-1].record
    assert isinstance(said, Said)
    assert call.id in said.stored
    request = json.loads(held.session.prepare().body)
    assert len(json.dumps(request["messages"][-1])) < 5_000
    assert BIG[:500] in json.dumps(request["messages"][-1]).replace("\\n", "\n")
    assert BIG in held.session.fetch(call.id).decode()


@pytest.mark.spec("S21.2")
def test_pictures_inside_a_stored_document_are_still_shown() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    mixed = {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": BIG}, picture]},
    }
    held = scripted(calls("Shell"))
    held.session.user("Begin.")
    (call,) = held.ask().calls
    held.session.tool_results({call.id: [mixed]})
    shown = json.loads(held.session.prepare().body)["messages"][-1]["content"][0]["content"]
    assert [part["type"] for part in shown] == ["text", "image"]
    assert "<persisted-output>" in shown[0]["text"]


@pytest.mark.spec("S21.2", "S2.8")
@pytest.mark.parametrize("shape", ["text", "content", "words"])
def test_a_document_larger_than_the_window_is_not_sent(shape: str) -> None:
    held = scripted("Hello.", settings={"context_window": 200_000})
    held.session.user([paper(LINE * 40_000, shape), {"type": "text", "text": "Read it."}])
    assert "already exceed the limit" in stuck(held)


@pytest.mark.spec("S21.1", "S2.8")
def test_a_pdf_larger_than_the_window_is_not_sent() -> None:
    held = scripted("Hello.", settings={"context_window": 200_000})
    held.session.user([pdf(90), {"type": "text", "text": "Read it."}])
    assert "already exceed the limit" in stuck(held)


@pytest.mark.spec("S21.3")
def test_a_request_that_may_be_larger_than_the_window_is_not_sent_blind() -> None:
    held = scripted("Hello.", settings={"context_window": 30_000})
    files = [{"type": "document", "source": {"type": "file", "file_id": f"file_{n}"}} for n in range(8)]
    held.session.user([*files, {"type": "text", "text": "Read them."}])
    size = held.session.conversation.size()
    assert size.tokens < held.session.conversation.window.blocking < 30_000 < size.high
    with pytest.raises(ContextFull, match=r"next: |shorten"):
        held.session.prepare()
