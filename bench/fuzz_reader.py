"""Fuzz the reader and the view with damaged transcripts.

    python bench/fuzz_reader.py [--seconds 30] [--seed N]
    python bench/fuzz_reader.py --atheris [libFuzzer options]      where atheris is installed

It starts from a transcript with every kind of record, in our format and in that of other tools, and mutates
bytes, values, fields, links between records and whole lines. For every result, three things must hold: nothing
raises; the same lines give the same messages; and a server would not refuse the messages for their structure,
except at the end, where an answer or a result may still be missing. A transcript that violates one of these
is reduced to as few lines as possible and printed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct

from sevenfold.clock import CountedIds, ManualClock
from sevenfold.conversation.transcript import Transcript
from sevenfold.lab.rules import RuleFacts, refusals
from sevenfold.profiles import find
from sevenfold.record import blocks, decisions, entries
from sevenfold.record.log import Answer, Place
from sevenfold.record.view import View
from sevenfold.stores.memory import MemoryLog

MODEL = "claude-sonnet-5-5"
FACTS = RuleFacts.of(find(MODEL))
TOOLS = frozenset({"tool_use_doubled", "tool_use_unanswered", "tool_result_orphan", "tool_result_doubled"})
STRUCTURE = TOOLS | {"role", "first_role", "message_empty", "system_place"}
"""Refusals caused by the structure of the messages, not by the content of a block."""
MOST_CHANGES = 6

Lines = list[bytes]


# Invariants


def problem(lines: Sequence[bytes]) -> str:
    """Return a description of the problem in reading these lines, or an empty string."""
    try:
        first, second = _fold(lines), _fold(lines)
        if first.encoded() != second.encoded():
            return "the same lines gave different messages"
        return _refused(first)
    except Exception:  # noqa: BLE001 - whatever is raised here is what is looked for
        return traceback.format_exc(limit=-4)


def _fold(lines: Sequence[bytes]) -> View:
    view = View()
    for line in lines:
        view.add(entries.read(line))
    return view


def _refused(view: View) -> str:
    messages = [json.loads(message) for message in view.encoded()]
    while messages and (messages[-1]["role"] != "user" or view.pending_calls):
        if messages.pop()["role"] == "assistant" and view.pending_calls:
            break
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    found = refusals(messages, facts=FACTS) if messages else []
    return next((f"{one.code}: {one.message}" for one in found if one.code in STRUCTURE), "")


# The initial transcript


def seeds() -> Lines:
    """Return a transcript with every kind of record."""
    return _ours() + _theirs()


def _ours() -> Lines:
    log = MemoryLog()
    script = Transcript(log, Place("fuzz"), clock=ManualClock(), ids=CountedIds())
    script.decide(
        decisions.Epoch(reason="start", model=MODEL, system=[Raw(b'{"type":"text","text":"be brief"}')])
    )
    first = script.user([blocks.text("na\u00efve \U0001f600 question")])
    script.model(_answer(1, "t1", "t2"))
    script.user([blocks.result("t1", "one"), blocks.result("t2", "two", is_error=True)])
    script.model(_answer(2, "t3"))
    script.user([blocks.result("t3", "three")])
    script.attach("todo", {"n": 1}, [blocks.text("remember")])
    script.decide(decisions.Pin(record=first))
    script.decide(decisions.Offloaded(tool_use_id="t1", preview="o\u2026", path="p", size=3, sha256="00"))
    script.clear(decisions.MicrocompactMetadata(compacted_tool_ids=["t2"]))
    script.model(_answer(3))
    items = [item.record.uuid for item in script.view.items]
    hidden = script.decide(decisions.Snip(first=items[1], last=items[2]))
    script.decide(decisions.Undone(decision=hidden.id))
    script.decide(decisions.Fold(first=items[1], last=items[2], summary="it read two files"))
    boundary, anchor, last = script.new_id(), script.new_id(), script.view.items[-1].record.uuid
    kept = decisions.CompactMetadata(preserved_segment=decisions.Segment(last, anchor, last))
    script.compact(kept, [blocks.text("in short")], boundary=boundary, anchor=anchor)
    again = script.user([blocks.text("go on")])
    script.model(_answer(4, "t4"))
    script.decide(decisions.Rewound(to=again))
    script.model(_answer(5))
    script.decide(decisions.Undone(decision=boundary))
    script.compact(decisions.CompactMetadata(trigger="manual"), [blocks.text("shorter still")])
    script.user([blocks.text("and now?")])
    return [line for _, line in log.read()]


def _answer(number: int, *calls: str) -> Answer:
    said = [blocks.read(b'{"type":"thinking","thinking":"","signature":"c2ln"}'), blocks.text("Well.")]
    for call in calls:
        use = {"type": "tool_use", "id": call, "name": "Read", "input": {"path": "a.py"}}
        said.append(blocks.read(json.dumps(use).encode()))
    usage = Raw(b'{"input_tokens":%d,"output_tokens":5,"iterations":null}' % (100 * number))
    return Answer(f"msg_{number}", MODEL, tuple(said), usage, "tool_use" if calls else "end_turn")


def _theirs() -> Lines:
    told: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": "please"}},
        {"type": "assistant", "message": _said("x1", {"type": "text", "text": "sure"})},
        {
            "type": "assistant",
            "message": _said("x1", {"type": "tool_use", "id": "u1", "name": "B", "input": {}}),
        },
        {"type": "progress", "data": {"type": "hook_progress"}},
        {
            "type": "user",
            "message": {"role": "user", "content": [_result("u1", [{"type": "text", "text": "r"}])]},
        },
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "wait"}},
        {"type": "user", "isSidechain": True, "message": {"role": "user", "content": "aside"}},
        {
            "type": "user",
            "isMeta": True,
            "message": {"role": "user", "content": [{"type": "image", "source": {}}]},
        },
        {
            "type": "system",
            "subtype": "microcompact_boundary",
            "microcompactMetadata": {"compactedToolIds": ["u1"]},
        },
        {
            "type": "assistant",
            "isApiErrorMessage": True,
            "message": _said("", {"type": "text", "text": "oops"}),
        },
        {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"preservedSegment": None}},
        {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "summary"}},
    ]
    parent, made = None, []
    for number, record in enumerate(told):
        uuid = f"00000000-0000-4000-8000-{number:012}"
        made.append(json.dumps({"uuid": uuid, "parentUuid": parent, **record}).encode() + b"\n")
        parent = uuid
    made.append(b'{"type":"last-prompt","lastPrompt":"please","leafUuid":"%s"}\n' % str(parent).encode())
    return made


def _said(name: str, *content: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "cache_read_input_tokens": 90, "output_tokens": 3}
    return {"role": "assistant", "id": name, "model": MODEL, "content": list(content), "usage": usage}


def _result(call: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content}


# Mutating it


class Bender:
    """Mutates lines at random; the same seed makes the same changes."""

    def __init__(self, seed: int, stock: Lines) -> None:
        self.chance = random.Random(seed)
        self._stock = stock
        self._values = _values(stock)
        self._ways: tuple[Callable[[Lines, int], None], ...] = (
            *(3 * (self._value,)),
            self._field,
            self._drop,
            self._double,
            self._retell,
            self._move,
            self._bytes,
            self._cut,
        )

    def lines(self) -> Lines:
        """Return the lines of the stock from a random start, mutated in a few places."""
        start = self.chance.choice((0, 0, self.chance.randrange(len(self._stock))))
        made = self._stock[start:]
        for _ in range(self.chance.randint(1, MOST_CHANGES)):
            if made:
                self.chance.choice(self._ways)(made, self.chance.randrange(len(made)))
        return made

    def _value(self, made: Lines, place: int) -> None:
        """Replace a value in a record, with one from elsewhere in the stock or with a strange one."""
        self._inside(
            made, place, lambda holder, key: holder.__setitem__(key, self.chance.choice(self._values))
        )

    def _field(self, made: Lines, place: int) -> None:
        """Delete a field or an element of a record."""
        self._inside(made, place, lambda holder, key: holder.__delitem__(key))

    def _inside(self, made: Lines, place: int, change: Callable[[Any, Any], None]) -> None:
        record = _decoded(made[place])
        if holders := _holders(record):
            change(*self.chance.choice(holders))
            made[place] = self._encoded(record)

    def _encoded(self, record: Any) -> bytes:
        words = json.dumps(record, ensure_ascii=self.chance.random() < 0.5)
        return words.encode(errors="surrogatepass") + b"\n"

    def _drop(self, made: Lines, place: int) -> None:
        del made[place : place + self.chance.randint(1, 3)]

    def _double(self, made: Lines, place: int) -> None:
        made.insert(self.chance.randrange(len(made) + 1), made[place])

    def _retell(self, made: Lines, place: int) -> None:
        """Repeat a record under another id, as tools do that continue a copy of a session."""
        record = _decoded(made[place])
        if isinstance(record, dict):
            copy = {**record, "uuid": f"copy-{self.chance.randrange(99)}"}
            made.insert(self.chance.randrange(place, len(made)) + 1, self._encoded(copy))

    def _move(self, made: Lines, place: int) -> None:
        made.insert(self.chance.randrange(len(made)), made.pop(place))

    def _bytes(self, made: Lines, place: int) -> None:
        line = bytearray(made[place])
        for _ in range(self.chance.randint(1, 4)):
            line[self.chance.randrange(len(line))] = self.chance.choice(b'\x00"\\{}[],:0\xff\xed\n ')
        made[place] = bytes(line)

    def _cut(self, made: Lines, place: int) -> None:
        made[place] = made[place][: self.chance.randrange(1, len(made[place]) + 1)]


def _decoded(line: bytes) -> Any:
    """Return the decoded line, or None if it is no longer JSON."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _holders(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in a record that can be changed, as a container and a key."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
    return [(value, key) for key in keys] + [inner for key in keys for inner in _holders(value[key])]


