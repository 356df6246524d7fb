"""What an audit calls reachable is found on the page, by the search that the page makes for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from sevenfold.archive.audit import by_recall, compactions
from sevenfold.archive.fidelity import Probe, judge, sample, texts
from sevenfold.archive.log_reader import session_key
from sevenfold.archive.transcript import ArchivedSession
from sevenfold.memory.entry import new_entry
from sevenfold.session.factory import open_memory
from sevenfold.stores.home import user_home
from tests.archive.test_facts import worked
from tests.doors.test_inspector import client, folder, get, only, shelf
from tests.profile.making import Tape, text, usage

__all__ = ["client", "folder", "shelf"]


def reachable(path: Path) -> list[Probe]:
    """The facts of a session that an audit calls reachable."""
    archived = ArchivedSession(path)
    try:
        by_search = by_recall(archived.recall_index())
        facts: list[Probe] = []
        for moment in compactions(archived.log):
            probes = sample(moment.hidden, later_rounds_visible=moment.later_rounds_visible).probes
            states = judge(probes, texts(moment.after), by_search).states
            facts += [probe for probe, state in states if state == "reachable"]
        return facts
    finally:
        archived.close()


@pytest.mark.spec("S33.15")
def test_recall_on_the_page_finds_every_fact_that_an_audit_calls_reachable(
    client: TestClient, folder: Path
) -> None:
    tape = Tape(cwd="/projects/harbour")
    for number in range(3):
        worked(tape, number).compacted("Work on the harbour.")
    path = worked(tape, 3).save(folder / "s-1.jsonl")
    key = only(client)
    facts = reachable(path)
    assert len(facts) > 10

    listed: list[dict[str, Any]] = []
    for compaction in get(client, f"/api/s/{key}/compactions").json()["compactions"]:
        listed += compaction["reachable"]["facts"]
    assert sorted(fact["record"] for fact in listed) == sorted(fact.record for fact in facts)
    for fact in listed:
        asked = f"q={quote(fact['query'])}&kind={','.join(fact['sought'])}"
        hits = get(client, f"/api/s/{key}/recall?{asked}").json()["hits"]
        assert fact["record"] in [hit["record"] for hit in hits], fact


@pytest.mark.spec("S33.15")
def test_a_search_for_a_kind_that_there_is_not_says_which_there_are(client: TestClient) -> None:
    answer = get(client, f"/api/s/{only(client)}/recall?q=harbour&kind=verse")
    assert answer.status_code == 422
    assert "'verse' is not a kind of passage" in answer.json()["error"]


@pytest.mark.spec("S33.17")
def test_an_entry_of_memory_names_the_messages_it_rests_on_and_the_answers_that_used_it(
    client: TestClient, tmp_path: Path
) -> None:
    project = user_home().project(tmp_path / "project")
    log = project.session("talk").transcript
    log.parent.mkdir(parents=True)
    Tape().user("Money is rounded half up.").answer("m", usage(10), text("Half up.")).save(log)
    memory = open_memory(tmp_path / "project")
    entry = new_entry("rounding", "feedback", "Money is rounded half up.", "Half up.\n")
    memory.write(entry, "user", "said so")
    memory.count_use("rounding.md", helped=True, answer="talk/a0")
    memory.count_use("rounding.md", helped=False, answer="talk/a1")
    memory.count_use("rounding.md", helped=True, answer="gone/a2")

    (scope,) = get(client, "/api/memory").json()["scopes"]
    (shown,) = scope["entries"]
    assert (shown["used"], shown["helped"]) == (3, 2)
    assert shown["answers"] == [
        {"name": "gone", "record": "a2", "session": ""},
        {"name": "talk", "record": "a0", "session": session_key(log)},
    ]
