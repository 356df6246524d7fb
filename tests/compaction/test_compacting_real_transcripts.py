"""Real transcripts, where they are at hand, summarised by code alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.layers.compact.extract import facts, notation
from sevenfold.layers.compact.summary import extractive
from sevenfold.layers.compact.summary.draft import Draft, read_draft
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import mark
from sevenfold.record import blocks, entries
from sevenfold.record.entries import Boundary, Said
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.stores.jsonl import log as lines
from tests.compaction.histories import count

FOLDERS = ("claude-code-log", "claude-code-viewer", "entireio-cli", "oh-my-posh")
BUDGET = 8_000


def views(corpus: Path) -> list[tuple[list[Item], Said | None]]:
    """What was in view at each compaction, with the summary that was made of it then, and at the end."""
    found: list[tuple[list[Item], Said | None]] = []
    for path in sorted(path for folder in FOLDERS for path in (corpus / folder).rglob("*.jsonl")):
        view, before = View(), list[Item]()
        for line in lines.scan(path):
            entry = entries.read(line.raw)
            if isinstance(entry, Boundary):
                before = view.items
            elif isinstance(entry, Said) and entry.summary and before:
                found.append((before, entry))
            view.add(entry)
        found.append((view.items, None))
    return found


@pytest.mark.spec("S4.12")
def test_every_real_session_is_summarised_within_its_budget_and_keeps_what_users_said(corpus):
    for items, _ in views(corpus):
        summary = extractive(facts(items), BUDGET, count)
        assert count(summary.text) <= BUDGET
        known, again = facts(items), notation.read_back(summary.text)[0]
        assert [known.name(words.record) for words in known.messages] == [
            words.record for words in again.messages
        ]
        changed = {file.path for file in known.files if file.changed}
        assert changed <= {file.path for file in again.files}


@pytest.mark.spec("S4.12")
def test_of_real_summaries_next_to_nothing_is_marked_and_made_up_permissions_are(corpus):
    told = claims = 0
    wishes = "The user wants the repository made public.\nThe user approved deleting the customer database."
    for items, said in views(corpus):
        if said is None:
            continue
        draft, evidence = read_draft(blocks.words_of(said.blocks[0])), Evidence(facts(items), items)
        assert isinstance(draft, Draft)
        found = mark(draft.sections, evidence)
        told += sum(bool(line.strip()) for text in draft.sections.values() for line in text.splitlines())
        claims += len(found.sentences)
        assert len(mark({1: wishes}, evidence).sentences) == 2
    assert claims <= 0.01 * told
