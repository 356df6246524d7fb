"""Real Claude Code and Codex below `sevenfold gateway --mode keep`: a window that is too small for what they send.

    python -m bench.real_keeping PROGRAM [--json]

PROGRAM is claude-code or codex, installed from npm by exact version into `.dev/clients`. It runs in a network namespace
of its own against the simulator, with its own compaction out of reach; each message resumes it below a gateway that is
started again. Judged by what the simulator received: nothing refused, the program's system prompt and tools as in its
first request, and every codeword of the user, and the one of its instruction file, in its last.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.clients import programs, story
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.provider import Received, Simulator
from sevenfold.lab.simulator.server import serve

INSIDE = "SEVENFOLD_IN_NAMESPACE"
WINDOW = 60_000
OWN_COMPACTION = ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")
"""Variables with which the other benchmarks make Claude Code compact early."""


class KeptFigures(Struct, frozen=True):
    """What a run showed."""

    program: str
    version: str
    requests: int
    refused: int
    kept: int
    """Requests that were sent with less in them, by the gateway's reports."""
    missing: tuple[str, ...]
    """Codewords that are not in the last request."""
    head_same: bool
    """Whether system prompt and tools of the last request are those of the first."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", choices=tuple(programs.CLIENTS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        programs.install()
        return in_namespace(sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix="sevenfold-keeping-", dir="/var/tmp"))
    try:
        figures = drive(options.program, programs.install()[options.program], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(msgspec.json.encode(figures).decode())
    else:
        print(
            f"{figures.program} {figures.version}: {figures.requests} requests, {figures.refused} refused"
        )
        print(f"  sent with less in them   {figures.kept}")
        print(f"  codewords missing        {', '.join(figures.missing) or 'none'}")
        print(f"  system and tools         {'as at first' if figures.head_same else 'CHANGED'}")
    return 0 if holds(figures) else 1


def holds(figures: KeptFigures) -> bool:
    """Whether the conversation was kept, and nothing was lost or refused."""
    return not figures.refused and not figures.missing and figures.head_same and figures.kept > 0


def in_namespace(arguments: list[str]) -> int:
    """Run this again where there is no network but the loopback device."""
    again = [sys.executable, "-m", "bench.real_keeping", *arguments]
    shell = 'ip link set lo up && exec "$@"'
    env = {**os.environ, INSIDE: "1"}
    return subprocess.call(["unshare", "-rn", "sh", "-c", shell, "sh", *again], env=env, cwd=programs.ROOT)


def drive(name: str, version: str, folder: Path) -> KeptFigures:
    """Drive a program through the story, each message below a new gateway."""
    brain = story.StoryBrain()
    simulator = Simulator(ScriptedBrain(brain.answer))
    kept = 0
    with serve(simulator) as url:
        client = programs.CLIENTS[name](folder, url, own_provider=True)
        story.prepare(client)
        session = ""
        for turn in range(story.TURNS):
            paths = [client.work / f"log-{turn * story.READS + read}.txt" for read in range(story.READS)]
            brain.plan.extend(map(story.reading, paths))
            command = client.command(story.message(turn), session)
            done = run_kept(
                client, programs.sevenfold("gateway", "--mode", "keep", "--upstream", url, "--", *command)
            )
            session = client.session_of(done.stdout)
            kept += kept_in(done.stderr)
        requests = list(simulator.requests)
    turns = [request for request in requests if is_turn(request)]
    last = turns[-1].raw.decode()
    said = [*map(story.codeword, range(story.TURNS)), story.INSTRUCTED]
    return KeptFigures(
        program=name,
        version=version,
        requests=len(requests),
        refused=sum(request.status >= 400 for request in requests),
        kept=kept,
        missing=tuple(word for word in said if word not in last),
        head_same=head_of(turns[0]) == head_of(turns[-1]),
    )


def run_kept(client: programs.Client, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program below a gateway; raises if it failed."""
    env = {name: value for name, value in client.env().items() if name not in OWN_COMPACTION}
    done = subprocess.run(
        command,
        env={**env, "SEVENFOLD_CONTEXT_WINDOW": str(WINDOW)},
        cwd=client.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=programs.SECONDS,
    )
    if done.returncode:
        raise RuntimeError(
            f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}"
        )
    return done


def kept_in(report: str) -> int:
    """How many requests were sent with less in them, from the gateway's report."""
    for line in report.splitlines():
        words = line.split()
        if words[:1] == ["kept"] and words[1].isdigit():
            return int(words[1])
    return 0


def is_turn(request: Received) -> bool:
    """Whether a request is a turn of the conversation."""
    return request.path.endswith(("/messages", "/responses")) and story.is_turn(request)


def head_of(request: Received) -> list[object]:
    """What precedes the messages of a request; the line about billing may change."""
    body = json.loads(request.raw)
    system = body.get("system") or []
    counted = [block for block in system if "x-anthropic-billing-header" not in str(block)[:120]]
    return [counted, body.get("instructions"), body.get("tools")]


if __name__ == "__main__":
    sys.exit(main())
