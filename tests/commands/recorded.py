"""Recorded sessions for the commands, and the commands as the command line runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.cli.main import main
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.layers.compact.offline import summarise, take_notes
from tests.support import Story, call, result, usage

VARIABLES = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"]
MODEL = "claude-sonnet-4-6"
SYSTEM = "You look after the harbour's displays. " * 300
READ = sevenfold.tool(
    {"name": "Read", "description": "reads", "input_schema": {"type": "object"}}, kind="read"
)


class Ran:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def words(self) -> str:
        """The output as one line, whatever the width of the terminal."""
        return " ".join(self.out.split())

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ran:
    capsys.readouterr()
    code = main([str(each) for each in arguments])
    printed = capsys.readouterr()
    return Ran(code, printed.out, printed.err)


def foreign(path: Path, rounds: int = 6) -> Path:
    """A session as another tool writes it, about a harbour's display."""
    story = Story()
    common = {"sessionId": "5e551011", "cwd": str(path.parent), "version": "2.0.1"}
    for number in range(rounds):
        said = f"Step {number}: repair panel_{number}.py, and never touch build/out_{number}.bin."
        story.user(said, uuid=f"aa{number}0-ask", **common)
        story.assistant(
            f"I read panel_{number}.py.",
            call(f"t{number}", "Read", file_path=f"/harbour/panel_{number}.py"),
            uuid=f"ab{number}0-look",
            model=MODEL,
            used=usage(18_000 + 2_000 * number),
            **common,
        )
        lines = "\n".join(f"{line}: tide = table[{line + number}]" for line in range(200))
        story.user([result(f"t{number}", lines)], uuid=f"ac{number}0-file", **common)
        story.assistant(
            f"Panel {number} shows the tide of today.",
            uuid=f"ad{number}0-done",
            model=MODEL,
            used=usage(20_000 + 2_000 * number),
            **common,
        )
    path.write_bytes(b"".join(story.lines))
    return path


def own(path: Path, turns: int = 4, model: str = MODEL) -> Path:
    """A session of ours, offline."""
    with opened(path, model) as session:
        for number in range(turns):
            session.user(
                f"Question {number}: why does panel_{number}.py show yesterday's tide? Keep --zone UTC."
            )
            session.complete()
    return path


def opened(path: Path, model: str = MODEL) -> sevenfold.Session:
    return sevenfold.Session.open(
        "own", model=model, file=path, folder=path.parent, system=SYSTEM, tools=[READ]
    )


def helpful(prompt: ModelPrompt) -> str:
    """A model that summarises and takes notes when it is asked to."""
    words = prompt.last_text
    if "session notes below" in words:
        return take_notes({"messages": prompt.messages})
    return summarise({"messages": prompt.messages}) if "<analysis>" in words else "Noted."


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, reply: Any = helpful) -> Iterator[Simulator]:
    """A provider over HTTP, which the environment names."""
    simulator = Simulator(ScriptedBrain(reply))
    with serve(simulator) as url:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "simulated-key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        yield simulator


def files(folder: Path) -> dict[str, bytes]:
    """Every file in a folder and below, but for our own home."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "home" not in path.parts
    }
