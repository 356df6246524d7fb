"""A secret planted in everything that can hold one is in no record, file, index or event behind the gate."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import msgspec
import pytest

from sevenfold.agent.state import SavedState, StateFile
from sevenfold.conversation.gate import Gate, GatedText
from sevenfold.recall.index import RecallIndex
from sevenfold.record import blocks, entries, log
from sevenfold.record.decisions import OwnDecision, Signed
from sevenfold.record.log import Answer, Place, Stamp, Written
from sevenfold.record.redact import mask_json, mask_text
from sevenfold.request.frame import Frame
from sevenfold.stores.jsonl.store import FileText
from sevenfold.stores.memory import MemoryLog, MemoryText
from sevenfold.telemetry.jsonl import JsonlSink
from tests.redaction.making import ALONE, Maker
from tests.redaction.planting import places, plain_calls, planted, planted_blocks, written_by
from tests.telemetry.making import kinds

pytestmark = pytest.mark.spec("S12.2")

SECRET = ALONE["github-token"](Maker(21))
STAY = {"tool_use_id", "tool_use_ids", "compactedToolIds", "sevenfold_results (a name)"}
"""Names of calls, which a model chose."""
WRITERS = {
    name: writer
    for name, writer in inspect.getmembers(log, inspect.isfunction)
    if writer.__annotations__.get("return") == "Written" and not name.startswith("_") and name != "decided"
}
DECISIONS = {kind.__name__: kind for kind in OwnDecision.__args__}
EVENTS = {kind.__name__: kind for kind in kinds()}


def records() -> dict[str, Written]:
    """A record of every kind, with the secret in it."""
    made = {name: written_by(writer, SECRET) for name, writer in WRITERS.items()}
    return made | {name: log.decided(planted(kind, SECRET)) for name, kind in DECISIONS.items()}


def log_of_all() -> MemoryLog:
    """The same as a log in which each record has an id of its own."""
    lines = []
    for name, written in records().items():
        record = plain_calls(json.loads(written.line), STAY)
        record |= {key: name for key in ("uuid", "id") if key in record} | {"isSidechain": False}
        lines.append(json.dumps(record).encode() + b"\n")
    return MemoryLog(lines)


def left_in(raw: bytes) -> set[str]:
    return set(places(json.loads(raw), SECRET)) - STAY


@pytest.mark.parametrize("name", [*WRITERS, *DECISIONS])
def test_no_text_of_any_record_holds_a_secret(name: str) -> None:
    planted_one = records()[name]
    told: list[object] = []
    written = Gate(told.append).record(planted_one)
    if name == "said_by_model":
        assert left_in(written.line) >= {"text", "thinking", "command"}, "what the model said stays"
        assert json.loads(written.line)["message"] == json.loads(planted_one.line)["message"]
        assert not left_in(json.dumps({**json.loads(written.line), "message": 0}).encode())
        return
    assert left_in(planted_one.line), "the secret was planted"
    assert left_in(written.line) == set()
    assert told
    assert type(written.entry) is type(planted_one.entry)
    assert written.entry == entries.read(written.line)
    assert Gate().record(written) is written, "masking what is masked changes nothing"


def test_the_summary_a_provider_signed_stays_as_it_came() -> None:
    block = {"type": "compaction", "content": f"see {SECRET}", "signature": "x"}
    made = Signed(boundary="b", block=msgspec.Raw(json.dumps(block).encode()))
    written = log.decided(made)
    assert Gate().record(written) is written


def test_a_record_without_a_secret_keeps_its_bytes() -> None:
    said = log.said_by_user(
        Stamp(Place("s"), "u", None, ""), [blocks.read(b'{"type":"text",  "text":"\\u00ef"}')]
    )
    assert Gate().record(said) is said


def test_blocks_of_every_kind_are_masked_and_keep_their_kind_and_call() -> None:
    given = planted_blocks(SECRET)
    masked = Gate().blocks(given)
    assert [(block.kind, block.id) for block in masked] == [(block.kind, block.id) for block in given]
    assert set().union(*(left_in(block.raw) for block in masked)) == set()


def test_what_precedes_the_messages_is_masked() -> None:
    frame = Gate().frame(_frame())
    assert SECRET not in repr(frame)
    assert frame.tools[0].startswith(b'{"name":"Look"')


def _frame() -> Frame:
    said = f"use {SECRET}"
    tool = {"name": "Look", "description": said, "input_schema": {"properties": {"x": {"default": said}}}}
    return Frame.of("m", 10, system=[blocks.text(said).raw], tools=[tool], metadata={"user_id": said})


@pytest.mark.parametrize("name", EVENTS)
def test_no_text_of_any_event_reaches_a_file(name: str, tmp_path: Path) -> None:
    with JsonlSink(tmp_path / "t.jsonl", mask=mask_text) as sink:
        sink(planted(EVENTS[name], SECRET))
    assert sink.dropped == 0
    assert SECRET.encode() not in (tmp_path / "t.jsonl").read_bytes()


def test_no_text_of_an_agents_state_reaches_its_file(tmp_path: Path) -> None:
    file = StateFile(FileText(tmp_path / "state.json"), Gate())
    state = msgspec.structs.replace(planted(SavedState, SECRET), version=SavedState().version)
    file.save(state)
    assert file.problem == ""
    assert SECRET.encode() not in (tmp_path / "state.json").read_bytes()
    assert StateFile(FileText(tmp_path / "state.json")).load().goal == mask_text(state.goal)


def test_no_text_of_any_record_reaches_the_index_the_models_neither(tmp_path: Path) -> None:
    answer = Answer("m", "model", (blocks.text(f"I use {SECRET} here"),))
    said = log.said_by_model(Stamp(Place("s"), "a-1", None, "2026-01-01T00:00:00Z"), answer)
    kept = log_of_all()
    kept.append([said.line])
    path = tmp_path / "s.recall.sqlite"
    index = RecallIndex(kept, path, masks=True)
    index.catch_up()
    assert index.status().records > 3
    assert index.search("use here")
    index.close()
    assert SECRET.encode() not in path.read_bytes()


def test_an_index_made_with_secrets_in_it_is_made_again(tmp_path: Path) -> None:
    path, kept = tmp_path / "i.sqlite", log_of_all()
    for masks in (False, True):
        index = RecallIndex(kept, path, masks=masks)
        index.catch_up()
        index.close()
        assert (SECRET.encode() in path.read_bytes()) is not masks


def test_notes_are_masked_when_they_are_written() -> None:
    kept = MemoryText()
    GatedText(kept, Gate()).write(f"the key is {SECRET}")
    assert SECRET not in (kept.read() or SECRET)


def test_output_that_comes_in_pieces_is_masked_whole() -> None:
    key = ALONE["private-key"](Maker())
    output = f"one\ntoken={SECRET}\n{key}\nlast {SECRET}".encode()
    for size in (1, 7, 50, 5_000):
        stream = Gate().stream()
        shown = (
            b"".join(stream.add(output[at : at + size]) for at in range(0, len(output), size))
            + stream.end()
        )
        assert shown == mask_text(output.decode()).encode()


def test_output_without_line_ends_is_not_held_back_for_ever() -> None:
    stream = Gate().stream()
    shown = b"".join(stream.add(b"word " * 200) for _ in range(1_000))
    assert len(shown) > 900_000
    assert shown + stream.end() == b"word " * 200_000


def test_an_export_is_masked_in_the_models_words_too() -> None:
    for written in records().values():
        assert set(places(json.loads(mask_json(written.line, whole=True).raw), SECRET)) <= STAY | {
            "signature"
        }


def test_json_that_nests_too_deep_to_be_walked_is_masked_all_the_same() -> None:
    raw = b"[" * 5_000 + json.dumps(SECRET).encode() + b"]" * 5_000
    assert SECRET.encode() not in mask_json(raw).raw
