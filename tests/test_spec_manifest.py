"""The manifest `docs/spec.toml` and the tests must agree about what is held and what is only planned.

Citations are read from the test files' syntax trees, without importing them, so a test that is skipped, or
whose imports are missing, still counts as what it is: a test somebody wrote for that fact.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
STATES = ("planned", "partial", "tested")


class Citation(NamedTuple):
    """One place where a test says which fact it holds."""

    fact: str
    place: str


def citations(source: str, name: str) -> list[Citation]:
    """Every id given to `pytest.mark.spec(…)` in a source text, wherever the mark stands."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.spec"):
            for argument in node.args:
                spelled = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
                found.append(Citation(str(spelled), f"{name}:{node.lineno}"))
    return found


def number(fact: str) -> tuple[int, int]:
    """`S4.10` as (4, 10), so that ids sort as they are read."""
    section, item = fact.removeprefix("S").split(".")
    return int(section), int(item)


OPEN = 15


def out_of_order(ids: list[str]) -> list[str]:
    """Ids that do not follow the one before them: the next item, or the first of the next section.

    Sections after `OPEN` are written side by side, so there may be gaps in and between them.
    """
    wrong = []
    before = (-1, 0)
    for fact in ids:
        section, item = number(fact)
        follows = (section, item) == (before[0], before[1] + 1)
        begins = item == 1 and section == before[0] + 1
        if section > OPEN:
            follows = section == before[0] and item > before[1]
            begins = section > before[0]
        if not (follows or begins):
            wrong.append(f"{fact} is out of order, doubled, or follows a gap")
        before = (section, item)
    return wrong


def ill_formed(fact: Mapping[str, str]) -> list[str]:
    """What is wrong with one entry taken by itself."""
    name, wrong = fact["id"], []
    if not fact.get("says", "").endswith("."):
        wrong.append(f"{name} does not say its fact in a sentence")
    if fact.get("state") not in STATES:
        wrong.append(f"{name} has the state {fact.get('state')!r}; it must be one of {', '.join(STATES)}")
    if (fact.get("state") == "partial") != fact.get("missing", "").endswith("."):
        wrong.append(f"{name}: a sentence in `missing` and the state partial go together")
    if unknown := set(fact) - {"id", "says", "state", "missing"}:
        wrong.append(f"{name} has unknown keys: {', '.join(sorted(unknown))}")
    return wrong


def disagreements(facts: Iterable[Mapping[str, str]], cited: Iterable[Citation]) -> list[str]:
    """Where the manifest and the tests contradict each other."""
    states = {fact["id"]: fact["state"] for fact in facts}
    places: dict[str, list[str]] = {}
    for fact, place in cited:
        places.setdefault(fact, []).append(place)
    wrong = [
        f"{fact} is cited at {', '.join(where)} but is not in the manifest"
        for fact, where in places.items()
        if fact not in states
    ]
    for fact, state in states.items():
        if state == "planned" and fact in places:
            wrong.append(f"{fact} is marked planned, yet {', '.join(places[fact])} cites it")
        if state != "planned" and fact not in places:
            wrong.append(f"{fact} is marked {state}, yet no test cites it")
    return wrong


@pytest.fixture(scope="module")
def facts() -> list[dict[str, str]]:
    """The manifest's entries in the order of the file."""
    entries = tomllib.loads((ROOT / "docs" / "spec.toml").read_text(encoding="utf-8"))["fact"]
    assert isinstance(entries, list)
    return entries


@pytest.fixture(scope="module")
def cited() -> list[Citation]:
    """Every citation in the tests of this project."""
    return [
        citation
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for citation in citations(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    ]


def test_every_fact_is_listed_once_and_in_order(facts: list[dict[str, str]]) -> None:
    ids = [fact["id"] for fact in facts]
    assert not out_of_order(ids)


def test_every_fact_is_a_sentence_with_a_known_state(facts: list[dict[str, str]]) -> None:
    wrong = [complaint for fact in facts for complaint in ill_formed(fact)]
    assert not wrong, "\n".join(wrong)


def test_the_manifest_and_the_tests_agree(facts: list[dict[str, str]], cited: list[Citation]) -> None:
    wrong = disagreements(facts, cited)
    assert not wrong, "\n".join(wrong)


PLANTED = [
    {"id": "S0.1", "says": "One.", "state": "tested"},
    {"id": "S0.2", "says": "Two.", "state": "planned"},
    {"id": "S1.1", "says": "Three.", "state": "partial", "missing": "Half."},
]


def test_marks_are_found_on_functions_classes_modules_and_parameters() -> None:
    source = """
import pytest
from pytest import mark
pytestmark = pytest.mark.spec("S0.1")

@mark.spec("S0.2", "S0.3")
class TestIt:
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("S1.1"))])
    async def test_it(self, x): ...

@pytest.mark.spec(computed())
def test_other(): "S9.9"
"""
    found = {citation.fact for citation in citations(source, "here.py")}
    assert found == {"S0.1", "S0.2", "S0.3", "S1.1", "computed()"}


@pytest.mark.parametrize(
    ("cited_facts", "complaint"),
    [
        (["S0.1", "S1.1", "S7.7"], "S7.7 is cited at t.py:1 but is not in the manifest"),
        (["S1.1"], "S0.1 is marked tested, yet no test cites it"),
        (["S0.1"], "S1.1 is marked partial, yet no test cites it"),
        (["S0.1", "S0.2", "S1.1"], "S0.2 is marked planned, yet t.py:1 cites it"),
    ],
)
def test_a_manifest_out_of_step_with_the_tests_is_reported(cited_facts: list[str], complaint: str) -> None:
    assert disagreements(PLANTED, [Citation(fact, "t.py:1") for fact in cited_facts]) == [complaint]


def test_a_manifest_in_step_with_the_tests_is_accepted() -> None:
    assert disagreements(PLANTED, [Citation("S0.1", "t.py:1"), Citation("S1.1", "t.py:2")]) == []


@pytest.mark.parametrize(
    "ids", [["S0.1", "S0.1"], ["S0.1", "S0.3"], ["S0.2"], ["S0.1", "S2.1"], ["S0.1", "S1.2"]]
)
def test_a_doubled_misplaced_or_missing_id_is_reported(ids: list[str]) -> None:
    assert out_of_order(ids)


@pytest.mark.parametrize(
    "change",
    [
        {"says": "no full stop"},
        {"state": "done"},
        {"state": "partial"},
        {"missing": "Half."},
        {"note": "x"},
    ],
)
def test_an_entry_that_is_not_well_formed_is_reported(change: dict[str, str]) -> None:
    assert ill_formed({**PLANTED[1], **change})
