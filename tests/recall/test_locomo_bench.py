"""The bench on LoCoMo on the smallest scale: that it runs, and says what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import locomo as bench
from sevenfold.recall import by_words, ranking
from tests.recall.test_locomo import QUESTIONS, sample


@pytest.mark.spec("S10.9")
def test_weights_are_chosen_on_the_other_conversations_and_pace_is_measured_next_to_plain_fts5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "RECORDS", 60)
    before = ranking.SPOKE, ranking.NEIGHBOUR_CREDIT, ranking.ENOUGH_IF_ASKED, by_words.TOO_COMMON
    path = tmp_path / "data.json"
    path.write_text(json.dumps([sample(QUESTIONS[:2]), sample(QUESTIONS[:2], ("Cleo", "Dan"))]))
    assert bench.main([str(path), "--key", str(path)]) in (0, 1)
    shown = capsys.readouterr().out
    assert "conversation 2: " in shown
    assert "left out, all: 4 questions" in shown
    assert "corrected key, all: 4 questions" in shown
    assert "hidden, all: " in shown
    assert "(chosen)" in shown
    assert "plain FTS5: R@10" in shown
    assert "p95 is" in shown
    assert before == (ranking.SPOKE, ranking.NEIGHBOUR_CREDIT, ranking.ENOUGH_IF_ASKED, by_words.TOO_COMMON)
