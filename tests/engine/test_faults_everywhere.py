"""A compaction is one write: cut off at every byte, stopped at every step, out of room at every write."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.conversation.flow import Ask, Fire, Run
from sevenfold.conversation.hooks import HookOutcome
from sevenfold.conversation.resume import resume
from sevenfold.errors import Aborted, PromptTooLong, ProviderFailed, TranscriptFull
from sevenfold.events import Compacted
from sevenfold.layers.compact.compaction import CompactionRequest
from sevenfold.layers.on_request import compact
from sevenfold.ports import Call
from sevenfold.record.view import View
from sevenfold.stores.jsonl.log import JsonlLog
from tests.engine.working import ASKED, BOUND, FREE, World, body, texts, uuids, world
from tests.support import PROVING

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

SMALL: dict[str, Any] = {"tools": [], "system": "Be careful."}


def fold(view: View) -> tuple[Any, ...]:
    """Everything the next request depends on."""
    epoch = view.epoch.id if view.epoch else ""
    return view.encoded(), view.tip, view.boundary, epoch, view.carry, view.undone


def on_record(file: Path) -> tuple[Any, ...]:
    """The same, as whoever opens the file finds it."""
    return fold(resume(JsonlLog(file)))


class Ground:
    """A short session with something to restore, from which any number of trials begin."""

    def __init__(self, here: World, folder: Path, turns: int, **more: Any) -> None:
        self._here, self._folder, self._more = here, folder, {**SMALL, **more}
        self._trials = count(1)
        self._file = folder / "ground.jsonl"
        with here.open(self._file, **self._more) as session:
            session.user(ASKED)
            session.pin(uuids(session)[0])
            here.work(session, turns, 60)

    @contextmanager
    def trial(self) -> Iterator[tuple[sevenfold.Session, Path]]:
        """A copy, opened."""
        file = self._folder / f"{next(self._trials)}.jsonl"
        shutil.copy(self._file, file)
        with self._here.open(file, **self._more) as session:
            yield session, file


def compacted(ground: Ground, engine: Any) -> tuple[Path, int, int]:
    """A compacted session, and where in its file the compaction's write lies."""
    with ground.trial() as (session, file):
        done = session.compact(engine=engine)
        assert done is not None
        assert done.engine == engine
        assert done.restored == ("pins",)
    whole = file.read_bytes()
    start = whole.rindex(b"\n", 0, whole.index(b'"compact_boundary"')) + 1
    end = whole.index(b"\n", whole.index(b'"kind":"commit"')) + 1
    return file, start, end


# Cut off


@pytest.mark.spec("S4.16", "S8.4", "S4.11")
@pytest.mark.parametrize(
    ("model", "engine", "stride"), [(BOUND, "extractive", 11), (BOUND, "provider", 19), (FREE, "fork", 19)]
)
def test_cut_off_at_every_byte_it_is_the_conversation_before_and_only_whole_the_one_after(
    model: str, engine: str, stride: int, tmp_path: Path
) -> None:
    with world() as here:
        file, start, end = compacted(Ground(here, tmp_path, 2, model=model), engine)
    lines = file.read_bytes()[start:end].splitlines(keepends=True)
    assert any(b'"attachment"' in line for line in lines)
    ends = {start + sum(map(len, lines[:number])) for number in range(1, len(lines))}
    stride = 1 if PROVING else stride
    places = {*range(start, end, stride), *ends, *(place - 1 for place in ends), end - 1}
    os.truncate(file, end)
    after, found = on_record(file), {}
    for place in sorted(places, reverse=True):
        os.truncate(file, place)
        found[place] = on_record(file)
    # Only its line end is missing then, and the next writer puts that there.
    assert found.pop(end - 1) == after
    before = found[start]
    assert after != before
    assert [place - start for place in found if found[place] != before] == []


# Stopped


def stop_at(
    session: sevenfold.Session, here: World, wish: CompactionRequest, step: int, how: BaseException | None
) -> None:
    """Compact, but stop before a step is answered, by an error or by going away; or come to the end first."""
    with (
        closing(compact(session.conversation, wish)) as flow,
        suppress(StopIteration, Aborted, KeyboardInterrupt),
    ):
        wanted = next(flow)
        for _ in range(step):
            match wanted:
                case Ask(call=call):
                    wanted = flow.send(here.line.ask(call))
                case Fire():
                    wanted = flow.send(HookOutcome(event=""))
                case Run(now=now):
                    wanted = flow.send(now())
        if how is not None:
            flow.throw(how)


