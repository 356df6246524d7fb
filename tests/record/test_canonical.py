"""Values from Python get one form of bytes, or a clear refusal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import InputError
from sevenfold.record.blocks import encode_json, minify, read

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_the_bytes_say_what_the_value_said(value):
    assert json.loads(encode_json(value)) == value


@given(JSON)
def test_the_same_value_has_the_same_bytes(value):
    assert encode_json(value) == encode_json(json.loads(json.dumps(value)))


def test_the_order_of_keys_is_kept():
    assert encode_json({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"b":1,"a":{"d":1,"c":2}}'


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [0, float("nan")]}, r"\$\.a\[1\] is nan"),
        ({"a": {1: "x"}}, r"\$\.a has the key 1"),
        ({"a": b"x"}, r"\$\.a is bytes"),
        ({"a": ["x\ud800"]}, r"\$\.a\[0\] holds half a surrogate pair at character 1"),
        ({"a": {1, 2}}, r"\$\.a is a set"),
        ({"\udc00": 1}, r"a key\) holds half a surrogate"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_path(value, where):
    with pytest.raises(InputError, match=where):
        encode_json(value)


@given(JSON, st.sampled_from([None, 1, 3]))
def test_only_insignificant_space_is_taken_out(value, indent):
    raw = json.dumps(value, indent=indent).encode()
    assert json.loads(minify(raw)) == value
    assert minify(minify(raw)) == minify(raw)


def test_numbers_and_escapes_stay_as_they_were_written():
    assert minify(rb'{ "a" : 1.50e3 , "b" : "\u00e9 \/" }') == rb'{"a":1.50e3,"b":"\u00e9 \/"}'


FIELDS = st.permutations(["type", "id", "tool_use_id", "content"])


@given(
    FIELDS,
    st.sampled_from(["tool_use", "tool_result", "text", "server_tool_use", "tool_result_extra"]),
    st.text(max_size=8) | st.from_regex(r"[\w-]{1,12}", fullmatch=True),
    st.booleans(),
    JSON,
)
def test_a_block_is_known_by_its_kind_and_id_however_its_bytes_begin(order, kind, named, spaced, content):
    fields = {"type": kind, "id": named, "tool_use_id": f"{named}x", "content": content}
    raw = json.dumps({name: fields[name] for name in order}, separators=None if spaced else (",", ":"))
    block = read(raw.encode())
    assert (block.kind, block.id) == (kind, f"{named}x" if kind == "tool_result" else named)
