"""A gateway that keeps is killed between a request and its answer: what does the next one record again?

    python bench/door_kills.py [--kills N]

A program talks through `sevenfold gateway --mode keep`, a process of its own. The gateway is killed with SIGKILL once
the provider has a request and before it answers; the program sends the same request to a gateway that is started again.
Of that request at most two messages may be new on record. With ``--forgetting``, the control, what was recorded is
deleted after each kill.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain, text  # noqa: E402 - started as a script, the project's folder is not on the path
from sevenfold.lab.simulator.provider import UNLIMITED, Setup, Simulator  # noqa: E402
from sevenfold.lab.simulator.server import serve  # noqa: E402
from sevenfold.record import entries  # noqa: E402
from sevenfold.record.entries import Said  # noqa: E402
from sevenfold.stores.jsonl import log as lines  # noqa: E402

KILLS = 200
MOST_NEW = 2
WINDOW = 16_000
MODEL = "claude-opus-4-6"
ANSWER_TOKENS = 400
FILLER = "The pier was quiet, and nothing had to be repaired. " * 12
TOOLS = [{"name": "Read", "description": "reads", "input_schema": {"type": "object"}}]
SECONDS = 60.0
OK = 200


class KillFigures(Struct, frozen=True):
    """What a run showed."""

    kills: int
    new: tuple[int, ...]
    """How many messages the request after each kill added to the record."""
    refused: int
    compacted: int
    """Compactions of ours on record at the end."""

    @property
    def holds(self) -> bool:
        """Whether nothing was refused and at most two messages were new each time."""
        return not self.refused and len(self.new) == self.kills > 0 and max(self.new) <= MOST_NEW


class HoldingModel:
    """A model that holds one answer back until it is let go."""

    def __init__(self) -> None:
        self.holds = False
        self.arrived = threading.Event()
        self.let_go = threading.Event()
        self._answers = 0

    def answer(self, prompt: ModelPrompt) -> Any:
        """The answer to a request; that of a program's waits if it is to be held."""
        if prompt.max_tokens != ANSWER_TOKENS:
            return f"<summary>The work on the pier went on.</summary> {FILLER}"
        self._answers += 1
        if self.holds:
            self.arrived.set()
            self.let_go.wait(SECONDS)
        return [text(f"Answer {self._answers}. {FILLER}")]


@contextmanager
def gateway(upstream: str, home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A gateway that keeps, and its address; it is ended with the block, however it is left."""
    env = {
        **os.environ,
        "SEVENFOLD_HOME": str(home),
        "SEVENFOLD_CONTEXT_WINDOW": str(WINDOW),
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-P", "-m", "sevenfold", "gateway", "--mode", "keep", "--upstream", upstream]
    with subprocess.Popen(
        command, env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process, _address(process)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        name, equals, address = line.strip().partition("=")
        if equals and name == "ANTHROPIC_BASE_URL":
            return address
    raise RuntimeError("the gateway ended before it said where it listens")


def ask(url: str, messages: Sequence[Any]) -> Any:
    """The content of the answer to a program's request; raises if there is none."""
    body = {"model": MODEL, "max_tokens": ANSWER_TOKENS, "tools": TOOLS, "messages": messages}
    headers = {"x-api-key": "key", "anthropic-version": "2023-06-01", "x-claude-code-session-id": "killed"}
    answered = httpx2.post(f"{url}/v1/messages", json=body, headers=headers, timeout=SECONDS)
    if answered.status_code != OK:
        raise RuntimeError(f"{answered.status_code}: {answered.text[:300]}")
    return answered.json()["content"]


def _held(url: str, messages: Sequence[Any]) -> None:
    """Ask and get no answer, because the gateway is killed."""
    with suppress(httpx2.HTTPError):
        ask(url, messages)


def recorded(home: Path) -> tuple[int, int]:
    """How many messages are on record, and how many compactions of ours."""
    messages = 0
    compactions = 0
    for path in home.rglob("killed.jsonl"):
        for line in lines.scan(path):
            entry = entries.read(line.raw)
            is_message = isinstance(entry, Said) and not entry.summary and not entry.attachment
            messages += is_message
            compactions += isinstance(entry, entries.Boundary)
    return messages, compactions


def measure(kills: int = KILLS, *, forgetting: bool = False) -> KillFigures:
    """Kill a gateway so often, and count what the next request records."""
    home = Path(tempfile.mkdtemp(prefix="sevenfold-kills-"))
    model = HoldingModel()
    simulator = Simulator(ScriptedBrain(model.answer), Setup(limits=UNLIMITED, log_bytes=1_000_000))
    messages: list[Any] = []
    new: list[int] = []
    try:
        with serve(simulator) as upstream:
            for number in range(kills + 1):
                with gateway(upstream, home) as (process, url):
                    if number:
                        before, _ = recorded(home)
                        messages.append({"role": "assistant", "content": ask(url, messages)})
                        process.send_signal(signal.SIGTERM)
                        process.wait()
                        new.append(recorded(home)[0] - before - 1)
                if number == kills:
                    break
                messages.append({"role": "user", "content": f"Please look after pier {number}. {FILLER}"})
                with gateway(upstream, home) as (process, url):
                    _kill_before_the_answer(process, url, messages, model)
                if forgetting:
                    for path in home.rglob("killed.jsonl"):
                        path.unlink()
        refused = sum(request.status >= 400 for request in simulator.requests)
        return KillFigures(kills, tuple(new), refused, recorded(home)[1])
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _kill_before_the_answer(
    process: subprocess.Popen[str], url: str, messages: Sequence[Any], model: HoldingModel
) -> None:
    """Send a request, and kill the gateway once the provider has it."""
    model.holds = True
    model.arrived.clear()
    model.let_go.clear()
    asking = threading.Thread(target=_held, args=(url, messages))
    asking.start()
    try:
        if not model.arrived.wait(SECONDS):
            raise RuntimeError("the request did not reach the provider")
        process.kill()
        process.wait()
    finally:
        model.holds = False
        model.let_go.set()
        asking.join()


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 0 if it holds, 1 if not."""
    parser = argparse.ArgumentParser(description="A gateway that keeps, killed between request and answer.")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--forgetting", action="store_true", help="the control: delete what was recorded")
    options = parser.parse_args(arguments)
    figures = measure(options.kills, forgetting=options.forgetting)
    most = max(figures.new, default=0)
    print(
        f"{figures.kills} kills: at most {most} new messages at the next request, {figures.refused} requests "
        f"refused, {figures.compacted} compactions"
    )
    print(f"{'pass' if figures.holds else 'FAIL'}  at most {MOST_NEW} new messages, nothing refused")
    return 0 if figures.holds else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
