"""`sevenfold eval locomo` on made-up conversations in the shape of the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.cli.main import main
from sevenfold.errors import InputError
from sevenfold.lab import locomo

TURNS = [
    ("Ada", "We moored the ferry at the northern pier this morning."),
    ("Ben", "Did the new winch hold?"),
    ("Ada", "It did, and the harbour master was pleased."),
    ("Ben", "My sister has bought a lighthouse in Norway."),
    ("Ada", "A lighthouse! Does she live in it?"),
]


def sample(questions: list[tuple[str, list[str], int]], names: tuple[str, str] = ("Ada", "Ben")) -> Any:
    said = [
        {"speaker": names[place % 2], "dia_id": f"D1:{place + 1}", "text": text}
        for place, (_, text) in enumerate(TURNS)
    ]
    return {
        "conversation": {"session_1": said, "session_1_date_time": "1:56 pm on 8 May, 2023"},
        "qa": [
            {"question": text, "evidence": evidence, "category": category}
            for text, evidence, category in questions
        ],
    }


QUESTIONS = [
    ("Where did Ada moor the ferry?", ["D1:1"], 4),
    ("Who has bought a lighthouse in Norway, and does she live in it?", ["D1:4; D1:05"], 1),
    ("What is the wavelength of helium lasers?", ["D9:99"], 5),
    ("A question that nothing is said to answer", [], 5),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.json"
    path.write_text(json.dumps([sample(QUESTIONS)]))
    return path


@pytest.mark.spec("S10.9")
def test_the_figures_are_the_shares_of_the_evidence_found(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "locomo", "--data", str(data), "--by", "words", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["questions"] == 3
    assert report["recall"] == {"5": 66.7, "10": 66.7, "25": 66.7}
    assert report["by_category"]["multi-hop"]["recall"]["5"] == 100.0
    assert report["by_category"]["adversarial"]["recall"]["25"] == 0.0
    low, high = report["interval"]["10"]
    assert low <= 66.7 <= high


@pytest.mark.spec("S10.9")
def test_a_corrected_key_takes_the_place_of_the_evidence(data: Path, tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps([sample([(QUESTIONS[0][0], ["D1:2"], 4)])]))
    [dialogue] = locomo.read(data, key)
    assert [(one.text, set(one.evidence)) for one in dialogue.questions] == [(QUESTIONS[0][0], {"D1:2"})]


@pytest.mark.spec("S10.9")
def test_what_is_still_in_the_context_is_neither_searched_nor_asked_for(data: Path) -> None:
    report = locomo.measure(locomo.read(data), "words", only_hidden=True)
    assert report.by_category["multi-hop"].recall["5"] == 100.0
    assert report.questions == 3


@pytest.mark.spec("S10.9")
def test_questions_about_another_conversation_are_asked_under_the_names_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.json"
    strange = [("What did Cleo say about wavelengths of helium lasers?", ["D1:1"], 4)]
    path.write_text(json.dumps([sample(QUESTIONS[:1]), sample(strange, ("Cleo", "Dan"))]))
    assert main(["eval", "locomo", "--data", str(path), "--by", "words", "--strangers"]) == 0
    assert "50.0% of questions about other conversations got an answer" in capsys.readouterr().out


def test_a_file_of_another_shape_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    for content in ("{}", "[1]", '{"qa": []}', "no json"):
        path.write_text(content)
        with pytest.raises(InputError, match=r"other\.json"):
            locomo.read(path)
