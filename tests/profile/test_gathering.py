"""Finding files, profiling many of them, and adding them up."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from sevenfold.archive.profile import files
from sevenfold.archive.profile.figures import ProfileReport
from sevenfold.archive.profile.files import profile_file
from sevenfold.errors import TranscriptForeign, TranscriptMissing
from sevenfold.stores.jsonl.log import LINE_LIMIT
from tests.profile.making import Rollout, Tape, call, result, text, usage


def session(folder: Path, name: str, ident: str, model: str = "claude-opus-4-5") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return Tape().user("go").answer(ident, usage(1_000, output=10), text("hi"), model=model).save(path)


def profiled(*paths: Path, jobs: int | None = None) -> ProfileReport:
    return files.profile(files.find(paths), jobs=jobs)


def test_of_a_folder_every_transcript_in_it_and_below_is_profiled(tmp_path: Path) -> None:
    session(tmp_path, "one.jsonl", "m1")
    session(tmp_path, "one/subagents/agent-a.jsonl", "m2")
    (tmp_path / "notes.txt").write_text("no transcript")
    profile = profiled(tmp_path)
    assert [Path(one.file).name for one in profile.sessions] == ["agent-a.jsonl", "one.jsonl"]
    assert profile.errors == []


def test_a_file_that_is_named_twice_is_profiled_once(tmp_path: Path) -> None:
    path = session(tmp_path, "one.jsonl", "m1")
    assert len(profiled(tmp_path, path, tmp_path / "." / "one.jsonl").sessions) == 1


def test_a_file_that_cannot_be_profiled_does_not_stop_the_others(tmp_path: Path) -> None:
    session(tmp_path, "good.jsonl", "m1")
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    profile = profiled(tmp_path, tmp_path / "missing.jsonl")
    assert len(profile.sessions) == 1
    assert {Path(error.file).name for error in profile.errors} == {"bad.jsonl", "missing.jsonl"}


def test_a_folder_without_transcripts_says_where_transcripts_are_kept(tmp_path: Path) -> None:
    (error,) = profiled(tmp_path).errors
    assert "no *.jsonl file" in error.error
    assert "~/.claude/projects" in error.error


def test_something_that_is_no_file_is_refused() -> None:
    (error,) = profiled(Path(os.devnull)).errors
    assert "neither a file nor a folder" in error.error


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"name,age\nada,36\n", "not JSONL"),
        (b"\x7fELF\0\0\0\1\n", "binary"),
        (b"\xff\xfe\x80 not text \x80\n", "not JSONL"),
        (b'[\n  {"task_id": 1, "traj": []}\n]\n', "not one record on each line"),
        (b'[{"task_id": 1, "traj": []}]', "not one record on each line"),
        (b'{"a": 1}\n{"a": 2}\n', "unknown kind (with a)"),
        (b'{"type":"session","version":9,"id":"x","cwd":"/"}\n', "pi session of version 9"),
        (
            b'{"id":"x","timestamp":"t","instructions":null}\n{"type":"message","role":"user"}\n',
            "early Codex",
        ),
        (b'"just a string"\n', "no line of it is a JSON object"),
    ],
)
def test_files_of_other_kinds_are_refused_with_what_they_look_like(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    with pytest.raises(TranscriptForeign, match="Sevenfold reads") as refused:
        profile_file(path)
    assert says in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TranscriptMissing):
        profile_file(tmp_path / "missing.jsonl")


def test_a_transcript_may_begin_with_damage_and_small_records(tmp_path: Path) -> None:
    tape = Tape().line("{torn").line(json.dumps({"type": "summary", "summary": "t", "leafUuid": "u"}))
    assert tape.user("go").answer("m1", usage(9), text("hi")).profile(tmp_path).api_calls == 1


def test_a_line_of_a_size_no_provider_takes_is_one_damaged_line(tmp_path: Path) -> None:
    path = Tape().user("go").answer("m1", usage(9), text("hi")).save(tmp_path / "tape.jsonl")
    records = path.read_bytes()
    with path.open("wb") as file:
        file.seek(LINE_LIMIT + 1)
        file.write(b"\n" + records)
    session, _ = profile_file(path)
    assert (session.damaged_lines, session.api_calls) == (1, 1)


def test_memory_follows_what_is_in_context_and_not_the_size_of_the_file(tmp_path: Path) -> None:
    tape = Tape()
    for number in range(40):
        tape.user("go").answer(f"m{number}", usage(60_000), call("Read", f"t{number}", file_path="/a"))
        tape.user(result(f"t{number}", f"{number} " * 50_000)).compacted()
    path = tape.save(tmp_path / "tape.jsonl")
    profile_file(path)
    tracemalloc.start()
    session, _ = profile_file(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert session.compactions == 40
    assert peak < path.stat().st_size / 4


def test_totals_are_sums_and_the_largest_peak(tmp_path: Path) -> None:
    session(tmp_path, "a.jsonl", "m1")
    tape = Tape().user("go").answer("m2", usage(0, 0, 40_000), text("one")).line("{torn").user("on")
    tape.answer("m3", usage(0, 0, 41_000), text("two")).compacted().save(tmp_path / "b.jsonl")
    profile = profiled(tmp_path)
    total, (one, other) = profile.total, profile.sessions
    assert total.sessions == 2
    for name in ("api_calls", "compactions", "clearings", "damaged_lines", "unpriced_calls"):
        assert getattr(total, name) == getattr(one, name) + getattr(other, name)
    assert total.usage.prompt == 82_000
    assert total.peak_context_tokens == 41_000
    assert [(each.cause, each.tokens, each.count) for each in total.cache_breaks] == [
        ("unexplained", 40_000, 1)
    ]
    assert total.tokens_by_category["user_text"] == sum(
        each.tokens_by_category["user_text"] for each in profile.sessions
    )
    assert one.cost_usd is not None
    assert other.cost_usd is not None
    assert total.cost_usd == pytest.approx(one.cost_usd + other.cost_usd)


def test_a_total_leaves_out_what_has_no_price_and_says_how_much(tmp_path: Path) -> None:
    known, unknown = session(tmp_path, "a.jsonl", "m1"), session(tmp_path, "b.jsonl", "m2", "nobody-knows")
    both = profiled(known, unknown)
    assert both.total.cost_usd == both.sessions[0].cost_usd
    assert both.total.unpriced_calls == 1
    assert profiled(unknown).total.cost_usd is None


def test_calls_that_were_copied_into_another_file_are_told(tmp_path: Path) -> None:
    session(tmp_path, "a.jsonl", "m1")
    session(tmp_path, "b.jsonl", "m1")
    assert profiled(tmp_path).total.copied_calls == 1


def test_several_processes_give_the_same_result_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        session(tmp_path, f"{number}.jsonl", f"m{number}")
    Rollout().record("session_meta", id="r").count(prompt=9_000).save(tmp_path / "r.jsonl")
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    alone = profiled(tmp_path, jobs=1)
    monkeypatch.setattr(files, "SMALL", 0)
    seen: list[tuple[int, int]] = []
    found = files.find([tmp_path])
    together = files.profile(found, jobs=2, progress=lambda done, work: seen.append((done, work)))
    assert together == alone
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] == sum(file.stat().st_size for file in found.files)
