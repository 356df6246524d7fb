"""The engine alone: installed without any extra into a fresh environment, it holds a session."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

from tests.support import PROVING

ROOT = Path(__file__).parents[1]
SESSION = """
    import importlib.metadata
    import json
    import sys

    import sevenfold

    script = sevenfold.Script([
        [{"type": "tool_use", "name": "Build", "id": "toolu_1", "input": {}}], "It builds.", "Yes.",
    ])
    tool = sevenfold.tool({"name": "Build", "input_schema": {"type": "object"}}, kind="shell")
    options = {"model": "claude-sonnet-5-5", "store": "sessions", "tools": [tool]}
    with sevenfold.Session.open("s", client=sevenfold.OfflineClient(script), **options) as session:
        session.user("Does it build?")
        session.complete()
        session.tool_results({"toolu_1": "compiled" * 20_000})
        answer = session.complete().text
        assert session.fetch("toolu_1").count(b"compiled") == 20_000
        assert session.recall("compiled")
        assert session.compact(engine="extractive") is not None
    with sevenfold.Session.open("s", client=sevenfold.OfflineClient(script), **options) as session:
        session.user("Sure?")
        again = session.complete().text
    print(json.dumps({
        "answers": [answer, again],
        "installed": sorted(one.name for one in importlib.metadata.distributions()),
        "loaded": sorted(name for name in ("rich", "pygments") if name in sys.modules),
    }))
"""
WITHOUT_NETWORK = ("No matching distribution", "Could not find a version", "ConnectionError", "Max retries")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment's interpreter, with the engine installed as `pip install sevenfold` does it."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    interpreter = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    command = [
        str(interpreter),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and any(sign in done.stderr for sign in WITHOUT_NETWORK) and not PROVING:
        pytest.skip("not tested: no package index can be reached")
    assert done.returncode == 0, done.stderr
    return interpreter


@pytest.mark.spec("S26.21")
def test_the_engine_alone_holds_a_session(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [python, "-c", textwrap.dedent(SESSION)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["answers"] == ["It builds.", "Yes."]
    assert set(shown["installed"]) - {"pip", "setuptools", "wheel"} == {"msgspec", "sevenfold"}
    assert shown["loaded"] == []


@pytest.mark.spec("S26.21")
def test_a_command_that_needs_more_says_in_one_line_what_to_install(python: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), "-m", "sevenfold", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert run("--help").returncode == 0
    refused = run("profile", "--example")
    assert refused.returncode == 2
    assert refused.stderr == (
        "sevenfold: the command line needs rich, which is not installed; run: pip install 'sevenfold[cli]'\n"
    )
