"""The `dev` script, run as a program in a copy of the tree with a stand-in for uv.

The stand-in notes how it was called and makes an environment whose programs do nothing, so that what is
tested is when the script installs, what it asks for and what it says; that real installers take the same
arguments is shown by every run of the script itself.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in for uv is a script with a #! line")

STAND_IN = """#!{python}
import os, pathlib, signal, sys
calls = pathlib.Path({calls!r})
with calls.open("a") as file:
    print(*sys.argv[1:], file=file)
if sys.argv[1] in {fails!r}:
    print("no such host")
    sys.exit(7)
if sys.argv[1] in {interrupts!r}:
    os.kill(os.getppid(), signal.SIGINT)
if sys.argv[1] == "venv":
    programs = pathlib.Path(sys.argv[-1], "bin")
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("python", "ruff", "mypy", "lint-imports", "sevenfold"):
        code = 3 if name == "mypy" else 0
        (programs / name).write_text(f"#!/bin/sh\\necho {{name}} ran $*\\nexit {{code}}\\n")
        (programs / name).chmod(0o755)
"""


# A shell makes programs in the background ignore interrupts; here one must arrive all the same.
LAUNCH = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Tree:
    """A copy of what the script needs, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.root.mkdir()
        self.calls = folder / "calls"
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ("dev", "pyproject.toml", "requirements.lock"):
            shutil.copy(ROOT / name, self.root)

    def with_uv(self, *, fails: str = "", interrupts: str = "") -> None:
        """Put a stand-in for uv on the PATH that fails, or is interrupted, at the named subcommand."""
        text = STAND_IN.format(
            python=sys.executable, calls=str(self.calls), fails=[fails], interrupts=[interrupts]
        )
        (self.programs / "uv").write_text(text)
        (self.programs / "uv").chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the script with nothing but the stand-in on the PATH."""
        self.calls.write_text("")
        env = {"PATH": f"{self.programs}{os.pathsep}/bin", "HOME": str(self.root)}
        command = [sys.executable, "-c", LAUNCH, str(self.root / "dev"), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    @property
    def asked(self) -> list[str]:
        """What the last run asked of uv, one line a call."""
        return self.calls.read_text().splitlines()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    made.with_uv()
    return made


def test_alone_it_lists_its_commands_and_installs_nothing(tree: Tree) -> None:
    shown = tree.run()
    assert shown.returncode == 0
    assert all(
        f"./dev {name}" in shown.stdout for name in ("demo", "test", "prove", "lint", "bench", "lock")
    )
    assert tree.asked == []


@pytest.mark.parametrize("arguments", [["bake"], ["bench", "no-such-benchmark"], ["bench"]])
def test_what_it_does_not_know_is_refused_with_what_there_is(tree: Tree, arguments: list[str]) -> None:
    shown = tree.run(*arguments)
    assert shown.returncode == 2
    assert "There are:" in shown.stderr or "./dev test" in shown.stderr
    assert tree.asked == []


def test_the_first_run_installs_and_the_second_finds_it_done(tree: Tree) -> None:
    assert tree.run("demo", "--fast").stdout == "sevenfold ran demo --fast\n"
    assert [call.split()[0] for call in tree.asked] == ["venv", "pip", "pip"]
    assert tree.run("demo").returncode == 0
    assert tree.asked == []


def test_the_tools_are_added_to_what_the_demo_needed(tree: Tree) -> None:
    tree.run("demo")
    assert tree.run("test", "-k", "x").stdout == "python ran -m pytest -k x\n"
    assert [call.split()[0] for call in tree.asked] == ["pip", "pip"]
    tree.run("demo")
    assert tree.asked == []


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_a_change_of_what_is_pinned_or_named_recreates_the_environment(tree: Tree, name: str) -> None:
    tree.run("demo")
    text = (tree.root / name).read_text()
    (tree.root / name).write_text(text.replace("msgspec", "msgspec2"))
    tree.run("demo")
    assert [call.split()[0] for call in tree.asked] == ["venv", "pip", "pip"]


def test_a_folder_that_was_moved_makes_its_environment_anew(tree: Tree) -> None:
    tree.run("demo")
    tree.root = tree.root.rename(tree.root.with_name("moved"))
    tree.run("demo")
    assert tree.asked[0].startswith("venv")


@pytest.mark.parametrize("moment", ["venv", "pip"])
def test_an_interrupted_installation_is_made_again(tree: Tree, moment: str) -> None:
    tree.with_uv(interrupts=moment)
    shown = tree.run("demo")
    assert shown.returncode == 130
    assert "interrupted" in shown.stderr
    tree.with_uv()
    tree.run("demo")
    assert [call.split()[0] for call in tree.asked] == ["venv", "pip", "pip"]


def test_every_step_runs_and_those_that_failed_are_named_last(tree: Tree) -> None:
    shown = tree.run("test")
    assert shown.returncode == 1
    assert "ruff ran" in shown.stdout
    assert "python ran -m pytest" in shown.stdout
    assert shown.stderr.splitlines()[-1] == "dev: FAILED: mypy (exit 3)"


def test_a_failing_installer_is_quoted(tree: Tree) -> None:
    tree.with_uv(fails="export")
    shown = tree.run("lock")
    assert shown.returncode == 2
    assert "resolving: failed with exit code 7" in shown.stderr
    assert "no such host" in shown.stderr


def test_an_old_python_is_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "hexversion", 0x030A0000)
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer"):
        runpy.run_path(str(ROOT / "dev"))


def test_the_demo_asks_for_what_it_needs_and_no_more(tree: Tree) -> None:
    tree.run("demo")
    pinned = (tree.root / ".dev" / "demo.lock").read_text()
    names = {line.split("==")[0] for line in pinned.splitlines() if line[:1].isalnum()}
    assert {"msgspec", "rich", "anthropic", "httpx2", "starlette", "uvicorn"} <= names
    assert not {"pytest", "mypy", "openai", "hypothesis", "langchain-anthropic"} & names
