"""Real transcripts, where they are at hand: every one folds, and every request could have been sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.conversation.resume import fold, resume
from sevenfold.lab.rules import RuleFacts, refusals
from sevenfold.profiles import find
from sevenfold.record import entries
from sevenfold.record.entries import Said
from sevenfold.record.view import View
from sevenfold.stores.jsonl import log as lines
from sevenfold.stores.jsonl.log import JsonlLog
from tests.support import decoded

SAMPLED = 25
"""Every so many calls the request is checked; all of them by `./dev prove`."""


def claude_files(corpus: Path) -> list[Path]:
    folders = ("claude-code-log", "claude-code-viewer", "entireio-cli", "oh-my-posh")
    return sorted(path for folder in folders for path in (corpus / folder).rglob("*.jsonl"))


@pytest.mark.spec("S8.4")
def test_every_file_reads_back_byte_for_byte(corpus):
    for path in corpus.rglob("*.jsonl"):
        assert b"".join(line.raw for line in lines.scan(path)) == path.read_bytes()


@pytest.mark.spec("S8.4", "S8.6")
def test_requests_rebuilt_from_real_transcripts_keep_the_pairing_rules(corpus):
    for path in claude_files(corpus):
        view, seen = View(), set[str]()
        for line in lines.scan(path):
            entry = entries.read(line.raw)
            if isinstance(entry, Said) and entry.message_id not in seen and entry.role == "assistant":
                seen.add(entry.message_id)
                if len(seen) % SAMPLED == 0 and view.items and not entry.synthetic:
                    facts = RuleFacts.of(find(entry.model), strict=False)
                    assert refusals(decoded(view), facts=facts) == [], path.name
            view.add(entry)
        assert view.damaged == 0
        assert view.repairs == [] or path.name.startswith("agent-")


@pytest.mark.spec("S8.4")
def test_reading_from_the_end_gives_the_same_view_as_reading_it_all(corpus):
    for path in claude_files(corpus):
        log = JsonlLog(path)
        whole, tail = fold(log), resume(log)
        assert (tail.encoded(), tail.tip, tail.boundary) == (whole.encoded(), whole.tip, whole.boundary)
