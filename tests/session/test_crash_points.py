"""A crash at any point between a result's arrival and the request: nothing is lost, and the same bytes go out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.clock import ManualClock
from sevenfold.ports import Log, Results
from sevenfold.recall.index import SessionRecall
from sevenfold.session import factory as opened
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.jsonl.store import FileResults
from sevenfold.stores.log import LineLog
from tests.session.talking import ALONE, ASK, BOUND, FREE, READ, SHELL, calling, fake_reply, output, thought

SETTINGS = {
    **ALONE,
    "offload_characters": 20_000,
    "round_characters": 30_000,
    "preview_bytes": 500,
    "gap_keep": 1,
    "provider_edits": False,
}
RESULTS = {
    "t_big": output("a big one\n", 4_000),
    "t_large": output("a large one\n", 1_600),
    "t_other": output("another\n", 1_800),
    "t_small": "small",
}


class Crash(Exception):
    """The process ends here."""


class Fuse:
    """Burns through at the n-th operation; afterwards nothing works any more."""

    def __init__(self, after: int | None, *, torn: bool = False) -> None:
        self.left = after
        self.torn = torn
        self.operations = 0

    def burns(self) -> bool:
        self.operations += 1
        return self.left is not None and self.operations > self.left


class BurningLog(LineLog):
    """A log that ends the process at some write, leaving none of it or half a line."""

    def __init__(self, log: JsonlLog, fuse: Fuse) -> None:
        self._log, self._fuse = log, fuse

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        if self._fuse.burns():
            if self._fuse.torn and self._fuse.operations == (self._fuse.left or 0) + 1:
                data = b"".join(lines)
                with self._log.path.open("ab") as file:
                    file.write(data[: len(data) // 2])
            raise Crash
        return self._log.append(lines, durable=durable)

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        return self._log.read(start)

    def find(self, text: bytes, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        return self._log.find(text, before)

    def close(self) -> None:
        self._log.close()


class BurningResults:
    """A store of results that ends the process before or after it has stored one."""

    def __init__(self, results: FileResults, fuse: Fuse) -> None:
        self._results, self._fuse = results, fuse
        self.directory = results.directory

    def keep(self, name: str, content: bytes) -> str:
        if self._fuse.burns():
            if self._fuse.torn:
                self._results.keep(name, content)
            raise Crash
        return self._results.keep(name, content)

    def fetch(self, path: str) -> bytes:
        return self._results.fetch(path)


def session(folder: Path, clock: ManualClock, fuse: Fuse, **options: Any) -> sevenfold.Session:
    log = JsonlLog.open(folder / "s.jsonl")
    burning: Log = BurningLog(log, fuse)
    results: Results = BurningResults(FileResults(folder / "tool-results"), fuse)
    recall = SessionRecall(burning, None, results)
    store = replace(opened.in_memory("s", SETTINGS), log=burning, results=results, recall=recall)
    given: Any = {"clock": clock, "tools": [READ, SHELL, ASK], "max_tokens": 4_000, **options}
    try:
        return sevenfold.Session(opened.conversation(store, given.pop("model"), given), store)
    except Crash:
        log.close()
        raise


def history(folder: Path, clock: ManualClock, model: str) -> None:
    """A session with old results, up to calls that wait."""
    with session(folder, clock, Fuse(None), model=model, system="The first one.") as held:
        held.user("begin")
        for number in range(8):
            _ = held.prepare().body
            held.observe(
                fake_reply(thought(), calling(f"t{number}"), number=number, prompt=4_000 * number + 2_000)
            )
            held.tool_results({f"t{number}": output("old output\n", 1_500)})
        _ = held.prepare().body
        calls = [calling(name) for name in RESULTS]
        held.observe(fake_reply(thought(), *calls, number=99, prompt=40_000))


def mid_turn(held: sevenfold.Session) -> bytes:
    """Results arrive, and the request goes out."""
    held.tool_results(RESULTS)
    return held.prepare().body


def next_turn(held: sevenfold.Session) -> bytes:
    """Results arrive, the model has finished, and after a pause the user speaks."""
    held.tool_results(RESULTS)
    held.user("good morning", key="morning")
    return held.prepare().body


@pytest.mark.spec("S8.4", "S8.5", "S10.1", "S1.3")
@pytest.mark.parametrize("model", [BOUND, FREE])
@pytest.mark.parametrize(("flow", "torn"), [(mid_turn, True), (next_turn, False), (next_turn, True)])
@pytest.mark.parametrize("system", ["The first one.", "Another one."])
def test_after_a_crash_anywhere_the_same_request_goes_out(
    flow: Any, model: str, system: str, torn: bool, tmp_path: Path
) -> None:
    clock = ManualClock()
    ground = tmp_path / "ground"
    ground.mkdir()
    history(ground, clock, model)
    clock.advance(4_000)

    def run(name: str, fuse: Fuse, again: bool = False) -> bytes:
        folder = tmp_path / name
        if not again:
            shutil.copytree(ground, folder)
        with session(folder, clock, fuse, model=model, system=system) as held:
            body = bytes(flow(held))
            for call, content in RESULTS.items():
                assert held.fetch(call) == content.encode()
            return body

    fuse = Fuse(None)
    expected = named(run("whole", fuse), tmp_path / "whole")
    assert fuse.operations >= 4
    if flow is next_turn and model == FREE:
        assert b"Old tool result content cleared" in expected
    for point in range(fuse.operations):
        with pytest.raises(Crash):
            run(f"at{point}", Fuse(point, torn=torn))
        body = run(f"at{point}", Fuse(None), again=True)
        assert named(body, tmp_path / f"at{point}") == expected, f"after a crash at operation {point}"


def named(body: bytes, folder: Path) -> bytes:
    """The body with the folder's own path, which previews name, left out."""
    return body.replace(str(folder).encode(), b"FOLDER")
