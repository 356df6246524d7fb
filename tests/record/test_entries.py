"""Reading lines: whatever one holds, it becomes an entry, and nothing in it is changed on the way."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.record import blocks, entries
from sevenfold.record.entries import (
    Boundary,
    Clearing,
    Damaged,
    Decision,
    Label,
    Link,
    Passed,
    Said,
    UnknownDecision,
)
from sevenfold.record.usage import Edits
from sevenfold.record.view import View

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = [
    "type",
    "subtype",
    "uuid",
    "parentUuid",
    "message",
    "attachment",
    "isSidechain",
    "kind",
    "v",
    "at",
    "id",
]
TYPES = ["user", "assistant", "system", "attachment", "sevenfold", "progress"]


def test_a_user_record_with_plain_words_has_one_text_block():
    entry = entries.read(b'{"type":"user","uuid":"u","message":{"role":"user","content":"hi"}}')
    assert isinstance(entry, Said)
    assert [blocks.words_of(block) for block in entry.blocks] == ["hi"]


def test_unknown_blocks_and_fields_keep_their_bytes():
    raw = b'{"type":"hologram", "depth": 1.50, "of":{"b":1,"a":2}}'
    entry = entries.read(
        b'{"type":"assistant","uuid":"u","message":{"role":"assistant","content":[' + raw + b"]}}"
    )
    assert isinstance(entry, Said)
    assert entry.blocks[0].raw == raw
    assert isinstance(entry.blocks[0].body(), blocks.Opaque)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"type":"system","subtype":"compact_boundary","uuid":"b","compactMetadata":null}', Boundary),
        (b'{"type":"system","subtype":"microcompact_boundary","uuid":"b"}', Clearing),
        (b'{"type":"system","subtype":"turn_duration","uuid":"b","parentUuid":"a"}', Link),
        (b'{"type":"progress","uuid":"b"}', Link),
        (b'{"type":"last-prompt","leafUuid":"b"}', Label),
        (b'{"type":"permission-mode","permissionMode":"plan"}', Passed),
        (b'{"type":"from-the-future","uuid":"b"}', Link),
        (b'{"type":"sevenfold","v":1,"kind":"snip","id":"d","first":"a","last":"b"}', Decision),
        (b'{"type":"sevenfold","v":1,"kind":"snip","id":"d"}', UnknownDecision),
        (b'{"type":"sevenfold","v":9,"kind":"snip","id":"d","first":"a","last":"b"}', UnknownDecision),
        (b"{}", Passed),
        (b"  \n", Passed),
        (b"[1,2]", Damaged),
        (b"not json", Damaged),
        (b"\xff\xfe", Damaged),
        (b'{"type":"user","uuid":"u","message":{"role":"user","content":[500]}}', Damaged),
        (b'{"type":"user","uuid":"u","message":{"role":"user","content":[{"text":"hi"}]}}', Damaged),
        (
            b'{"type":"user","uuid":"u","message":{"role":"user","content":[{"type":"x","y":"\xff"}]}}',
            Damaged,
        ),
        (b'{"type":"user","uuid":7,"message":{}}', Damaged),
        (b'{"type":"user","uuid":"u","message":{"role":"user","content":5}}', Damaged),
    ],
)
def test_each_kind_of_line_is_told_apart(line, kind):
    assert isinstance(entries.read(line), kind)


@pytest.mark.spec("S8.4")
def test_half_a_surrogate_pair_is_replaced_and_the_rest_kept():
    line = rb'{"type":"user","uuid":"u","message":{"role":"user","content":"cut \ud83d here"}}'
    entry = entries.read(line)
    assert isinstance(entry, Said)
    assert blocks.words_of(entry.blocks[0]) == "cut � here"


def test_a_record_that_cannot_be_read_keeps_its_place_in_the_chain():
    lines = [
        b'{"type":"user","uuid":"a","message":{"role":"user","content":"one"}}',
        b'{"type":"user","uuid":"b","parentUuid":"a","message":{"role":"user","content":{"odd":1}}}',
        b'{"type":"user","uuid":"c","parentUuid":"b","message":{"role":"user","content":"three"}}',
    ]
    view = View()
    for line in lines:
        view.add(entries.read(line))
    assert [item.record.uuid for item in view.items] == ["a", "c"]
    assert view.damaged == 1


def test_a_report_of_nothing_is_no_report():
    line = b'{"type":"assistant","uuid":"a","message":{"content":[],"usage":{"input_tokens":0,"output_tokens":0}}}'
    entry = entries.read(line)
    assert isinstance(entry, Said)
    assert entry.usage is None


def test_nesting_without_end_is_damage_and_no_crash():
    deep = b'{"type":"user","uuid":"u","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert isinstance(entries.read(deep), Damaged)


@given(st.binary(max_size=200))
def test_any_bytes_are_some_entry(line):
    entries.read(line)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from([*TYPES, "a", "b"]), max_size=6),
        max_size=8,
    )
)
def test_any_records_fold_to_a_view_that_can_be_encoded(records):
    view = View()
    for record in records:
        view.add(entries.read(json.dumps(record).encode()))
    for message in view.encoded():
        assert json.loads(message)["content"]


EDIT = st.fixed_dictionaries(
    {}, optional={"cleared_input_tokens": JSON, "cleared_tool_uses": JSON, "type": JSON}
)
MANAGEMENT = JSON | st.fixed_dictionaries({"applied_edits": JSON | st.lists(JSON | EDIT, max_size=3)})


@given(MANAGEMENT, JSON | st.fixed_dictionaries({"cache_deleted_input_tokens": JSON}))
def test_whatever_an_answer_tells_of_the_providers_edits_it_is_read(managed, usage):
    message = {"content": "hi", "context_management": managed, "usage": usage}
    entry = entries.read(json.dumps({"type": "assistant", "uuid": "a", "message": message}).encode())
    assert isinstance(entry, Said)
    assert min(entry.edits.cleared, entry.edits.uses, entry.edits.deleted) >= 0


def test_what_the_providers_edits_took_out_is_summed_up():
    edits = [{"cleared_input_tokens": 700, "cleared_tool_uses": 2}, {"cleared_input_tokens": 30}, "odd"]
    usage = {"input_tokens": 5, "cache_deleted_input_tokens": 11}
    message = {"content": "hi", "context_management": {"applied_edits": edits}, "usage": usage}
    entry = entries.read(json.dumps({"type": "assistant", "uuid": "a", "message": message}).encode())
    assert isinstance(entry, Said)
    assert entry.edits == Edits(730, 2, 11)


@pytest.mark.parametrize("attachment", ["words", ["words"], 7, True])
def test_an_attachment_that_is_no_object_adds_nothing(attachment: object) -> None:
    record = {"type": "attachment", "uuid": "a", "parentUuid": None, "attachment": attachment}
    entry = entries.read(json.dumps(record).encode())
    assert isinstance(entry, Said)
    assert (entry.attachment, entry.blocks) == ("unknown", ())


def test_an_attachment_of_another_tool_is_read_by_its_kind_its_facts_and_its_text() -> None:
    attachment = {"type": "edited_text_file", "filename": "pier.py", "snippet": "def moor(): ..."}
    record = {"type": "attachment", "uuid": "a", "parentUuid": None, "attachment": attachment}
    entry = entries.read(json.dumps(record).encode())
    assert isinstance(entry, Said)
    [block] = entry.blocks
    assert entry.attachment == "edited_text_file"
    assert "pier.py" in block.raw.decode()
    assert "def moor" in block.raw.decode()
