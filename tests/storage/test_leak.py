"""Masking one secret in bytes: wherever and however it is written, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.archive.upkeep.secrets import Leak
from sevenfold.errors import InputError
from tests.redaction.making import ALONE, Maker

SECRET = 'p\u00e4ss"w/rd\\\n\U0001f511 12'
LEAK = Leak(SECRET)


def _escaped_at_will(text: str, chance: list[bool]) -> str:
    """A JSON string in which some characters are written as numbers, as the choices say."""
    parts = []
    for place, letter in enumerate(text):
        if chance[place % len(chance)]:
            units = letter.encode("utf-16-be").hex()
            parts += [f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)]
        else:
            parts.append(json.dumps(letter, ensure_ascii=False)[1:-1])
    return '"' + "".join(parts) + '"'


def test_the_mask_names_the_kind_if_the_secret_has_one():
    assert Leak(ALONE["github-token"](Maker())).mask.startswith("[masked github-token ")
    assert LEAK.mask.startswith("[masked secret ")


def test_a_short_secret_is_refused():
    with pytest.raises(InputError, match="by chance"):
        Leak("1234567")


TEXTS = st.lists(st.one_of(st.just(SECRET), st.text(alphabet='ap"\\/n\n\u00e4 u0', max_size=5))).map(
    "".join
)


@given(before=TEXTS, chance=st.lists(st.booleans(), min_size=1, max_size=7))
def test_in_json_exactly_the_secret_goes_however_it_is_escaped(before, chance):
    raw = f'{{"a": 1.50,"t":{_escaped_at_will(before, chance)}}}'
    masked, times = LEAK.in_json(raw)
    meant = before.replace(SECRET, LEAK.mask)
    assert json.loads(masked)["t"] == meant
    assert times == before.count(SECRET)
    if not times:
        assert masked == raw
    assert masked.startswith('{"a": 1.50,"t":')


VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def _replaced(value: Any) -> Any:
    match value:
        case str():
            return value.replace(SECRET, LEAK.mask)
        case list():
            return [_replaced(inner) for inner in value]
        case dict():
            return {key: _replaced(inner) for key, inner in value.items()}
        case _:
            return value


@given(VALUES, st.booleans())
def test_the_rest_of_any_json_keeps_its_bytes(value, ascii_only):
    raw = json.dumps(value, ensure_ascii=ascii_only)
    assert LEAK.in_json(raw)[0] == json.dumps(_replaced(value), ensure_ascii=ascii_only)


@pytest.mark.parametrize("depth", range(5))
def test_json_quoted_in_json_hides_nothing(depth):
    text: Any = f"before {SECRET} after"
    for _ in range(depth):
        text = json.dumps({"quoted": text})
    line = json.dumps({"content": text})
    masked, times = LEAK.in_json(line)
    assert times == 1
    text = json.loads(masked)["content"]
    for _ in range(depth):
        text = json.loads(text)["quoted"]
    assert text == f"before {LEAK.mask} after"
    assert LEAK.in_text(line)[1] == 1


def test_a_mask_never_begins_in_the_middle_of_an_escape():
    leak = Leak("nabcdefgh")
    raw = json.dumps({"t": "\nabcdefgh"})
    assert leak.in_json(raw) == (raw, 0)
