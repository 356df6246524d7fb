"""The sandbox of an agent: what needs no approval in it, what leaves it, and what is said where it is weaker."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.agent_events import ToolEnded
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.permissions.engine import LEAVES_SANDBOX, Mode, Permissions
from sevenfold.agent.permissions.rules import PermissionRequest, PermissionRules
from sevenfold.agent.sandbox import machine as machines
from sevenfold.agent.sandbox import seatbelt
from sevenfold.agent.sandbox.bubblewrap import PrivatePlaces
from sevenfold.agent.sandbox.machine import Machine, Mechanism
from sevenfold.agent.sandbox.policy import make_policy
from sevenfold.agent.sandbox.sandbox import Sandbox
from sevenfold.cli import main
from sevenfold.cli.doctor import sandbox_checkup
from sevenfold.errors import Refused
from tests.agent.confining import SECRET, World, machine_with
from tests.agent.working import MODEL, QUIET, Model, use, words

NOTHING = Machine(None, ("bubblewrap is not installed; install the package bubblewrap", "no Landlock"))


def run(folder: Path, *commands: dict[str, Any], **options: Any) -> list[str]:
    """The results of commands that an agent runs, with the sandbox that this machine has."""
    steps = [[use("Shell", **command)] for command in commands]
    settings = {**QUIET, "sandbox": "auto", **options.pop("settings", {})}
    with sevenfold.Agent(
        MODEL, client=Model([*steps, [words("Done.")]]), folder=folder, settings=settings, **options
    ) as agent:
        return [event.output.text for event in agent.stream("Go.") if isinstance(event, ToolEnded)]


def decided(mode: Mode = "ask", rules: dict[str, list[str]] | None = None, **about: Any) -> str:
    permissions = Permissions(workspace="/w", mode=mode, rules=PermissionRules.of(rules or {}))
    request = PermissionRequest("Shell", "run", "make", checked=True, **about)
    return permissions.decide(request).verdict


@pytest.mark.spec("S38.4")
@pytest.mark.parametrize("mode", ["ask", "accept_edits", "autonomous"])
def test_a_confined_command_needs_no_approval(mode: Mode) -> None:
    assert decided(mode, confined=True) == "allow"


@pytest.mark.spec("S38.4")
def test_without_the_sandbox_the_same_command_is_asked_about() -> None:
    assert decided("ask") == "ask"


@pytest.mark.spec("S38.4")
def test_rules_and_plan_mode_count_for_confined_commands_too() -> None:
    assert decided("plan", confined=True) == "deny"
    assert decided("ask", {"deny": ["Shell(make)"]}, confined=True) == "deny"
    assert decided("ask", {"ask": ["Shell(make:*)"]}, confined=True) == "ask"
    assert decided("ask", confined=True, writes=("/w/.git/hooks/post-commit",)) == "ask"


@pytest.mark.spec("S38.4")
@pytest.mark.parametrize("mode", ["ask", "accept_edits", "autonomous"])
@pytest.mark.parametrize("rule", ["Shell", "Shell(make)", "Shell(make:*)"])
def test_leaving_is_asked_whatever_rules_and_modes_allow(mode: Mode, rule: str) -> None:
    permissions = Permissions(workspace="/w", mode=mode, rules=PermissionRules.of({"allow": [rule]}))
    decision = permissions.decide(
        PermissionRequest("Shell", "run", "make", checked=True, leaves_sandbox=True)
    )
    assert (decision.verdict, decision.reason, decision.would_allow) == ("ask", LEAVES_SANDBOX, ())


@pytest.mark.spec("S38.4")
def test_an_agent_works_in_its_folder_without_being_asked(folder: Path) -> None:
    machine_with("bubblewrap")
    results = run(
        folder, {"command": "mkdir src && echo 1 > src/a && cat src/a"}, {"command": "pwd; cat /tmp/x"}
    )
    assert results[0].startswith("1")
    assert "no network" in results[1]
    assert (folder / "src/a").read_text() == "1\n"


@pytest.mark.spec("S38.4")
def test_a_denied_file_cannot_be_opened_by_any_program(folder: Path) -> None:
    machine_with("bubblewrap")
    (folder / "sub").mkdir()
    for path in (folder / ".env", folder / "sub/.env"):
        path.write_text("API=planted\n")
    found = (
        "python3 -c \"import glob; print([open(n).read() for n in glob.glob('**/.e*', recursive=True)])\""
    )
    lines = ({"command": line} for line in ("grep -rs API . ; true", "cat .e* || true", found))
    denied = {"deny": ["Read(.env)"], "allow": ["Shell"]}
    assert "planted" not in "".join(run(folder, *lines, rules=denied, mode="autonomous"))
    assert "planted" in "".join(run(folder, {"command": "grep -r API ."}, mode="autonomous"))


@pytest.mark.spec("S38.4")
@pytest.mark.parametrize("answer", [True, False])
def test_the_model_may_ask_to_leave_and_the_user_decides(folder: Path, answer: bool) -> None:
    machine_with("bubblewrap")
    outside = folder.parent / "outside.txt"
    asked: list[str] = []

    def consent(question: Asked) -> Consented:
        asked.append(question.decision.reason)
        return Consented(answer)

    line = {"command": f"echo out > {outside}", "unconfined": True}
    run(folder, line, mode="autonomous", consent=consent, rules={"allow": ["Shell"]})
    assert asked == [LEAVES_SANDBOX]
    assert outside.exists() is answer


@pytest.mark.spec("S38.4")
def test_cve_2026_42074_where_nobody_can_be_asked_nothing_leaves(folder: Path) -> None:
    machine_with("bubblewrap")
    outside = folder.parent / "outside.txt"
    (result,) = run(folder, {"command": f"echo out > {outside}", "unconfined": True}, mode="autonomous")
    assert "Not permitted" in result
    assert not outside.exists()


@pytest.mark.spec("S38.4")
@pytest.mark.parametrize(
    "name", ["AGENTS.md", "CLAUDE.md", ".claude/settings.json", ".git/hooks/pre-commit"]
)
@pytest.mark.parametrize("answer", [True, False])
def test_a_guarded_file_is_written_if_the_user_agrees(folder: Path, name: str, answer: bool) -> None:
    machine_with("bubblewrap")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "CLAUDE.md").write_text("before\n")
    line = f"mkdir -p {Path(name).parent}; echo after > {name}; other=GEMINI; echo evil > $other.md"
    run(folder, {"command": line}, consent=lambda question: Consented(answer))
    target = folder / name
    assert (target.exists() and target.read_text() == "after\n") is answer
    assert not (folder / "GEMINI.md").exists()


@pytest.mark.spec("S38.4")
def test_a_line_the_user_types_runs_outside(folder: Path) -> None:
    outside = folder.parent / "outside.txt"
    with sevenfold.Agent(
        MODEL, client=Model([]), folder=folder, settings={**QUIET, "sandbox": "auto"}
    ) as agent:
        agent.run_command(f"echo out > {outside}")
    assert outside.exists()


@pytest.mark.spec("S38.4")
def test_required_without_a_sandbox_runs_nothing(tmp_path: Path) -> None:
    sandbox = Sandbox("required", lambda: make_policy(tmp_path), tmp_path, machine=NOTHING)
    assert "doctor" in sandbox.refusal
    with pytest.raises(Refused, match="bubblewrap is not installed"), sandbox.around_command():
        pass


@pytest.mark.spec("S38.4")
def test_commands_with_allowed_hosts_are_asked_about_as_without_a_sandbox(tmp_path: Path) -> None:
    def settles(mechanism: Mechanism, *hosts: str) -> bool:
        machine = Machine(mechanism)
        return Sandbox(
            "auto", lambda: make_policy(tmp_path), tmp_path, hosts=hosts, machine=machine
        ).settles

    assert settles(Mechanism("bubblewrap"))
    assert not settles(Mechanism("bubblewrap"), "files.example.org")
    assert not settles(Mechanism("landlock"))


@pytest.mark.spec("S38.3")
def test_what_a_background_command_creates_is_set_aside_and_told(folder: Path) -> None:
    machine_with("bubblewrap")
    start = {"command": "name=AGENTS; echo obey > $name.md; sleep 0.2", "background": True}
    wait = use("ShellOutput", task="task-1", wait=30)
    steps = [[use("Shell", **start)], [wait], [words("Done.")]]
    settings = {**QUIET, "sandbox": "required"}
    with sevenfold.Agent(MODEL, client=Model(steps), folder=folder, settings=settings) as agent:
        results = [event.output.text for event in agent.stream("Go.") if isinstance(event, ToolEnded)]
        assert "it was moved to" in results[1]
        assert [path.name for path in agent.assembly.home.folder.glob("set-aside/*")] == ["AGENTS.md-1"]
    assert not (folder / "AGENTS.md").exists()


@pytest.mark.spec("S38.3")
def test_a_command_leaves_no_folders_behind(folder: Path) -> None:
    machine_with("bubblewrap")
    run(folder, {"command": "true"}, {"command": "touch file"})
    assert [path.name for path in folder.iterdir()] == ["file"]


@pytest.mark.spec("S38.3")
def test_a_linked_worktree_commits_but_cannot_change_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    world = World(tmp_path, None)
    name = "-c user.name=a -c user.email=b"
    world.run(f"git {name} commit -q --allow-empty -m one; git worktree add -q -b tree ../tree")
    world.machine = machine_with("bubblewrap")
    repository = world.workspace
    world.workspace = world.home / "tree"
    output = world.run(
        f"echo x > f; git add f; git {name} commit -q -m two; git log --format=%s; "
        f"echo x > {repository}/.git/hooks/evil; echo x >> {repository}/.git/config; ls {repository}"
    )
    assert "two\none" in output
    assert output.count("Read-only file system") == 2
    assert "README" not in output
    assert not (repository / ".git/hooks/evil").exists()
    world.close()


@pytest.mark.spec("S38.3")
def test_a_forged_link_to_a_repository_opens_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    victim = tmp_path / "victim/.git/worktrees/x"
    workspace.mkdir()
    victim.mkdir(parents=True)
    (victim / "commondir").write_text("../..\n")
    (victim / "gitdir").write_text(str(tmp_path / "elsewhere/.git"))
    (workspace / ".git").write_text(f"gitdir: {victim}\n")
    assert make_policy(workspace).access(victim) is None


@pytest.mark.spec("S38.6")
def test_bubblewrap_is_not_taken_from_the_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "bwrap"
    planted.write_text("#!/bin/sh\nexit 0\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    machines.this_machine.cache_clear()
    mechanism = machines.this_machine().mechanism
    assert mechanism is None or not mechanism.program.startswith(str(tmp_path))


@pytest.mark.spec("S38.6")
def test_what_is_weaker_is_said(tmp_path: Path) -> None:
    def label(machine: Machine, wish: Any = "auto") -> tuple[str, bool]:
        state = Sandbox(wish, lambda: make_policy(tmp_path), tmp_path, machine=machine).state
        return state.label, state.weak

    assert label(Machine(Mechanism("bubblewrap"))) == ("sandbox", False)
    assert label(Machine(Mechanism("landlock"))) == ("sandbox: weaker", True)
    assert label(Machine(Mechanism("landlock", isolates_network=False))) == ("sandbox: files only", True)
    assert label(Machine(Mechanism("seatbelt"))) == ("sandbox: untested", True)
    assert label(NOTHING) == ("no sandbox", True)
    assert label(NOTHING, "required") == ("no sandbox: no commands", True)
    assert label(Machine(Mechanism("bubblewrap")), "off") == ("", True)


@pytest.mark.spec("S38.6")
def test_the_profile_for_macos_denies_by_default_and_quotes_paths(tmp_path: Path) -> None:
    workspace = tmp_path / 'a "quoted" folder'
    (workspace / ".git/hooks").mkdir(parents=True)
    text = seatbelt.profile(make_policy(workspace), PrivatePlaces(tmp_path))
    quoted = str(workspace).replace('"', '\\"')
    assert text.startswith("(version 1)\n(deny default)\n")
    writable = text.index(f'(allow file-read* file-write* (subpath "{quoted}"))')
    assert writable < text.index(f'(deny file-write* (subpath "{quoted}/.git/hooks"))')
    assert text.endswith("(deny network*)\n")


@pytest.mark.spec("S38.6")
def test_doctor_says_what_there_is(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVENFOLD_SANDBOX", "auto")
    assert main.main(["doctor", str(folder)]) == 0
    said = capsys.readouterr().out
    assert [line[3:13].strip() for line in said.splitlines()][:3] == ["sevenfold", "sandbox", "bash"]
    assert "ANTHROPIC_API_KEY" in said


@pytest.mark.spec("S38.6")
def test_doctor_calls_it_bad_where_no_command_could_run(tmp_path: Path) -> None:
    def verdict(wish: Any, machine: Machine) -> str:
        return sandbox_checkup(
            Sandbox(wish, lambda: make_policy(tmp_path), tmp_path, machine=machine)
        ).verdict

    assert verdict("required", NOTHING) == "bad"
    assert verdict("auto", NOTHING) == "weak"
    assert verdict("auto", Machine(Mechanism("bubblewrap"))) == "good"


@pytest.mark.spec("S38.3")
def test_where_the_whole_file_system_is_the_workspace_secrets_and_processes_stay_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    world = World(tmp_path, machine_with("bubblewrap"))
    everything = make_policy(world.workspace, writable=[Path("/")], hidden=[world.store])
    world.policy = lambda: everything  # type: ignore[method-assign]
    output = world.run(
        "cat ~/.ssh/id_rsa ~/.sevenfold/settings.toml; ls /proc | grep -c '^[0-9]'; ls ~/project"
    )
    assert SECRET not in output
    assert "README" in output
    assert max(int(line) for line in output.splitlines() if line.isdigit()) < 10
    world.close()


@pytest.mark.spec("S38.3")
@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_further_folder_in_which_nothing_may_be_created_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    world = World(tmp_path, machine_with("bubblewrap"))
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "book").write_text("a book\n")
    shelf.chmod(0o555)
    world.policy = lambda: make_policy(world.workspace, writable=[shelf])  # type: ignore[method-assign]
    assert world.run(f"cat {shelf}/book") == "a book\n"
    world.close()
