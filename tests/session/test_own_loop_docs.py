"""The loops the documentation shows run as they are printed, against a simulated provider."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from tests.forked import ran

PAGE = Path(__file__).resolve().parents[2] / "docs" / "session.md"
LOOPS = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
KEY = "simulated-key"


def reads_once(prompt: ModelPrompt) -> list[dict[str, Any]]:
    """A model that reads the file it is asked about, if it has a tool for that, and says what it found."""
    heard = [block for message in prompt.messages for block in message["content"]]
    if prompt.tools and not any(block["type"] == "tool_result" for block in heard):
        return [{"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "setup.py"}}]
    found = [str(block["content"]) for block in heard if block["type"] == "tool_result"]
    return [{"type": "text", "text": f"It says: {found}"}]


@pytest.mark.spec("S9.7", "S8.4")
@pytest.mark.parametrize("place", range(len(LOOPS)))
def test_a_loop_runs_as_it_is_printed(place: int, tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("answer = 42")
    simulator = Simulator(ScriptedBrain(reads_once))
    with serve(simulator) as url:
        given = {
            **os.environ,
            "HOME": str(tmp_path),
            "SEVENFOLD_HOME": str(tmp_path / "home"),
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": url,
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{url}/v1",
        }
        done = ran(LOOPS[place], tmp_path, given)
    assert done.returncode == 0, done.stderr
    assert "It says:" in done.stdout
    # A server on this machine is also asked for the window of its models, at addresses that others have.
    asked = [request for request in simulator.requests if request.path.startswith("/v1/")]
    assert [request.status for request in asked] == [200] * len(asked)
    if "READ" in LOOPS[place]:
        assert "answer = 42" in done.stdout


def test_both_providers_are_shown_waiting_and_awaited() -> None:
    shown = {
        (name, "await" in loop)
        for loop in LOOPS
        for name in ("anthropic", "openai")
        if f"import {name}" in loop
    }
    assert len(shown) == len(LOOPS) == 4
    assert all("client=client" in loop for loop in LOOPS)
