"""Logs written by every version of the format so far: they fold to the bytes they were sent as then.

A golden log is never changed. When the format moves on, the next version's log is added beside it:
``python -m tests.record.test_golden_logs`` writes the log of the present version.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import Raw

from sevenfold.conversation.resume import fold, resume
from sevenfold.record import blocks
from sevenfold.record.decisions import (
    FORMAT_VERSION,
    CompactMetadata,
    Epoch,
    Fold,
    Keep,
    MicrocompactMetadata,
    Notes,
    Offload,
    Pin,
    Request,
    Rewound,
    Segment,
    Snip,
    Undone,
)
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.memory import MemoryLog
from tests.support import answer, transcript

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = [int(path.stem.removeprefix("v")) for path in sorted(GOLDEN.glob("v*.jsonl"))]


def _log() -> list[bytes]:
    """One of everything."""
    log = MemoryLog()
    script = transcript(log)
    epoch = script.decide(
        Epoch(reason="start", model="claude-sonnet-5-5", max_tokens=9, system=[Raw(b'{"a":1}')])
    )
    first = script.user(
        [blocks.text("please begin, Åsa"), blocks.read(b'{"type":"mystery","of":[1.0, 2]}')]
    )
    script.decide(Request(epoch=epoch.id, tip=first, markers=[("system", 0, 0, "1h")], sha256="0" * 64))
    call = blocks.read(b'{"type":"tool_use","id":"t1","name":"Read","input":{"path": "a", "n": 1.50}}')
    thought = blocks.read(b'{"type":"thinking","thinking":"","signature":"c2lnbmF0dXJl"}')
    script.model(answer(thought, call, id="msg_a"))
    script.user([blocks.result("t1", "a long listing"), blocks.text("and hurry")])
    script.attach("todo", {"items": 1}, [blocks.text("remember: one item")])
    script.model(answer("working", id="msg_b"))
    script.decide(Keep(tool_use_ids=["t1"]))
    script.clear(MicrocompactMetadata(pre_tokens=9, tokens_saved=3, compacted_tool_ids=["t1"]))
    script.decide(Pin(record=first))
    script.decide(Notes(covered=first))
    aside = script.user([blocks.text("an aside")])
    snip = script.decide(Snip(first=aside, last=aside))
    script.decide(Undone(decision=snip.id))
    script.decide(Rewound(to=aside))
    kept = script.user([blocks.text("kept")])
    anchor = script.new_id()
    about = CompactMetadata(pre_tokens=100, preserved_segment=Segment(kept, anchor, kept))
    script.compact(about, [blocks.text("in short")], anchor=anchor)
    second = blocks.read(b'{"type":"tool_use","id":"t2","name":"Read","input":{}}')
    script.model(answer(second, id="msg_c"))
    script.user([blocks.result("t2", "x" * 50, is_error=True)])
    script.decide(Offload(tool_use_id="t2", preview="xxx…", path="t2.txt", size=50, sha256="1" * 64))
    script.model(answer("done", id="msg_d"))
    last = script.user([blocks.text("thanks")])
    script.decide(Fold(first=last, last=last, summary="the user was content"))
    return [line for _, line in log.read()]


@pytest.mark.spec("S8.4", "S10.1")
@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_log_folds_to_the_bytes_of_its_time(version):
    log = JsonlLog(GOLDEN / f"v{version}.jsonl")
    sent = (GOLDEN / f"v{version}.sent").read_bytes().splitlines()
    assert fold(log).encoded() == sent
    assert resume(log).encoded() == sent


@pytest.mark.spec("S8.4")
def test_what_is_written_today_is_the_present_version():
    assert b"".join(_log()) == (GOLDEN / f"v{FORMAT_VERSION}.jsonl").read_bytes()


def test_other_tools_find_the_fields_they_know():
    for line in _log():
        record = json.loads(line)
        if record["type"] == "sevenfold":
            assert "uuid" not in record
            assert "parentUuid" not in record
        else:
            assert {
                "uuid",
                "parentUuid",
                "sessionId",
                "timestamp",
                "isSidechain",
                "version",
                "cwd",
            } <= record.keys()


if __name__ == "__main__":
    (GOLDEN / f"v{FORMAT_VERSION}.jsonl").write_bytes(b"".join(_log()))
    (GOLDEN / f"v{FORMAT_VERSION}.sent").write_bytes(b"\n".join(fold(MemoryLog(_log())).encoded()) + b"\n")
