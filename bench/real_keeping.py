"""Real Claude Code and Codex below `sevenfold gateway --mode keep`: a window that is too small for what they send.

    python -m bench.real_keeping PROGRAM [--stubborn] [--json]

PROGRAM is claude-code or codex, installed from npm by exact version into `.dev/clients`. It runs in a network namespace
of its own against the simulator, with its own compaction out of reach. The user says eighteen messages of three
sentences, and for each the model reads three files; each message resumes the program below a gateway that is started
again. Judged by what the simulator received: nothing refused, the program's system prompt and tools as in its first
request, every sentence of the user in its last, no tag among the user's words, what its instruction file says, and
after each of the first three compactions the codewords of the first, the middle and the newest message.

With `--stubborn` the provider refuses every request that is not as the program wrote it: the program must finish.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.clients import conversation, judging, programs, reading, story
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve

INSIDE = "SEVENFOLD_IN_NAMESPACE"
WINDOW = 60_000
OWN_COMPACTION = ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")
"""Variables with which the other benchmarks make Claude Code compact early."""


class KeptFigures(Struct, frozen=True):
    """What a run showed."""

    program: str
    version: str
    refused: int
    kept: int
    """Requests that were sent with less in them, by the gateway's reports."""
    instructed: bool
    """Whether the last request has what the instruction file says."""
    judgement: judging.Judgement


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", choices=tuple(programs.CLIENTS))
    parser.add_argument("--stubborn", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        programs.install()
        return in_namespace(sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix="sevenfold-keeping-", dir="/var/tmp"))
    try:
        version = programs.install()[options.program]
        figures = drive(options.program, version, folder, stubborn=options.stubborn)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(msgspec.json.encode(figures).decode() if options.json else f"{figures.program} {shown(figures)}")
    return 0 if (finishes(figures) if options.stubborn else holds(figures)) else 1


def shown(figures: KeptFigures) -> str:
    """The figures as text."""
    judgement = figures.judgement
    return (
        f"{figures.version}: {judgement.requests} requests, {figures.refused} refused, {figures.kept} sent with less "
        f"in them, {judgement.compactions} compactions; sentences missing {len(judgement.missing)}, codewords behind "
        f"compactions {len(judgement.missing_after)}, tags among the user's words {len(judgement.tags)}; system prompt "
        f"and tools {'as at first' if judgement.head_same else 'CHANGED'}, "
        f"instruction file {'there' if figures.instructed else 'MISSING'}"
    )


def holds(figures: KeptFigures) -> bool:
    """Whether the conversation was kept, and nothing was lost or refused."""
    judgement = figures.judgement
    return not figures.refused and figures.instructed and judgement.is_whole and judgement.is_long


def finishes(figures: KeptFigures) -> bool:
    """Whether a program whose provider refuses every change has come to the end with all of its own."""
    return figures.refused > 0 and not figures.judgement.missing and not figures.judgement.changed


def in_namespace(arguments: list[str]) -> int:
    """Run this again where there is no network but the loopback device."""
    again = [sys.executable, "-m", "bench.real_keeping", *arguments]
    shell = 'ip link set lo up && exec "$@"'
    env = {**os.environ, INSIDE: "1"}
    return subprocess.call(["unshare", "-rn", "sh", "-c", shell, "sh", *again], env=env, cwd=programs.ROOT)


def drive(name: str, version: str, folder: Path, *, stubborn: bool) -> KeptFigures:
    """Drive a program through the conversation, each message below a new gateway."""
    brain = reading.ReadingBrain(stubborn=stubborn)
    simulator = Simulator(ScriptedBrain(brain.answer))
    kept = 0
    with serve(simulator) as url:
        client = programs.CLIENTS[name](folder, url, own_provider=True)
        reading.prepare(client)
        if name == "codex":
            settings = client.settings.read_text().replace(programs.CODEX_COMPACTION, "")
            client.settings.write_text(settings)
        session = ""
        for turn in range(reading.STUBBORN_TURNS if stubborn else reading.TURNS):
            brain.plan_turn(client.work)
            command = client.command(conversation.message(turn), session)
            done = run_kept(
                client, programs.sevenfold("gateway", "--mode", "keep", "--upstream", url, "--", *command)
            )
            session = client.session_of(done.stdout)
            kept += kept_in(done.stderr)
        requests = list(simulator.requests)
    own = [request for request in requests if judging.is_own(request) and request.status < 400]
    return KeptFigures(
        program=name,
        version=version,
        refused=sum(request.status >= 400 for request in requests),
        kept=kept,
        instructed=story.INSTRUCTED in own[-1].raw.decode(),
        judgement=judging.judge(own),
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


if __name__ == "__main__":
    sys.exit(main())
