"""`sevenfold diff-request` as a user and a build server meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sevenfold
from tests.commands.recorded import MODEL, READ, SYSTEM, foreign, own, ran

Capsys = pytest.CaptureFixture[str]
WORDS = "You look after the harbour's lights. " * 300


def worked(path: Path, system: str = SYSTEM, turns: int = 3) -> Path:
    given = {"model": MODEL, "file": path, "folder": path.parent, "tools": [READ]}
    with sevenfold.Session.open("own", system=system, **given) as session:  # type: ignore[arg-type]
        for number in range(turns):
            session.user(f"Question {number}?")
            session.complete()
    return path


@pytest.mark.spec("S6.10")
def test_a_request_that_extends_another_reads_its_cache(tmp_path: Path, capsys: Capsys) -> None:
    path = own(tmp_path / "own.jsonl")
    done = ran(capsys, "diff-request", f"{path}:0", path)
    assert done.code == 0
    assert "own, request 3 reads all that own, request 0 left in the cache" in done.words


@pytest.mark.spec("S6.10")
def test_a_changed_system_prompt_is_named_with_its_difference_and_its_price(
    tmp_path: Path, capsys: Capsys
) -> None:
    one, two = worked(tmp_path / "one.jsonl"), worked(tmp_path / "two.jsonl", WORDS)
    done = ran(capsys, "diff-request", one, two, "--frame")
    assert done.code == 1
    assert "system block 1 differs: the cache breaks there" in done.words
    assert "tokens of one, request 2 would be written again, $" in done.words
    assert "lights" in done.out
    shown = ran(capsys, "diff-request", one, two, "--frame", "--json").json
    assert (shown["breaks"], shown["cause"], shown["part"]) == (True, "system", "system block 1")
    assert shown["tokens"] > 2_000
    assert shown["usd"] > 0


@pytest.mark.spec("S6.10")
def test_epochs_of_a_session_are_compared_by_their_number(tmp_path: Path, capsys: Capsys) -> None:
    path = worked(tmp_path / "own.jsonl")
    worked(path, WORDS)
    done = ran(capsys, "diff-request", f"{path}:e0", f"{path}:e1", "--json")
    assert (done.code, done.json["cause"]) == (1, "system")
    wrong = ran(capsys, "diff-request", f"{path}:e0", f"{path}:e7")
    assert wrong.code == 2
    assert "there is no e7" in wrong.err


@pytest.mark.spec("S6.10")
def test_bodies_are_compared_with_their_markers_aside(tmp_path: Path, capsys: Capsys) -> None:
    said = [{"role": "user", "content": "hello"}]
    tools = [
        {"name": "A", "input_schema": {}},
        {"name": "B", "input_schema": {}, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ]
    body = {"model": MODEL, "max_tokens": 9, "tools": tools, "system": "Be kind.", "messages": said}
    marked = {
        **body,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "messages": [*said, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "again"}],
    }
    changed = {**body, "tools": [{"name": "A", "input_schema": {"type": "object"}}], "thinking": {}}
    for name, one in {"a": body, "b": marked, "c": changed}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    assert ran(capsys, "diff-request", tmp_path / "a.json", tmp_path / "b.json").code == 0
    shown = ran(capsys, "diff-request", tmp_path / "a.json", tmp_path / "c.json", "--json").json
    assert (shown["cause"], shown["part"]) == ("tool", "tool A")
    assert shown["also"] == ["tool B is gone", "setting thinking was added"]


@pytest.mark.spec("S6.10")
def test_what_is_no_request_is_an_error_that_says_so(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "a.json").write_text('{"model": "x"}')
    wrong = ran(capsys, "diff-request", tmp_path / "a.json", tmp_path / "a.json")
    assert wrong.code == 2
    assert "does not hold the body of a request" in wrong.err
    other = foreign(tmp_path / "talk.jsonl")
    assert ran(capsys, "diff-request", other, other).code == 2
    assert ran(capsys, "diff-request", tmp_path / "none.json", tmp_path / "a.json").code == 2
