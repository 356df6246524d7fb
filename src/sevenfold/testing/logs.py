"""What the logs of every store must do; part of `sevenfold.testing.stores.StoreContract`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import msgspec

from sevenfold.errors import TranscriptLocked, TranscriptOvertaken
from sevenfold.ports import Log, LogIdentity, Store
from sevenfold.record import entries
from sevenfold.record.decisions import Commit, Epoch, OwnDecision, Pin, Request, Undone
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Said, Stored
from sevenfold.record.log import decided

NAMES = ("a1", 'b"2', "c\\3", "dé4", "e%_5")
"""Ids and keys of the records: few, so that records name one another, and with what JSON and SQL treat specially."""
DECISIONS: tuple[type[OwnDecision], ...] = (Epoch, Request, Pin, Undone)
RESULT_PATH = "results/1.txt"
WRITERS = 8
"""How many threads open one log at once."""


def json_line(**fields: Any) -> bytes:
    """A line with a JSON object."""
    return msgspec.json.encode(fields) + b"\n"


def message(uuid: str, parent: str, role: str, name: str, *, what: str = "text", **fields: Any) -> bytes:
    """A line with a message: a text about ``name``, or the call or the result of that id."""
    block = {
        "text": {"type": "text", "text": f"about {name}"},
        "call": {"type": "tool_use", "id": name, "name": "Read", "input": {}},
        "result": {"type": "tool_result", "tool_use_id": name, "content": "ok"},
    }[what]
    content = {"role": role, "model": "m", "content": [block]}
    return json_line(type=role, uuid=uuid, parentUuid=parent, message=content, **fields)


def sample() -> list[bytes]:
    """Lines of every kind that a query looks for, twice over, and lines that only look like them."""
    lines = [b"\n", b"damaged\n", b'{"type":"user"\n', b'"a1"\n', b"\xff\x00\n"]
    for name, other in zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True):
        result = {name: {"path": RESULT_PATH, "size": 1, "sha256": ""}}
        lines += [
            message(name, other, "user", name),
            message(other, name, "assistant", name, what="call"),
            message(f"{name}-result", name, "user", name, what="result", sevenfold_results=result),
            message(f"{name}-keyed", other, "user", other, sevenfold_key=name),
            message(f"{name}-named", name, "user", other, sessionId=name, cwd="/w"),
            message(f"{name}-unnamed", name, "user", other, sessionId=name, cwd=""),
            json_line(type="system", subtype="compact_boundary", uuid=name),
            json_line(type="system", subtype="microcompact_boundary", uuid=other),
        ]
        decisions: list[OwnDecision] = [
            Epoch(id=name, reason="start", model=other),
            Request(id=other, epoch=name, tip=other),
            Pin(id=name, record=other),
            Undone(id=other, decision=name),
            Commit(id=name, boundary=other),
        ]
        lines += [decided(decision).line for decision in decisions]
    return lines + lines


class Answers:
    """What a log with these lines should answer: every query looks at every record."""

    def __init__(self, lines: Iterable[tuple[int, bytes]]) -> None:
        self._lines = list(lines)
        self._newest = [(position, entries.read(line)) for position, line in reversed(self._lines)]
        self._said = [entry for _, entry in self._newest if isinstance(entry, Said)]

    def check(self, log: Log, *, cuts: int = 1_000) -> None:
        """Fail unless the log answers every query as it should; ``cuts`` limits how often only a part is searched."""
        assert list(log.read()) == self._lines
        assert list(log.head(3)) == [line for _, line in self._lines][:3]
        assert list(log.answers()) == [said for said in self._said if said.role == "assistant"]
        assert list(log.said()) == self._said
        assert log.identity() == self._identity()
        for kind in DECISIONS:
            assert list(log.decisions(kind)) == self._decisions(kind)
        for name in NAMES:
            self._check_name(log, name)
        assert log.stored(RESULT_PATH) == next((stored for _, stored in self._stored()), None)
        every = max(1, len(self._newest) // cuts)
        for before in [None, *(position for position, _ in self._newest[::every])]:
            self._check_before(log, before)

    def _check_before(self, log: Log, before: int | None) -> None:
        earlier = [
            (position, entry) for position, entry in self._newest if before is None or position < before
        ]
        boundaries = [(position, entry) for position, entry in earlier if isinstance(entry, Boundary)]
        assert list(log.boundaries(before)) == boundaries
        for name in NAMES:
            records = (
                (position, entry) for position, entry in earlier if getattr(entry, "uuid", None) == name
            )
            assert log.record(name, before) == next(records, None)

    def _check_name(self, log: Log, name: str) -> None:
        assert log.keyed(name) == next((said.uuid for said in self._said if said.key == name), "")
        assert log.called(name) == any(name in said.calls for said in self._said)
        answering = [said for said in self._said if name in said.answers]
        result = log.result(name)
        if answering:
            assert result in answering[0].blocks
        else:
            assert result is None
        assert log.stored(name) == next((stored for call, stored in self._stored() if call == name), None)
        decided_at = (position for position, entry in self._newest if name in _decisions_in(entry))
        assert log.decided_at(name) == next(decided_at, None)
        assert log.mentions(name) == self._mentions(name)

    def _mentions(self, text: str) -> bool:
        as_written = json.dumps(text, ensure_ascii=False)[1:-1].encode()
        mentioning = (line for _, line in self._lines if as_written in line)
        return any(isinstance(entries.read(line), Said) for line in mentioning)

    def _decisions(self, kind: type[OwnDecision]) -> list[tuple[int, OwnDecision]]:
        made = [(position, entry.record) for position, entry in self._newest if isinstance(entry, Decision)]
        return [(position, decision) for position, decision in made if isinstance(decision, kind)]

    def _stored(self) -> Iterator[tuple[str, Stored]]:
        for said in self._said:
            yield from said.stored.items()

    def _identity(self) -> LogIdentity:
        for _, line in reversed(self._lines):
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            if isinstance(fields, dict) and fields.get("sessionId") and fields.get("cwd"):
                return LogIdentity(fields["sessionId"], fields["cwd"])
        return LogIdentity()


def _decisions_in(entry: Entry) -> set[str]:
    """The ids of the decisions that a record makes, commits, undoes or redoes."""
    match entry:
        case Boundary(uuid=uuid) | Clearing(uuid=uuid):
            return {uuid}
        case Decision(record=Commit(id=own, boundary=other) | Undone(id=own, decision=other)):
            return {own, other}
        case Decision(record=made):
            return {made.id}
        case _:
            return set()


def lines_of(log: Log) -> list[bytes]:
    """The lines of a log."""
    return [line for _, line in log.read()]


class LogContract:
    """The tests of a store's logs; the store is a fixture, and `open_store` opens it once more."""

    def open_store(self, folder: Path, tenant: str = "") -> Store:
        """Open the store of a tenant in this folder, new or with what was kept there before."""
        raise NotImplementedError("define open_store(self, folder, tenant) in your test class")

    def test_every_query_finds_what_looking_at_every_record_finds(self, store: Store) -> None:
        lines = sample()
        half = len(lines) // 2
        with closing(store.open("s")) as log:
            Answers([]).check(log)
            positions = [*log.append(lines[:half]), *log.append(lines[half:])]
            whole = list(zip(positions, lines, strict=True))
            Answers(whole).check(log, cuts=10)
            Answers(whole).check(store.read("s"), cuts=10)
            for cut in (0, 1, half, len(lines) - 1):
                Answers(whole[:cut]).check(log.upto(positions[cut]), cuts=5)

    def test_a_branch_of_a_branch_answers_for_all_that_it_began_with(self, store: Store) -> None:
        lines = sample()
        third = len(lines) // 3
        with (
            closing(store.open("s")) as log,
            closing(_grown(log, lines[:third], lambda: store.branch("s", "child"))) as child,
            closing(
                _grown(child, lines[third : 2 * third], lambda: store.branch("s", "grandchild", of="child"))
            ) as grandchild,
        ):
            grandchild.append(lines[2 * third :])
            for other in (log, child):
                other.append([message("a1", "", "assistant", "a1", what="call", sevenfold_key="a1")])
            whole = list(grandchild.read())
            assert [line for _, line in whole] == lines
            Answers(whole).check(grandchild, cuts=10)

    def test_lines_are_bytes_of_any_kind_and_length(self, store: Store) -> None:
        lines = [b"\n", b"\x00\xff\xfe\n", "é\u2028\n".encode(), b"%s\\'\"\r\n", b"x" * 2_000_000 + b"\n"]
        with closing(store.open("s")) as log:
            assert list(log.append([])) == []
            positions = list(log.append(lines, durable=True))
            assert positions == [sum(map(len, lines[:number])) for number in range(len(lines))]
            assert list(log.read()) == list(zip(positions, lines, strict=True))
            for number, position in enumerate(positions):
                assert [line for _, line in log.read(position)] == lines[number:]
            assert list(log.read(positions[-1] + len(lines[-1]))) == []
        assert list(store.export("s")) == lines

    def test_of_all_that_open_a_session_at_once_one_writes(self, store: Store, tmp_path: Path) -> None:
        opened: list[Log] = []
        refused: list[TranscriptLocked] = []

        def write(own: Store) -> None:
            try:
                log = own.open("s")
                log.append([b"one\n"])
                opened.append(log)  # and stays open until all others have tried
            except TranscriptLocked as error:
                refused.append(error)

        self._at_once(write, tmp_path)
        assert (len(opened), len(refused)) == (1, WRITERS - 1)
        assert lines_of(store.read("s")) == [b"one\n"]

    def test_however_writers_overtake_one_another_none_writes_after_its_successor(
        self, store: Store, tmp_path: Path
    ) -> None:
        acknowledged: list[bytes] = []

        def write(own: Store) -> None:
            with suppress(TranscriptOvertaken), closing(own.open("s", take=True)) as log:
                for number in range(20):
                    line = b"%d %d\n" % (log.fence, number)
                    log.append([line])
                    acknowledged.append(line)

        self._at_once(write, tmp_path)
        # A takeover may leave an empty line, which every reader skips.
        kept = [line for line in lines_of(store.read("s")) if line.strip()]
        fences = [int(line.split()[0]) for line in kept]
        assert fences == sorted(fences)
        assert sorted(kept) == sorted(acknowledged)

    def _at_once(self, write: Callable[[Store], None], folder: Path) -> None:
        """Call a function in many threads at the same time, each with the store opened anew."""
        start = Barrier(WRITERS)
        failures: list[Exception] = []

        def run(store: Store) -> None:
            start.wait()
            try:
                write(store)
            except Exception as error:  # noqa: BLE001 (raised below, in the test's own thread)
                failures.append(error)

        with ExitStack() as stores:
            opened = [stores.enter_context(closing(self.open_store(folder))) for _ in range(WRITERS)]
            threads = [Thread(target=run, args=(store,)) for store in opened]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]


def _grown(log: Log, lines: Sequence[bytes], branch: Callable[[], Log]) -> Log:
    """A branch of a log that has these lines more."""
    log.append(lines)
    return branch()
