"""Recall on a few of the conversations of our own; all of them are a point of `./dev prove`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import own_recall
from sevenfold.cli.main import main


@pytest.mark.spec("S20.8")
def test_recall_by_words_finds_no_less_than_plain_search_and_abstains_from_questions_about_nothing() -> (
    None
):
    every = own_recall.read()[:8]
    plain = own_recall.measure(own_recall.by_fts5, every)
    found = own_recall.measure(own_recall.by_recall(()), every)
    for half in (0, 1):
        assert found[half].recall >= plain[half].recall
        assert found[half].answered <= own_recall.MOST_ANSWERED < plain[half].answered


@pytest.mark.spec("S20.8")
def test_the_command_reports_abstention_beside_recall(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.json"
    assert own_recall.main(["--write", str(path)]) == 0
    path.write_text(json.dumps(json.loads(path.read_text())[:2]))
    assert main(["eval", "locomo", "--data", str(path), "--by", "words", "--strangers", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["sure_recall"]["10"] <= report["recall"]["10"]
    assert 0 <= report["answered_without_evidence"] <= 100
    assert main(["eval", "locomo", "--data", str(path), "--by", "words", "--strangers"]) == 0
    assert "recall said that nothing matches well" in " ".join(capsys.readouterr().out.split())
