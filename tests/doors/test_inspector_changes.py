"""Who changed what between two requests of a session of our own, as the inspector says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sevenfold.archive.ledger import LedgerEntry
from sevenfold.archive.sessions import StoredSession
from sevenfold.doors.inspector.request_view import bytes_view, request_view, who_changed
from sevenfold.doors.inspector.shelf import OpenSession
from sevenfold.lab.simulator.brains import EchoBrain
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.session.session import Session

pytestmark = pytest.mark.spec("S33.14")


def tools(description: str) -> list[dict[str, Any]]:
    texts = {"read": "It reads. " * 600, "write": description, "search": "It searches. " * 600}
    return [
        {"name": name, "description": text, "input_schema": {"type": "object", "properties": {}}}
        for name, text in texts.items()
    ]


def test_a_changed_tool_is_named_with_who_changed_it_and_the_price(tmp_path: Path) -> None:
    file = tmp_path / "work.jsonl"
    with serve(Simulator(EchoBrain())) as url:
        client = AnthropicClient(api_key="simulated-key", base_url=url, max_retries=0)
        for description in ("It writes. " * 100, "It writes, and tells. " * 100):
            with Session.open(
                "work",
                model="claude-opus-4-6",
                file=file,
                folder=tmp_path,
                client=client,
                tools=tools(description),
            ) as session:
                for number in range(2):
                    session.user(f"Question {number}: " + "why? " * 50)
                    session.complete()
        client.close()
    opened = OpenSession("k", StoredSession.of(file, "Sevenfold"))
    opened.catch_up()
    try:
        page = request_view(opened, 3)
        exact = bytes_view(opened, 3)
        unchanged = bytes_view(opened, 2)
    finally:
        opened.close()
    assert page is not None
    assert page["break"]["words"] == "changed tools"
    assert page["break"]["usd"] > 0
    assert exact is not None
    assert exact["comparison"]["part"] == "tool write"
    assert exact["comparison"]["usd"] > 0
    assert "the program that opened the session" in exact["comparison"]["who"]
    assert unchanged is not None
    assert not unchanged["comparison"]["breaks"]


@pytest.mark.parametrize(
    ("kinds", "who"),
    [
        (["change"], "the program that was watched"),
        (["clearing", "epoch"], "a decision on record: clearing"),
        (["epoch"], "began anew: clear"),
        ([], ""),
    ],
)
def test_who_changed_a_request_is_told_from_what_was_decided_before_it(kinds: list[str], who: str) -> None:
    entries = [LedgerEntry(kind, 3, kind.title(), "clear, claude-opus-4-6") for kind in kinds]
    told = who_changed(entries, "messages")
    assert who in told
    assert bool(told) == bool(who)
