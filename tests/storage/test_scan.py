"""`sevenfold scan`: finds what was stored, says where, and never shows it."""

from __future__ import annotations

import json

import pytest

from sevenfold.archive.upkeep.secrets import SIZE, pieces, scan
from sevenfold.cli import scan as scan_command
from sevenfold.record.redact import digest
from sevenfold.stores.home import Home
from tests.redaction.making import ALONE, Maker
from tests.storage.making import Worker, run

SECRET = ALONE["github-token"](Maker())
OTHER = ALONE["npm-token"](Maker())
KEY = ALONE["private-key"](Maker())


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture
def worker(home) -> Worker:
    worker = Worker(home, "s-1")
    worker.turn(f"take {SECRET}", f"I took {SECRET}", id="a")
    worker.files.notes.parent.mkdir()
    worker.files.notes.write_text(f"one\ntwo\n{OTHER}\n")
    worker.close()
    return worker


def asked(worker: Worker) -> str:
    return worker.script.view.items[0].record.uuid


def test_everything_kept_is_looked_at_and_nothing_is_shown(worker, capsys):
    worker.results.keep("t1", f"a\nb {OTHER}".encode())
    assert run(scan_command) == 1
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert OTHER not in out + err
    assert f"github-token         {digest(SECRET)}  2 times, lines 2, 3 ({asked(worker)}, " in out
    assert out.count(f"npm-token            {digest(OTHER)}  once, line ") == 2
    assert "2 secrets in 3 of 3 files" in out


def test_the_json_names_every_place(worker, capsys):
    assert run(scan_command, "--json", worker.files.transcript, worker.files.notes) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["scanned"], report["secrets"], report["errors"]) == (2, 2, [])
    first, second = report["files"]
    (found,) = first["findings"]
    assert (found["kind"], found["digest"], found["count"]) == ("github-token", digest(SECRET), 2)
    assert found["lines"] == [2, 3]
    assert found["records"][0] == asked(worker)
    assert second["findings"][0]["lines"] == [3]


def test_a_clean_home_is_clean(home, capsys):
    assert run(scan_command) == 0
    worker = Worker(home, "s-1")
    worker.turn("nothing to hide", id="a")
    worker.close()
    assert run(scan_command) == 0
    assert capsys.readouterr().out.endswith("No secrets in 1 file.\n")


def test_a_folder_is_searched_for_texts_of_any_tool(tmp_path, capsys):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.jsonl").write_text(
        json.dumps({"type": "user", "message": {"content": KEY}}) + "\n"
    )
    (tmp_path / "deep" / "b.bin").write_text(SECRET)
    assert run(scan_command, tmp_path) == 1
    out = capsys.readouterr().out
    assert "private-key" in out
    assert "1 secret in 1 of 1 file." in out


def test_a_file_that_cannot_be_read_is_named_and_stops_nobody(tmp_path, worker, capsys):
    assert run(scan_command, tmp_path / "none.jsonl") == 2
    assert run(scan_command, tmp_path / "none.jsonl", worker.files.notes) == 1
    assert capsys.readouterr().err.count("no such file") == 2


@pytest.mark.parametrize(
    "line",
    [
        '{"a":"\\u0067hp_%s"}',
        '{"a":{"b":["x","%s"]}}',
        '{"%s":1}',
        'not json %s {"',
        '{"torn":"%s',
        '{"lone":"\\ud800","a":"%s"}',
    ],
)
def test_a_secret_is_found_in_any_line(tmp_path, line):
    path = tmp_path / "s.jsonl"
    path.write_text("{}\n" + line % (SECRET[4:] if "u0067" in line else SECRET))
    (hit,) = scan(path)
    assert (hit.kind, hit.digest, hit.line) == ("github-token", digest(SECRET), 2)


def test_pictures_and_signatures_are_passed_over(tmp_path):
    path = tmp_path / "s.jsonl"
    source = {"type": "base64", "data": SECRET}
    path.write_text(json.dumps({"signature": SECRET, "content": [{"type": "image", "source": source}]}))
    assert list(scan(path)) == []


def test_a_large_file_is_read_in_pieces_that_cut_no_secret(tmp_path):
    path = tmp_path / "r.txt"
    lines = [f"line {number} of the listing" for number in range(2000)]
    for place in (100, 600, 1500, 1990):
        lines[place] = KEY if place % 200 else f"x={SECRET}"
    content = "\n".join(lines).encode()
    path.write_bytes(content)
    for size in (1500, 4000, 9999):
        found = list(pieces(path, size=size))
        assert b"".join(found) == content
        assert len(found) > 3
        assert sum(KEY.encode() in piece for piece in found) == 3
        assert sum(SECRET.encode() in piece for piece in found) == 1


def test_lines_are_counted_across_pieces(tmp_path):
    path, lines = tmp_path / "r.txt", SIZE // 100
    path.write_text(("some line " * 20 + "\n") * lines + SECRET + "\n")
    assert [hit.line for hit in scan(path)] == [lines + 1]
