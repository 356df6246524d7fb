"""A decision counts whole or not at all, wherever its writing is cut off, and the next request is accepted."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.conversation.resume import resume
from sevenfold.errors import TranscriptFull
from sevenfold.events import Acted, Failed
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.memory import MemoryLog
from tests.engine.working import (
    ASKED,
    BOUND,
    MODELS,
    SYSTEM,
    TOOLS,
    World,
    output,
    rounds_of,
    tool,
    uuids,
    world,
)
from tests.support import PROVING

Step = Callable[[World, sevenfold.Session], object]
OTHER = {"system": "Another system prompt. " + SYSTEM, "tools": [*TOOLS, tool("Grep", "search")]}


def compact(here: World, session: sevenfold.Session) -> None:
    session.compact(engine="provider" if session.conversation.profile.on_demand_compaction else "fork")


def fold(here: World, session: sevenfold.Session) -> None:
    starts, names = rounds_of(session), uuids(session)
    last = names[names.index(starts[3]) - 1]
    session.compact(engine="extractive", span="range", record=starts[1], until=last)


def snip(here: World, session: sevenfold.Session) -> None:
    starts, names = rounds_of(session), uuids(session)
    session.snip(starts[1], names[names.index(starts[2]) - 1])


def clear(here: World, session: sevenfold.Session) -> None:
    session.user("And now?")
    here.clock.advance(4_000)
    session.prepare()
    assert here.told(Acted, layer="clear")


def rewind(here: World, session: sevenfold.Session) -> None:
    session.rewind(rounds_of(session)[2])
    session.user("Another way, please.")


def undo(here: World, session: sevenfold.Session) -> None:
    session.undo()


def redo(here: World, session: sevenfold.Session) -> None:
    session.redo()


def work(here: World, session: sevenfold.Session) -> None:
    here.work(session, 1, 60)


def say_meanwhile(here: World, session: sevenfold.Session) -> None:
    """The user speaks, twice, while the model answers."""

    def before(call: object) -> None:
        here.line.before = lambda call: None
        session.user("By the way: be quick.")
        session.user("And quiet.")

    here.line.before = before
    here.answer(session, session.complete(), 60)


def pin(here: World, session: sevenfold.Session) -> None:
    session.pin(uuids(session)[0])


def big_results(here: World, session: sevenfold.Session) -> None:
    done = session.complete()
    session.tool_results({call.id: output(60_000) for call in done.calls})
    session.prepare()


def follow(here: World, session: sevenfold.Session) -> None:
    """The caller's own list has other messages than the session at its end, and more of them."""
    messages = [json.loads(raw) for raw in session.conversation.transcript.view.encoded()][:5]
    session.sync(
        [
            *messages,
            {"role": "assistant", "content": "What next?"},
            {"role": "user", "content": "Another way, please."},
        ]
    )


OPERATIONS: dict[str, tuple[list[Step], dict[str, Any]]] = {
    "compact": ([compact], {}),
    "undo a compaction": ([compact, undo], {}),
    "undo an older compaction": ([compact, work, undo], {}),
    "redo a compaction": ([compact, work, undo, work, redo], {}),
    "fold": ([fold], {}),
    "undo a fold": ([fold, work, undo], {}),
    "redo a fold": ([fold, undo, redo], {}),
    "snip": ([snip], {}),
    "undo a snip": ([snip, work, undo], {}),
    "redo a snip": ([snip, undo, work, redo], {}),
    "clear": ([clear], {}),
    "undo a clearing": ([clear, work, undo], {}),
    "redo a clearing": ([clear, undo, redo], {}),
    "rewind": ([rewind], {}),
    "rewind to before a compaction": ([compact, work, undo, rewind], {}),
    "rewind over a snip": ([snip, work, rewind], {}),
    "follow a list": ([follow], {}),
    "speak meanwhile": ([say_meanwhile], {}),
    "pin": ([pin], {}),
    "big results": ([big_results], {}),
    "another model": ([work], {"model": "claude-haiku-4-5", "thinking": None}),
    "other system and tools": ([work], OTHER),
    "other system and tools after a pause": ([work], {**OTHER, "tools": TOOLS[:1]}),
}
"""By name: what is done, of which the last step is cut off, and how the session is opened for that step."""
WHOLE = ("undo", "redo", "snip", "follow")
"""Operations that write nothing but one decision."""


