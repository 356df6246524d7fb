"""Whatever happens to a transcript, its view can be had again from the file, and can be sent."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Raw

from sevenfold.clock import CountedIds
from sevenfold.conversation.resume import fold, resume
from sevenfold.conversation.transcript import Transcript
from sevenfold.lab.rules import RuleFacts, refusals
from sevenfold.profiles import find
from sevenfold.record import blocks, entries
from sevenfold.record.decisions import (
    CompactMetadata,
    Fold,
    MicrocompactMetadata,
    Offloaded,
    Rewound,
    Segment,
    ShownResult,
    Snip,
    Undone,
)
from sevenfold.record.view import View
from sevenfold.record.wire import Wire
from sevenfold.stores.jsonl.log import JsonlLog, Sync
from tests.support import answer, decoded, transcript

FACTS = RuleFacts.of(find("claude-sonnet-5-5"))
NUMBERS = st.integers(0, 2**16)


def sent(view: View) -> tuple[Any, ...]:
    """All that matters of a view: what is sent, where it goes on, what was measured."""
    reported = view.layout.anchor and (view.layout.anchor.prompt, view.layout.anchor.output)
    assert b"".join(view.pieces()) == b",".join(view.encoded())
    return view.encoded(), view.tip, view.boundary, view.weight, reported


def refused(view: View) -> list[str]:
    """Why a server would not take the messages; an answer at the end is only waiting for what comes next."""
    messages = decoded(view)
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    if view.pending_calls and messages and messages[-1]["role"] == "user":
        messages.pop()
        while messages and messages[-1]["role"] == "assistant":
            messages.pop()
    return [refusal.message for refusal in refusals(messages, facts=FACTS)] if messages else []


class Transcripts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "s.jsonl"
        self.ids = CountedIds()
        self.answers = 0
        self.script = self.open()
        self.decisions: list[str] = []
        self.calls: list[str] = []
        self.records: list[str] = []

    def open(self) -> Transcript:
        self.log = JsonlLog.open(self.path, sync=Sync.NEVER)
        return transcript(self.log, self.ids)

    def teardown(self) -> None:
        self.script.close()
        shutil.rmtree(self.folder)

    @rule(words=st.sampled_from(["go", "na\u00efve \u4f60\u597d", " ", "x" * 300]))
    def the_user_speaks(self, words: str) -> None:
        self.records.append(self.script.user([blocks.text(words)]))

    @rule(calls=st.integers(0, 3), thinks=st.booleans(), again=st.booleans())
    def the_model_answers(self, calls: int, thinks: bool, again: bool) -> None:
        last = self.script.view.items[-1].record if self.script.view.items else None
        goes_on = again and last is not None and last.message_id == f"m{self.answers}"
        self.answers += not goes_on
        parts: list[blocks.Block | str] = []
        if thinks:
            parts.append(blocks.read(b'{"type":"thinking","thinking":"","signature":"c2ln"}'))
        for number in range(calls):
            name = f"t{self.answers}_{number}_{len(self.calls)}"
            self.calls.append(name)
            parts.append(
                blocks.read(
                    json.dumps({"type": "tool_use", "id": name, "name": "Read", "input": {}}).encode()
                )
            )
        self.script.model(answer(*(parts or ["yes"]), id=f"m{self.answers}", prompt=1000 + self.answers))
        self.records.append(self.script.view.tip or "")

    @precondition(lambda self: self.script.view.pending_calls)
    @rule(which=NUMBERS)
    def a_tool_answers(self, which: int) -> None:
        pending = self.script.view.pending_calls
        self.records.append(
            self.script.user([blocks.result(pending[which % len(pending)], "x" * (which % 99))])
        )

    @precondition(lambda self: self.calls)
    @rule(which=NUMBERS)
    def a_tool_answers_late_or_twice(self, which: int) -> None:
        self.records.append(self.script.user([blocks.result(self.calls[which % len(self.calls)], "late")]))

    @rule()
    def something_is_attached(self) -> None:
        self.script.attach("todo", {"n": 1}, [blocks.text("remember the list")])

    @precondition(lambda self: self.calls)
    @rule(which=NUMBERS)
    def results_are_cleared(self, which: int) -> None:
        chosen = self.calls[which % len(self.calls) :][:2]
        self.decisions.append(self.script.clear(MicrocompactMetadata(compacted_tool_ids=chosen)))

    @precondition(lambda self: self.calls)
    @rule(which=NUMBERS)
    def a_result_is_offloaded(self, which: int) -> None:
        name = self.calls[which % len(self.calls)]
        made = Offloaded(tool_use_id=name, preview=f"preview of {name}", path="p", size=1, sha256="")
        self.script.decide(made)

    @precondition(lambda self: self.calls)
    @rule(which=NUMBERS, size=st.integers(0, 40))
    def a_layer_shows_something_else(self, which: int, size: int) -> None:
        name = self.calls[which % len(self.calls)]
        content = Raw(b'"%s"' % (b"s" * size))
        made = self.script.decide(ShownResult(tool_use_id=name, content=content, layer="shortener"))
        self.decisions.append(made.id)

    @precondition(lambda self: self.script.view.items)
    @rule(first=NUMBERS, length=st.integers(0, 4), summary=st.sampled_from(["", "what happened"]))
    def a_span_is_hidden(self, first: int, length: int, summary: str) -> None:
        items = self.script.view.items
        start = first % len(items)
        begin, end = items[start].record.uuid, items[min(start + length, len(items) - 1)].record.uuid
        span = Fold(first=begin, last=end, summary=summary) if summary else Snip(first=begin, last=end)
        self.decisions.append(self.script.decide(span).id)

    @precondition(lambda self: self.script.view.items)
    @rule(cut=NUMBERS, keeps=st.sampled_from(["nothing", "suffix", "prefix"]))
    def the_conversation_is_compacted(self, cut: int, keeps: str) -> None:
        items = [item.record.uuid for item in self.script.view.items]
        boundary, anchor = self.script.new_id(), self.script.new_id()
        place = cut % len(items)
        while place > 0 and not self.script.view.begins_round(items[place]):
            place -= 1
        segment = {
            "nothing": None,
            "suffix": Segment(items[place], anchor, items[-1]),
            "prefix": Segment(items[0], boundary, items[place]),
        }[keeps]
        if segment and not self.script.view.begins_round(segment.head_uuid):
            segment = None
        about = CompactMetadata(preserved_segment=segment)
        self.script.compact(about, [blocks.text("in short")], boundary=boundary, anchor=anchor)
        self.decisions.append(boundary)

    @precondition(lambda self: self.records)
    @rule(which=NUMBERS, nothing=st.sampled_from([False, False, False, True]))
    def the_user_rewinds(self, which: int, nothing: bool) -> None:
        self.script.decide(Rewound(to=None if nothing else self.records[which % len(self.records)]))

    @precondition(lambda self: self.decisions)
    @rule(which=NUMBERS, redo=st.booleans())
    def a_decision_is_undone_or_redone(self, which: int, redo: bool) -> None:
        self.script.decide(Undone(decision=self.decisions[which % len(self.decisions)], redo=redo))

    @precondition(lambda self: self.records)
    @rule(which=NUMBERS)
    def another_tool_writes_a_branch(self, which: int) -> None:
        uuid, parent = self.ids.new(), self.records[which % len(self.records)]
        record = {
            "type": "user",
            "uuid": uuid,
            "parentUuid": parent,
            "message": {"role": "user", "content": "aside"},
        }
        self._behind_our_back(json.dumps(record).encode() + b"\n")
        self.records.append(uuid)

    @precondition(lambda self: self.script.view.items)
    @rule(which=NUMBERS)
    def another_tool_tells_a_record_again(self, which: int) -> None:
        items = self.script.view.items
        again, uuid = items[which % len(items)].record.uuid, self.ids.new()
        told = (json.loads(line) for _, line in self.log.read() if again.encode() in line)
        record = next(record for record in told if record.get("uuid") == again)
        self._behind_our_back(json.dumps({**record, "uuid": uuid}).encode() + b"\n")
        self.records.append(uuid)

    @rule(garbage=st.binary(max_size=30))
    def a_line_is_damaged(self, garbage: bytes) -> None:
        self._behind_our_back(garbage.replace(b"\n", b"") + b"\n")

    @rule(where=NUMBERS)
    def the_process_dies_in_the_middle_of_a_write(self, where: int) -> None:
        self.script.close()
        data = self.path.read_bytes()
        end = len(data) - where % (min(len(data), 3000) + 1)
        self.path.write_bytes(data[:end])
        whole = data[:end].splitlines(keepends=True)
        expected = View()
        for line in whole:
            expected.add(entries.read(line))
        self.script = self.open()
        assert sent(self.script.view) == sent(expected)

    def _behind_our_back(self, line: bytes) -> None:
        self.script.close()
        with self.path.open("ab") as file:
            file.write(line)
        self.script = self.open()

    @invariant()
    def the_file_gives_the_same_view(self) -> None:
        assert sent(fold(self.log)) == sent(self.script.view)

    @invariant()
    def folding_again_changes_nothing(self) -> None:
        view = fold(self.log)
        view.add(entries.Decision(Undone(decision="nothing")))
        assert sent(view) == sent(self.script.view)

    @invariant()
    def reading_from_the_end_gives_the_same_view(self) -> None:
        assert sent(resume(self.log)) == sent(self.script.view)

    @invariant()
    def the_messages_as_they_were_at_a_record_are_those_of_a_view_that_ends_there(self) -> None:
        layout = self.script.view.layout
        before = self.script.view.encoded()
        for end in {0, len(layout.items) // 2, len(layout.items) - 1} & set(range(len(layout.items))):
            expected = Wire(layout.unsupported)
            for number, item in enumerate(layout.items[: end + 1]):
                message = item.record
                expected.add(
                    number, item.role, message.message_id, item.shown, item.begins, message.new_kinds
                )
            assert layout.messages_until(layout.items[end].record.uuid) == expected.messages()
        assert self.script.view.encoded() == before

    @invariant()
    def a_server_would_take_the_messages(self) -> None:
        assert refused(self.script.view) == []


Transcripts.TestCase.settings = settings(max_examples=settings().max_examples // 2)
TestTranscripts = pytest.mark.spec("S8.4", "S8.6", "S10.1")(Transcripts.TestCase)
