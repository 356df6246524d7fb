"""What a session is known by in a list of sessions, and that every compaction writes it down again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.cli.chat.history import title
from sevenfold.conversation.resume import resume
from sevenfold.record import entries
from sevenfold.record.entries import Label
from sevenfold.record.log import LABEL_FIELDS, LONGEST_LABEL, shorten_label
from sevenfold.stores.jsonl.log import JsonlLog
from tests.agent.working import agent, async_agent

pytestmark = pytest.mark.spec("S4.10")

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

LONG = "Something that was said and need not be said again. " * 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    made = tmp_path / "work"
    made.mkdir()
    return made


def records(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def behind_the_last_boundary(path: str) -> dict[str, str]:
    """The labels somebody finds who reads backwards and stops at a boundary."""
    found: dict[str, str] = {}
    for record in reversed(records(path)):
        if record.get("subtype") == "compact_boundary":
            break
        if record["type"] in LABEL_FIELDS:
            found.setdefault(record["type"], record[LABEL_FIELDS[record["type"]]])
    return found


def test_without_a_title_the_first_words_are_one_through_ten_compactions(folder: Path) -> None:
    with agent(["Hm. " + LONG] * 40, folder, name="s") as made:
        made.run(f"Mend   the\npipe. {LONG}")
        path = made.assembly.store.path
        for number in range(10):
            made.session.compact(engine="extractive")
            known = behind_the_last_boundary(path)
            assert known["ai-title"].startswith("Mend the pipe. Something")
            assert len(known["ai-title"]) <= LONGEST_LABEL
            expected = "Mend the pipe." if number == 0 else f"Part {number - 1}."
            assert known["last-prompt"].startswith(expected)
            made.run(f"Part {number}. {LONG}")
        assert made.session.title.startswith("Mend the pipe.")


def test_the_users_own_title_counts_and_comes_back_in_the_next_process(folder: Path) -> None:
    with agent(["Hm. " + LONG] * 3, folder, name="s") as made:
        made.run(f"Mend the pipe. {LONG}")
        made.session.title = "Plumbing"
        made.session.title = "Plumbing"
        made.session.compact(engine="extractive")
        path = made.assembly.store.path
    assert behind_the_last_boundary(path)["custom-title"] == "Plumbing"
    assert [record.get("customTitle") for record in records(path)].count("Plumbing") == 2
    assert title(Path(path)) == "Plumbing"
    with agent([], folder, name="s") as made:
        assert made.session.title == "Plumbing"


async def _titled(folder: Path) -> str:
    made = async_agent(["Hm."], folder)
    made.session.title = "Awaited"
    found = made.session.title
    await made.close()
    return found


def test_it_can_be_set_from_both_worlds(folder: Path) -> None:
    assert asyncio.run(_titled(folder)) == "Awaited"


def test_a_listing_that_reads_only_the_end_of_a_large_file_finds_it(folder: Path) -> None:
    with agent(["Hm. " + LONG] * 4, folder, name="s") as made:
        made.session.title = "A long story"
        made.run("x " * 400_000)
        path = Path(made.assembly.store.path)
        assert title(path).startswith("x x x")
        made.session.compact(engine="extractive")
    assert title(path) == "A long story"


def test_notes_give_a_session_their_title(folder: Path) -> None:
    settings = {"notes": True, "compact_window": 30_000}
    with agent([LONG * 10] * 12, folder, settings=settings) as made:
        for number in range(4):
            made.run(f"Part {number}. {LONG * 10}")
            made.session.settle()
        notes = made.session.notes()
        assert notes
        assert made.session.title
        assert made.session.title in " ".join(notes.split())


@pytest.mark.parametrize(
    ("record", "label"),
    [
        ({"type": "ai-title", "aiTitle": "A", "sessionId": "s"}, Label("ai-title", "A")),
        ({"type": "custom-title", "customTitle": "B", "sessionId": "s"}, Label("custom-title", "B")),
        ({"type": "summary", "summary": "C", "leafUuid": "x"}, Label("summary", "C")),
        (
            {"type": "last-prompt", "lastPrompt": "D", "leafUuid": "x", "sessionId": "s"},
            Label("last-prompt", "D"),
        ),
        ({"type": "ai-title"}, Label("ai-title", "")),
    ],
)
@pytest.mark.spec("S8.4")
def test_the_labels_of_other_tools_are_understood(record: dict[str, str], label: Label) -> None:
    assert entries.read(json.dumps(record).encode()) == label


@pytest.mark.spec("S8.4")
def test_what_is_written_has_the_shapes_of_other_tools(folder: Path) -> None:
    with agent(["Hm. " + LONG], folder, name="s") as made:
        made.run(f"Begin. {LONG}")
        made.session.title = "T"
        made.session.compact(engine="extractive")
        path = made.assembly.store.path
    written = {record["type"]: record for record in records(path)}
    assert written["custom-title"].keys() == {"type", "customTitle", "sessionId"}
    assert written["last-prompt"].keys() == {"type", "lastPrompt", "leafUuid", "sessionId"}
    uuids = {record.get("uuid") for record in records(path)}
    assert written["last-prompt"]["leafUuid"] in uuids
    assert resume(JsonlLog(Path(path))).labels["custom-title"] == "T"


def test_no_secret_leaves_the_message_it_was_said_in_not_even_a_part_of_it(folder: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with agent(["Hm. " + LONG], folder, name="s") as made:
        made.run(f"Use {token} to push. {LONG}")
        made.session.compact(engine="extractive")
        known = behind_the_last_boundary(made.assembly.store.path)
        assert known["ai-title"].startswith("Use [masked ")
        assert token[:8] not in json.dumps(known)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("  one\n two ", "one two"),
        ("word " * 100, "word " * 39 + "word …"),
        ("x" * 300, ""),
        ("", ""),
    ],
)
def test_a_label_is_one_line_of_whole_words(words: str, shown: str) -> None:
    assert shorten_label(words) == shown
    assert len(shown) <= LONGEST_LABEL + 2
