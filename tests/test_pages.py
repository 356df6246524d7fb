"""The pages for newcomers: what they show runs, and what they list is what there is."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench import make_troubleshooting
from sevenfold.cli.main import main
from sevenfold.conversation.resume import resume
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import JsonlLog
from tests.profile.making import Tape, text, usage

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SESSION = "0b6f4218-5d0c-4a86-9d0e-2f6c1f5b7a10"
Capsys = pytest.CaptureFixture[str]
pytestmark = pytest.mark.spec("S14.4")


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session of Claude Code in a home of its own, in whose project the commands run."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / ".sevenfold"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    here = tmp_path / "project"
    here.mkdir()
    monkeypatch.chdir(here)
    made = Tape(sessionId=SESSION, cwd=str(here), version="2.1.219", userType="external")
    made.now = datetime.now(UTC) - timedelta(days=1)
    made.user("Find the flaky login test.")
    for number in range(12):
        made.answer(
            f"m{number}", usage(9_000 + number, output=90), text(f"Try {number}: connection refused.")
        )
        made.user(f"Then try host_{number}.example instead.")
    made.answer("m99", usage(9_900, output=9), text("It passes."))
    made.line(json.dumps({"type": "ai-title", "aiTitle": "flaky login test", "sessionId": SESSION}))
    coded = re.sub(r"[^A-Za-z0-9]", "-", str(here))
    path = tmp_path / ".claude/projects" / coded / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    return made.save(path)


def commands(page: str) -> list[list[str]]:
    """The lines of a page that call one of our commands, as arguments."""
    shown = re.findall(r"^```console\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
    lines = [line.removeprefix("$ ") for block in shown for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("sevenfold ")]


@pytest.mark.parametrize("page", ["coming-from-claude-code.md", "costs.md"])
def test_the_commands_of_a_page_run_as_they_are_shown(page: str, transcript: Path, capsys: Capsys) -> None:
    shown = [each for each in commands(page) if each[0] != "chat"]
    assert len(shown) >= 3
    whole = transcript.read_bytes()
    for arguments in shown:
        transcript.write_bytes(whole)
        assert main(arguments) in (0, 1), (arguments, capsys.readouterr().err)


def test_a_session_of_claude_code_goes_on_here(
    transcript: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    before = transcript.read_bytes()
    assert main(["sessions", "import", "flaky login test"]) == 0
    assert f"sevenfold chat --resume from-{SESSION}" in capsys.readouterr().out
    went_on = main(["chat", "--resume", f"from-{SESSION}", "--model", "offline", "-p", "and now?"])
    assert went_on == 0, capsys.readouterr().err
    assert transcript.read_bytes() == before
    copy = user_home().project(Path.cwd()).session(f"from-{SESSION}").transcript
    assert copy.read_bytes().startswith(before)
    assert main(["sessions", "import", SESSION]) == 2, "a session that is there is not overwritten"


def test_a_compacted_session_goes_back_to_claude_code(transcript: Path) -> None:
    """As Claude Code reads it: from the newest record to the boundary, which has no parent and a summary behind it."""
    before = transcript.read_bytes()
    assert main(["compact", "flaky login test", "--in-place"]) == 0
    after = transcript.read_bytes()
    assert after.startswith(before)
    records: list[dict[str, Any]] = [json.loads(line) for line in after.splitlines()]
    added = records[len(before.splitlines()) :]
    linked = {each["uuid"]: each for each in records if each.get("uuid")}
    assert all(
        "uuid" not in each and "parentUuid" not in each for each in added if each["type"] == "sevenfold"
    )
    assert {each["sessionId"] for each in added if "uuid" in each} == {SESSION}
    [boundary] = [each for each in added if each.get("subtype") == "compact_boundary"]
    assert boundary["parentUuid"] is None
    assert boundary["logicalParentUuid"] in linked
    [summary] = [each for each in added if each.get("isCompactSummary")]
    assert (summary["type"], summary["parentUuid"]) == ("user", boundary["uuid"])
    tip = [each for each in records if each.get("uuid") and not each.get("isSidechain")][-1]
    seen = tip
    while seen["parentUuid"] is not None:
        seen = linked[seen["parentUuid"]]
    assert seen is boundary
    said = {
        "uuid": "new",
        "parentUuid": tip["uuid"],
        "type": "user",
        "sessionId": SESSION,
        "isSidechain": False,
    }
    said |= {"message": {"role": "user", "content": "And on."}, "timestamp": "2026-11-16T12:00:00Z"}
    with transcript.open("a", encoding="utf-8") as file:
        file.write(json.dumps(said) + "\n")
    view = resume(JsonlLog(transcript))
    assert view.items[-1].record.uuid == "new"
    assert any(item.record.uuid == summary["uuid"] for item in view.items)


def test_troubleshooting_lists_every_error_in_the_code() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert page.partition(make_troubleshooting.MARK)[2].strip() == make_troubleshooting.made().strip(), (
        "run python -m bench.make_troubleshooting"
    )


def test_every_kind_of_error_has_its_remedy() -> None:
    assert make_troubleshooting.classes().keys() - make_troubleshooting.ADVICE.keys() == {"SevenfoldError"}


def test_the_figures_of_the_page_about_costs_are_measured_ones() -> None:
    page = (DOCS / "costs.md").read_text(encoding="utf-8")
    measured = (DOCS / "measurements.md").read_text(encoding="utf-8") + (ROOT / "README.md").read_text(
        encoding="utf-8"
    )
    figures = re.findall(r"\$\d[\d.]*\d|\d+(?:\.\d+)?%", page)
    assert len(figures) >= 6
    assert [each for each in figures if each not in measured] == []
    benches = re.findall(r"\./dev bench (\w+)", page)
    assert [each for each in benches if not (ROOT / "bench" / f"{each}.py").is_file()] == []
