"""The first use of a server that a project brings is asked about once, as it was seen (S19.21)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.mcp.servers import McpServers
from sevenfold.agent.permissions.engine import Mode, Permissions
from sevenfold.agent.permissions.rules import PermissionRequest, PermissionRules
from sevenfold.cli import trust as trust_command
from sevenfold.stores.trust import Trust
from tests.agent.working import agent, model_of, results, use
from tests.mcp_servers.serving import STARTUP, hostile

pytestmark = pytest.mark.spec("S19.21")
ALLOWED = ["mcp__db__go"]
SERVER = PermissionRequest("mcp__db__go", "call", server="db is a server of this project. First use.")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def bring(folder: Path, tmp_path: Path, code: str = "", **more: Any) -> None:
    """Let a project bring a server, and the user trust the project as it is."""
    entry = {**hostile(tmp_path, code), **more}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"db": entry}}))
    Trust(Path(os.environ["SEVENFOLD_HOME"])).add(folder)


@contextmanager
def opened(folder: Path) -> Iterator[McpServers]:
    with McpServers.of(None, folder) as servers:
        assert servers.wait(STARTUP)
        yield servers


def use_twice(folder: Path, *, granted: bool = True, **options: Any) -> tuple[list[str], dict[str, Any]]:
    """The questions to the user, and the results, of two calls to the server."""
    questions: list[str] = []

    def answer(asked: Asked) -> Consented:
        questions.append(asked.decision.reason)
        return Consented(granted)

    steps = [[use("mcp__db__go", "c1")], [use("mcp__db__go", "c2")], "Done."]
    rules = {"allow": ALLOWED}
    with (
        opened(folder) as servers,
        agent(steps, tools=servers.tools(), consent=answer, rules=rules, **options) as made,
    ):
        made.run("Begin.")
        return questions, dict(results(model_of(made).requests[-1]))


def test_the_first_use_is_asked_about_once_and_never_again(project: Path, tmp_path: Path) -> None:
    bring(project, tmp_path)
    questions, answers = use_twice(project)
    (question,) = questions
    assert question.startswith("db is a server of this project (")
    assert sys.executable in question
    assert answers == {"c1": "fine", "c2": "fine"}
    assert use_twice(project)[0] == []


@pytest.mark.parametrize("change", ["its command", "a tool it lists"])
def test_it_is_asked_again_when_what_the_user_saw_changes(
    project: Path, tmp_path: Path, change: str
) -> None:
    bring(project, tmp_path)
    use_twice(project)
    if change == "its command":
        bring(project, tmp_path, env={"NEW": "1"})
    else:
        bring(project, tmp_path, "TOOLS = [tool('go'), tool('send')]")
    (question,) = use_twice(project)[0]
    assert "changed since you agreed" in question


def test_who_refuses_is_asked_again_and_nothing_is_remembered(project: Path, tmp_path: Path) -> None:
    bring(project, tmp_path)
    questions, answers = use_twice(project, granted=False)
    assert len(questions) == 2
    assert "declined" in str(answers["c1"])
    assert len(use_twice(project)[0]) == 1


@pytest.mark.parametrize("mode", ["ask", "accept_edits"])
def test_no_rule_and_no_mode_that_asks_takes_the_answer_from_the_user(mode: Mode) -> None:
    allowing = Permissions(workspace="/w", mode=mode, rules=PermissionRules.of({"allow": ["mcp__*"]}))
    decision = allowing.decide(SERVER)
    assert decision.verdict == "ask"
    assert SERVER.server in decision.reason


def test_where_nobody_is_asked_the_server_is_refused_unless_it_was_agreed_to(
    project: Path, tmp_path: Path
) -> None:
    allowing = Permissions(workspace="/w", mode="autonomous", rules=PermissionRules.of({"allow": ALLOWED}))
    assert allowing.decide(SERVER).verdict == "deny"
    bring(project, tmp_path)
    assert "another mode" in str(use_twice(project, mode="autonomous")[1]["c1"])
    use_twice(project)
    assert use_twice(project, mode="autonomous") == ([], {"c1": "fine", "c2": "fine"})


def test_a_server_of_the_users_own_needs_no_agreement(project: Path, tmp_path: Path) -> None:
    home = Path(os.environ["SEVENFOLD_HOME"])
    home.mkdir()
    entry = {**hostile(tmp_path, ""), "project": str(project)}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"db": entry}}))
    assert use_twice(project) == ([], {"c1": "fine", "c2": "fine"})


def test_trust_lists_the_servers_and_keeps_them_until_it_is_revoked(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bring(project, tmp_path)
    use_twice(project)
    trust = Trust(Path(os.environ["SEVENFOLD_HOME"]))
    trust.add(project)
    assert list(trust.servers(project)) == ["db"]
    assert "server db (agreed to)" in trust_command._about(trust, project)
    trust.remove(project)
    assert trust.servers(project) == {}