def _values(stock: Lines) -> list[Any]:
    """Return the values to insert anywhere: those of the stock, including ids, and strange ones."""
    strange: list[Any] = [
        None,
        True,
        0,
        -1,
        2**70,
        1e400,
        "",
        " ",
        "\ud800",
        "x" * 5000,
        [],
        {},
        [[]],
        [None],
        {"": None},
    ]
    roles = ["user", "assistant", "system", "tool_use", "tool_result", "thinking", "redacted_thinking"]
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    found = [holder[key] for line in stock for holder, key in _holders(json.loads(line))]
    return [*strange, *roles, deep, *found]


# Searching


class Finding(Struct, frozen=True):
    """As few lines as possible that show a problem, and the problem."""

    lines: tuple[bytes, ...]
    problem: str


class Search(Struct, frozen=True):
    """The number of transcripts tried, and one finding for each kind of problem."""

    tried: int
    findings: tuple[Finding, ...] = ()


def search(seconds: float, seed: int = 0) -> Search:
    """Try mutated transcripts for this many seconds."""
    bender, end, tried = Bender(seed, seeds()), time.monotonic() + seconds, 0
    found: dict[str, Finding] = {}
    while time.monotonic() < end:
        made = bender.lines()
        tried += 1
        kind = _kind(problem(made))
        if kind and kind not in found:
            found[kind] = smallest(made)
    return Search(tried, tuple(found.values()))


