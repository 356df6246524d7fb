"""Files that a caller's own tools read, and results that are in no file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.events import Acted
from sevenfold.profiles import find
from tests.session.talking import ALONE, BOUND, READ, SHELL, alone, calling, fake_reply, hear, said

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")


def read_files(session: sevenfold.Session, *paths: str, **more: Any) -> None:
    """The model reads files with a tool of the caller's."""
    for number, path in enumerate(paths):
        session.user(f"look at {path}")
        hear(session, fake_reply(calling(f"toolu_{number}", "Read", path=path), number=number))
        given = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "as it was", **more}
        session.tool_results([given])
        hear(session, fake_reply(number=number + 100))


@pytest.mark.spec("S4.10")
def test_files_read_by_a_callers_tool_come_back_after_a_compaction(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('a as it is now')")
    (tmp_path / "b.py").write_text("print('b as it is now')")
    (tmp_path.parent / "secret.txt").write_text("not for the model")
    options: dict[str, Any] = {"model": BOUND, "tools": [READ, SHELL], "settings": ALONE}
    with sevenfold.Session.open("s", file=tmp_path / "s.jsonl", folder=tmp_path, **options) as session:
        read_files(session, "a.py", str(tmp_path / "b.py"), "../secret.txt", "gone.py")
        assert session.compact() is not None
        session.user("go on")
        sent = json.dumps(said(session.prepare().body))
    assert "a as it is now" in sent
    assert "b as it is now" in sent
    assert "not for the model" not in sent


@pytest.mark.spec("S4.10")
def test_a_reading_that_failed_brings_nothing_back(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('a as it is now')")
    options: dict[str, Any] = {"model": BOUND, "tools": [READ], "settings": ALONE}
    with sevenfold.Session.open("s", file=tmp_path / "s.jsonl", folder=tmp_path, **options) as session:
        read_files(session, "a.py", is_error=True)
        session.compact()
        session.user("go on")
        assert b"a as it is now" not in session.prepare().body


@pytest.mark.spec("S1.1")
def test_a_result_that_is_kept_in_memory_is_not_said_to_be_in_a_file() -> None:
    with alone() as session:
        session.user("begin")
        hear(session, fake_reply(calling("toolu_1")))
        session.tool_results({"toolu_1": "line\n" * 30_000})
        shown = said(session.prepare().body)[-1]["content"][0]["content"]
        assert "memory/" not in shown
        assert "kept as result:" in shown
        assert session.fetch("toolu_1") == b"line\n" * 30_000


@pytest.mark.spec("S1.1")
def test_a_result_that_is_kept_in_a_file_is_named_with_its_path_and_its_reader(tmp_path: Path) -> None:
    told: list[Any] = []
    options: dict[str, Any] = {
        "model": BOUND,
        "tools": [READ, SHELL],
        "settings": ALONE,
        "listen": [told.append],
    }
    with sevenfold.Session.open("s", file=tmp_path / "s.jsonl", folder=tmp_path, **options) as session:
        session.user("begin")
        hear(session, fake_reply(calling("toolu_1")))
        session.tool_results({"toolu_1": "line\n" * 30_000})
        shown = said(session.prepare().body)[-1]["content"][0]["content"]
    (acted,) = [one for one in told if isinstance(one, Acted)]
    assert "with Read" in shown
    assert acted.reference in shown
    assert Path(acted.reference).read_text() == "line\n" * 30_000


@pytest.mark.spec("S4.3")
def test_a_model_for_summaries_may_be_any_behind_a_provider_of_ones_own() -> None:
    own = replace(find(BOUND), wire="proxy")
    for name in ("gpt-5", "claude-haiku-4-5", "my-small-model"):
        found = own.companion(name)
        assert found is not None
        assert found.model == name
    assert find(BOUND).companion("gpt-5") is None
    unknown = find(BOUND).companion("my-small-model")
    assert unknown is not None
    assert unknown.wire == "messages"
    assert find(BOUND).companion(None) is None