@pytest.mark.spec("S4.16", "S4.11")
@pytest.mark.parametrize("how", [Aborted("stopped"), KeyboardInterrupt(), None])
@pytest.mark.parametrize(
    ("trigger", "engine"),
    [("manual", "provider"), ("auto", "fork"), ("manual", "plain"), ("auto", "extractive")],
)
def test_stopped_at_any_step_the_conversation_is_as_it_was_or_compacted(
    trigger: Any, engine: Any, how: BaseException | None, tmp_path: Path
) -> None:
    seen: list[bool] = []
    with world() as here:
        ground = Ground(here, tmp_path, 3)
        for step in range(8):
            with ground.trial() as (session, file):
                before, told = fold(session.conversation.transcript.view), len(here.told(Compacted))
                stop_at(session, here, CompactionRequest(trigger=trigger, engine=engine), step, how)
                now, done = fold(session.conversation.transcript.view), len(here.told(Compacted)) > told
                assert (now != before) == done
                assert on_record(file) == now
                assert session.health.status == ""
                assert ASKED in texts(body(session))
                here.work(session, 1)
                seen.append(done)
    assert seen == sorted(seen)
    assert 2 <= seen.count(False) < len(seen)


# Failing calls


def failing(times: int, kind: type[Any]) -> Callable[[Call], None]:
    left = iter(range(times))

    def before(call: Call) -> None:
        if call.source == "compact" and next(left, None) is not None:
            raise kind("prompt is too long: 9000 tokens > 8000 maximum")

    return before


@pytest.mark.spec("S4.6", "S4.11", "S4.12")
@pytest.mark.parametrize("engine", [None, "provider", "fork", "plain"])
@pytest.mark.parametrize("kind", [PromptTooLong, ProviderFailed])
def test_however_often_a_call_fails_it_is_compacted_and_nothing_is_lost(
    kind: type[Any], engine: Any, tmp_path: Path
) -> None:
    with world() as here:
        ground = Ground(here, tmp_path, 5)
        for times in (1, 2, 3, 4, 5, 7, 12):
            with ground.trial() as (session, file):
                here.line.before = failing(times, kind)
                done = session.compact(engine=engine)
                assert done is not None
                assert done.score.total.lost == 0
                assert done.engine == "extractive" or times < 12
                assert on_record(file) == fold(session.conversation.transcript.view)
                assert ASKED in texts(body(session))
                here.work(session, 1)


# No room


class Disk:
    """Takes so many more bytes, or so many writes, and then no more until it is emptied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self.writes_left: int | None = None
        self.writes = 0
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, handle: int, data: Any) -> int:
        self.writes += 1
        if self.writes_left is not None:
            self.writes_left -= 1
        taken = len(data) if self.room is None else min(self.room, len(data))
        if not taken or (self.writes_left is not None and self.writes_left < 0):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.room is not None:
            self.room -= taken
        return self._write(handle, bytes(data)[:taken])

    def empty(self) -> None:
        self.room = self.writes_left = None


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.spec("S8.4", "S8.5", "S4.11")
@pytest.mark.parametrize("engine", ["provider", "extractive"])
def test_with_room_for_only_a_part_of_it_nothing_changes_and_later_all_of_it_does(
    engine: Any, disk: Disk, tmp_path: Path
) -> None:
    with world() as here:
        ground = Ground(here, tmp_path, 2)
        file, start, end = compacted(ground, engine)
        lines = file.read_bytes()[start:end].splitlines(keepends=True)
        ends = [sum(map(len, lines[:number])) for number in range(len(lines))]
        for room in [*ends, *(place + 1 for place in ends), *(place - 1 for place in ends[1:])]:
            with ground.trial() as (session, file):
                before = fold(session.conversation.transcript.view)
                disk.room = room
                with pytest.raises(TranscriptFull):
                    session.compact(engine=engine)
                assert fold(session.conversation.transcript.view) == on_record(file) == before
                disk.empty()
                assert session.compact(engine=engine) is not None
                now = fold(session.conversation.transcript.view)
                assert now == on_record(file) != before
                here.work(session, 1)


@pytest.mark.spec("S8.4", "S8.5")
def test_with_no_room_at_any_write_of_a_session_what_is_on_record_is_what_is_seen(
    disk: Disk, tmp_path: Path
) -> None:
    def answer(session: sevenfold.Session) -> None:
        session.tool_results(dict.fromkeys(session.conversation.transcript.view.pending_calls, "done"))

    work: list[Callable[[sevenfold.Session], object]] = [
        lambda session: session.user(ASKED),
        lambda session: session.complete(),
        answer,
        lambda session: session.complete(),
        answer,
        lambda session: session.compact(engine="extractive"),
        lambda session: session.complete(),
        answer,
    ]

    def run(writes: int | None) -> bool:
        """The same work each time; what finds no room is done again once there is some."""
        failed = False
        file = tmp_path / f"{writes}.jsonl"
        with here.open(file, model=BOUND, **SMALL) as session:
            disk.writes, disk.writes_left = 0, writes
            for step in work:
                try:
                    step(session)
                except TranscriptFull:
                    failed = True
                    assert on_record(file) == fold(session.conversation.transcript.view)
                    disk.empty()
                    step(session)
            assert on_record(file) == fold(session.conversation.transcript.view)
            assert texts(body(session)).count(ASKED) >= 1
            assert len(here.told(Compacted)) == 1
        here.events.clear()
        disk.empty()
        return failed

    with world() as here:
        assert not run(None)
        writes = disk.writes
        assert writes > 8
        assert all(run(number) for number in range(writes - 1))