def smallest(lines: Lines) -> Finding:
    """Reduce the lines as far as the same kind of problem remains."""
    kind = _kind(problem(lines))
    size = len(lines) // 2
    while size:
        for start in range(0, len(lines), size):
            fewer = lines[:start] + lines[start + size :]
            if _kind(problem(fewer)) == kind:
                lines = fewer
                break
        else:
            size //= 2
    return Finding(tuple(lines), problem(lines))


def _kind(words: str) -> str:
    """Return the key that groups problems: the place and type of the exception, or the name of the rule."""
    told = words.strip().splitlines()
    places = [line.strip() for line in told if line.startswith("  File")]
    return " ".join([*places[-1:], told[-1].split(":")[0]]) if told else ""


def run_atheris(arguments: Sequence[str]) -> None:
    """Let libFuzzer mutate the transcript, guided by code coverage."""
    atheris = import_module("atheris")

    def try_one(data: bytes) -> None:
        if found := problem(data.splitlines(keepends=True)):
            raise AssertionError(found)

    atheris.instrument_all()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "seeds").write_bytes(b"".join(seeds()))
        kept = f"-artifact_prefix={tempfile.gettempdir()}/sevenfold-"
        atheris.Setup([sys.argv[0], kept, *arguments, folder], try_one)
        atheris.Fuzz()


def main(arguments: Sequence[str]) -> int:
    """Search and print the findings; return 1 if there are any, else 0."""
    if "--atheris" in arguments:
        run_atheris([one for one in arguments if one != "--atheris"])
        return 0
    parser = argparse.ArgumentParser(description="Looks for transcripts that cannot be read.")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    found = search(options.seconds, options.seed)
    print(f"{found.tried:,} transcripts tried, seed {options.seed}")
    for finding in found.findings:
        print(f"\nFAIL  {finding.problem}")
        for line in finding.lines:
            print(f"  {line!r}")
    return 1 if found.findings else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