class Trial:
    """A session on which an operation was carried out, and the bytes that its last step wrote."""

    def __init__(self, here: World, folder: Path, name: str, model: str) -> None:
        steps, self._more = OPERATIONS[name]
        self._here, self._folder = here, folder
        clearing = {"gap_clearing": True, "gap_keep": 1, "size_least_tokens": 1}
        self._options: dict[str, Any] = {"model": model, "settings": clearing}
        self.file = folder / "whole.jsonl"
        with here.open(self.file, **self._options) as session:
            session.user(ASKED)
            here.work(session, 7, 2_000)
            for step in steps[:-1]:
                step(here, session)
        self.last = steps[-1]
        self.start = self.file.stat().st_size
        self.before = self.file.read_bytes()
        with self.opened(self.file) as session:
            self.last(here, session)
        self.written = self.file.read_bytes()[self.start :]

    def opened(self, file: Path) -> sevenfold.Session:
        return self._here.open(file, **{**self._options, **self._more})

    def cut(self, size: int) -> Path:
        """The session with so many bytes of the last step."""
        file = self._folder / f"{size}.jsonl"
        file.write_bytes(self.before + self.written[:size])
        return file

    def goes_on(self, file: Path) -> None:
        """The next request is taken as it is, and the session lives on."""
        self._here.events.clear()
        with self.opened(file) as session:
            if session.conversation.waiting:
                session.tool_results(dict.fromkeys(session.conversation.waiting, "done"))
            newest = session.conversation.transcript.view.newest
            if newest is None or newest.record.role == "assistant":
                session.user("Go on.")
            self._here.work(session, 1, 60)
        assert self._here.told(Failed) == []


def seen(file: Path) -> tuple[Any, ...]:
    """Everything the next request depends on."""
    view = resume(JsonlLog(file))
    return view.encoded(), view.tip, view.boundary, view.epoch, view.undone


@pytest.mark.spec("S10.5", "S8.4", "S9.2")
@pytest.mark.parametrize("model", MODELS if PROVING else [BOUND])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_cut_off_anywhere_the_next_request_is_accepted(name: str, model: str, tmp_path: Path) -> None:
    with world() as here:
        trial = Trial(here, tmp_path, name, model)
        ends = [place + 1 for place, byte in enumerate(trial.written) if byte == 0x0A]
        middles = [(here + there) // 2 for here, there in zip([0, *ends], ends, strict=False)]
        places = range(0, len(trial.written), 97) if PROVING else []
        for size in sorted({0, *ends, *middles, *places}):
            trial.goes_on(trial.cut(size))


@pytest.mark.spec("S10.5", "S10.1")
@pytest.mark.parametrize("model", MODELS if PROVING else [BOUND])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name.split()[0] in WHOLE])
def test_taken_back_or_made_again_it_counts_whole_or_not_at_all(
    name: str, model: str, tmp_path: Path
) -> None:
    with world() as here:
        trial = Trial(here, tmp_path, name, model)
        end = len(trial.written)
        before, after = seen(trial.cut(0)), seen(trial.cut(end))
        assert before != after
        places = [*range(0, end - 1, 1 if PROVING else 97), end - 2]
        assert {place for place in places if seen(trial.cut(place)) != before} == set()
        # Only its line end is missing then, and the next writer puts that there.
        assert seen(trial.cut(end - 1)) == after


class Disk:
    """Takes so many more bytes, and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, handle: int, data: Any) -> int:
        taken = len(data) if self.room is None else min(self.room, len(data))
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.room is not None:
            self.room -= taken
        return self._write(handle, bytes(data)[:taken])


@pytest.mark.spec("S10.5", "S8.5")
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_on_a_full_disk_what_is_seen_is_what_is_on_record(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    with world() as here:
        trial = Trial(here, tmp_path, name, BOUND)
        ends = [place + 1 for place, byte in enumerate(trial.written) if byte == 0x0A]
        for size in [0, 10, *(end + more for end in ends[:-1] for more in (0, 50))]:
            file = trial.cut(0)
            disk.room = size
            with suppress(TranscriptFull), trial.opened(file) as session:
                try:
                    trial.last(here, session)
                finally:
                    disk.room, here.line.before = None, lambda call: None
                    view, frame = session.conversation.transcript.view, session.conversation.epoch.frame
                    whole = file.read_bytes().rpartition(b"\n")[0] + b"\n"
                    on_record = resume(MemoryLog(whole.splitlines(keepends=True)))
                    assert view.encoded() == on_record.encoded()
                    assert on_record.epoch is not None
                    assert frame.model == on_record.epoch.model
            disk.room = None
            trial.goes_on(file)
