"""Following a session while it is written, and what every prompt of it consisted of."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sevenfold.archive.log_reader import LogReader, SessionHistory, session_key
from sevenfold.archive.profile.files import profile_file
from sevenfold.archive.profile.transcript import TranscriptReader
from sevenfold.errors import TranscriptMissing
from sevenfold.stores.jsonl.lock import FileLock, is_held
from sevenfold.stores.jsonl.log import scan
from tests.profile.making import Tape, call, result, text, usage


def tape_of(turns: int) -> Tape:
    tape = Tape()
    size = 1000
    for number in range(turns):
        tape.user(f"Question {number}: " + "word " * 30)
        read = size if number else 0
        size += 400
        reading = call("Read", f"t{number}", file_path=f"/f{number % 3}")
        tape.answer(f"m{number}", usage(10, read, size - read, output=20), text("Answer."), reading)
        tape.user(result(f"t{number}", "line\n" * 50))
    return tape


def state_of(reader: LogReader) -> list[object]:
    lane = reader.history.main
    return [
        [(sent.request, sent.report, list(sent.sizes), sent.usd) for sent in lane.requests],
        [
            (stay.record, stay.entered, stay.left, stay.held.tokens)
            for stay in lane.lifetimes
            if stay.record
        ],
        reader.history.records,
        reader.reader.books.breaks,
    ]


@pytest.mark.spec("S33.1")
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 12_000), max_size=6))
def test_a_session_read_in_any_pieces_is_the_same_as_one_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("followed")
    whole = folder / "whole.jsonl"
    tape_of(6).save(whole)
    content = whole.read_bytes()
    growing = folder / "growing.jsonl"
    growing.write_bytes(content[: content.index(b"\n") + 1])
    reader = LogReader(growing)
    for cut in sorted(min(cut, len(content)) for cut in cuts):
        growing.write_bytes(content[: max(cut, content.index(b"\n") + 1)])
        reader.catch_up()
    growing.write_bytes(content)
    reader.catch_up()
    at_once = LogReader(whole)
    at_once.catch_up()
    assert state_of(reader) == state_of(at_once)
    assert reader.version == 1


moves = st.lists(
    st.tuples(
        st.sampled_from(["talk", "read", "parallel", "clear", "compact", "rewind", "picture", "error"]),
        st.integers(0, 4_000),
    ),
    max_size=25,
)


@pytest.mark.spec("S33.12")
@given(moves)
def test_what_is_known_of_a_session_is_the_same_without_its_content_in_memory(
    tmp_path_factory: pytest.TempPathFactory, happened: list[tuple[str, int]]
) -> None:
    tape = Tape()
    calls: list[str] = []
    for number, (move, size) in enumerate([("talk", 200), *happened]):
        words = f"{number} " + "word " * (size // 5)
        tape.user(words)
        if move == "clear" and calls:
            tape.cleared(*calls[::2])
        if move == "compact":
            tape.compacted(words)
        if move == "rewind":
            tape.parent = f"u{max(0, len(tape.lines) - 4)}"
            tape.user("Otherwise: " + words)
        names = [f"t{number}-{part}" for part in range(2 if move == "parallel" else 1)]
        asked = [call("Read", name, file_path=f"/{name}", about=words) for name in names]
        prompt = usage(100 + size, number * 50, 300, output=9)
        tape.answer(f"m{number}", prompt, text(words), text("  "), *(asked if move != "talk" else []))
        if move == "talk":
            continue
        calls += names
        shown: Any = (
            [{"type": "image", "source": {"data": "AAAA" * 30}}, text(words)]
            if move == "picture"
            else words
        )
        for name in names:
            tape.user(result(name, shown, **({"is_error": True} if move == "error" else {})))
    path = tape.save(tmp_path_factory.mktemp("slim") / "s.jsonl")
    slim = LogReader(path)
    slim.catch_up()
    whole = SessionHistory()
    reader = TranscriptReader(watch=whole)
    for line in scan(path):
        reader.take(line)

    def known(history: SessionHistory) -> list[Any]:
        lane = history.main
        return [
            [(sent.request, sent.report, list(sent.sizes), sent.usd) for sent in lane.requests],
            sorted(
                (stay.record, stay.entered, stay.left or -1, stay.held.tokens, stay.held.piece.category,
                 stay.held.piece.tool, stay.held.piece.what)
                for stay in lane.lifetimes
                if stay.record
            ),
        ]  # fmt: skip

    assert known(slim.history) == known(whole)
    assert slim.reader.books.breaks == reader.books.breaks
    figures = slim.reader.figures(path)
    assert slim.reader.figures(path) == figures, "looking changes nothing"
    assert msgspec.structs.replace(profile_file(path)[0], repairs={}, format="transcript") == (
        msgspec.structs.replace(figures, repairs={}, format="transcript")
    )


@pytest.mark.spec("S33.1")
def test_a_torn_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    tape_of(3).save(path)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    path.write_bytes(content[: -(len(lines[-1]) // 2)])
    reader = LogReader(path)
    reader.catch_up()
    before = reader.history.records
    assert not reader.catch_up()
    path.write_bytes(content)
    assert reader.catch_up()
    assert reader.history.records > before
    assert reader.reader.books.damaged == 0


@pytest.mark.spec("S33.1")
def test_a_writer_that_takes_over_is_followed_in_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    tape_of(2).save(path)
    reader = LogReader(path)
    reader.catch_up()
    copy = tmp_path / "copy"
    longer = tmp_path / "longer.jsonl"
    tape_of(3).save(longer)
    copy.write_bytes(path.read_bytes() + b"\n" + longer.read_bytes()[path.stat().st_size :])
    copy.replace(path)
    reader.catch_up()
    assert reader.version == 1
    assert len(reader.history.main.requests) == 3


@pytest.mark.spec("S33.1")
def test_another_session_in_its_place_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    tape_of(5).save(path)
    reader = LogReader(path)
    reader.catch_up()
    tape_of(2).save(path)
    reader.catch_up()
    assert reader.version == 2
    assert len(reader.history.main.requests) == 2
    path.unlink()
    with pytest.raises(TranscriptMissing):
        reader.catch_up()


@pytest.mark.spec("S33.2")
def test_the_parts_of_every_prompt_add_up_to_what_the_provider_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    tape_of(8).save(path)
    reader = LogReader(path)
    reader.catch_up()
    lane = reader.history.main
    assert len(lane.requests) == 8
    for place, sent in enumerate(lane.requests):
        assert sum(sent.sizes) == pytest.approx(sent.report.prompt)
        assert sum(tokens for _, tokens in lane.composition(place)) == pytest.approx(sent.report.prompt)


@pytest.mark.spec("S33.2")
def test_a_prompt_that_shrank_for_no_reason_on_record_still_adds_up(tmp_path: Path) -> None:
    tape = tape_of(4)
    tape.user("And now?")
    tape.answer("small", usage(700, 0, 0, output=5), text("Less."))
    path = tmp_path / "s.jsonl"
    tape.save(path)
    reader = LogReader(path)
    reader.catch_up()
    newest = reader.history.main.requests[-1]
    assert sum(newest.sizes) == pytest.approx(700)
    assert min(newest.sizes) >= 0


@pytest.mark.spec("S33.2")
def test_cost_and_breaks_are_those_of_the_profile(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    tape_of(8).save(path)
    reader = LogReader(path)
    reader.catch_up()
    profile, _ = profile_file(path)
    assert sum(sent.usd or 0 for sent in reader.history.main.requests) == pytest.approx(profile.cost_usd)
    assert reader.reader.books.breaks == profile.cache_breaks


@pytest.mark.spec("S33.1")
def test_a_message_is_found_where_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    tape_of(3).save(path)
    reader = LogReader(path)
    reader.catch_up()
    for uuid in reader.history.positions:
        line = reader.record(uuid)
        assert line is not None
        assert uuid.encode() in line
    assert reader.record("nobody") is None


def test_the_id_of_a_session_says_nothing_of_its_path(tmp_path: Path) -> None:
    key = session_key(tmp_path / "secret-project" / "s.jsonl")
    assert key == session_key(tmp_path / "secret-project" / "s.jsonl")
    assert set(key) <= set("0123456789abcdef")
    assert key != session_key(tmp_path / "other.jsonl")


def test_whether_a_lock_is_held_is_seen_without_touching_it(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    assert not is_held(path)
    lock = FileLock(path)
    before = shutil.copyfile(tmp_path / "s.jsonl.lock", tmp_path / "kept")
    assert is_held(path)
    assert (tmp_path / "s.jsonl.lock").read_bytes() == before.read_bytes()
    lock.release()
    assert not is_held(path)
