"""Run fifty sub-agents over a simulated hour, with a parent that is compacted and killed.

    python bench/team_hour.py [--rounds N] [--kills N] [--seed N]

In each round the main agent starts five others, in the foreground and in the background, fresh and as forks, and reads
long files meanwhile, so that it is compacted while they work. It runs in a separate process, which kills itself when
its logs have grown by a given number of lines; the next process continues the session. In the end, each agent must have
run once, each result must be delivered once, each agent must be addressable, and memory and open files must stay flat.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

import msgspec
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from sevenfold.lab.simulator import brains  # noqa: E402  # needs the path above
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply  # noqa: E402
from sevenfold.lab.simulator.clock import VirtualClock  # noqa: E402
from sevenfold.lab.simulator.provider import RateLimits, Setup, Simulator  # noqa: E402
from sevenfold.lab.simulator.server import serve  # noqa: E402
from sevenfold.layers.compact.offline import summarise  # noqa: E402

MODEL = "claude-sonnet-4-6"
SESSION = "hour"
ROUNDS, AGENTS, KILLS, SEED = 10, 5, 3, 20_261_116
WINDOW = 60_000
ANSWER_SECONDS = 26.0
"""The duration of an answer by both simulated clocks; about 140 answers make an hour."""
LINE = "Berth {0}: depth 7.4 m, length 62 m, crane no, water yes, power 32 A, tariff B, last survey in spring.\n"
LINES = 450
"""The number of lines in a file: about 14,000 tokens."""
PATIENCE = 400.0
MOST_FILES, MOST_MEGABYTES = 6, 40.0
"""How much open files and memory may grow from the second round of a process to its last."""


class Sample(Struct, frozen=True):
    """The resources of a process at the end of a round."""

    round: int
    open_files: int
    megabytes: float


class Life(Struct, frozen=True):
    """The report of a process that was not killed."""

    lines: int
    """The number of lines it appended to the logs."""
    samples: list[Sample]
    agents: dict[str, tuple[str, int, bool]]
    """For each agent: its status, how often it got work, and whether its result was delivered."""
    named: int
    """The number of agents found by their name."""


class Hour(Struct, frozen=True):
    """The result of the measurement."""

    agents: int
    started: int
    """The number of agents on the roster."""
    once: int
    """The number of agents that completed after getting work once."""
    delivered_once: int
    """The number of agents whose result is in the log exactly once."""
    addressable: int
    compactions: int
    kills: int
    seconds: float
    """The duration by the provider's clock."""
    requests: int
    repeated: int
    """Final answers of agents that were requested again: at most those in progress at a kill."""
    samples: list[Sample]


class Harbour:
    """The model: a sub-agent's next step depends on its prompt, the main agent's on the content of its log.

    So it can continue after any kill, and after a compaction, which leaves little of a round in the prompt.
    """

    def __init__(self, clock: VirtualClock, home: Path) -> None:
        self._clock, self._lock, self._home = clock, Lock(), home
        self.final: list[str] = []
        """The tasks whose final answer was given, in order."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Return the answer to a request."""
        with self._lock:
            self._clock.advance(ANSWER_SECONDS)
            if "<analysis>" in prompt.last_text:
                return ModelReply([brains.text(summarise({"messages": prompt.messages}))])
            task, steps = _task(prompt.messages)
            return self._agent(task, steps) if task else self._main(log_of(self._home).read_bytes())

    def _agent(self, task: str, steps: int) -> ModelReply:
        if steps == 0:
            return ModelReply([brains.tool_use("Read", {"path": "berth.txt"}, f"t{task}")])
        self.final.append(task)
        return ModelReply([brains.text(f"Report {task}: the berth is free.")])

    def _main(self, log: bytes) -> ModelReply:
        now = max(map(int, re.findall(rb"ROUND (\d+):", log)))
        if f'"c{now}-0"'.encode() not in log:
            calls = [brains.tool_use("Agent", given, f"c{now}-{n}") for n, given in enumerate(_calls(now))]
            return ModelReply(calls)
        for number in range(2):
            if f'"f{now}-{number}"'.encode() not in log:
                path = {"path": f"berths{number}.txt"}
                return ModelReply([brains.tool_use("Read", path, f"f{now}-{number}")])
        return ModelReply([brains.text(f"All of {now} is under way or done.")])


def log_of(home: Path) -> Path:
    """Return the log of the session."""
    (log,) = home.rglob(f"{SESSION}.jsonl")
    return log


def _calls(now: int) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = [
        {"run_in_background": True, "name": f"watch-{now}"},
        {"run_in_background": True, "subagent_type": "fork", "name": f"fork-{now}"},
        {"run_in_background": True, "name": f"late-{now}"},
        {"subagent_type": "fork", "name": f"twin-{now}"},
        {"name": f"reader-{now}"},
    ]
    return [
        {"description": "look at a berth", "prompt": f"TASK {now}-{number}: is it free?", **kind}
        for number, kind in enumerate(kinds)
    ]


def _task(messages: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    """Return an agent's task and the number of its answers since; the task is empty for the main conversation."""
    task, steps = "", 0
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            steps += 1
            continue
        for block in message["content"]:
            words = block.get("text", "")
            if (place == 0 and words.startswith("TASK")) or "<agent-task>" in words:
                found = re.search(r"TASK (\d+-\d)", words)
                task, steps = (found[1] if found else task), 0
    return task, steps


# The agent's process


def live(url: str, folder: str, rounds: str, dies: str) -> None:
    """Work through the rounds; kill this process when the logs have grown by ``dies`` lines (0: never)."""
    import anthropic

    import sevenfold
    from sevenfold.clock import ManualClock
    from sevenfold.events import Answered
    from sevenfold.stores.jsonl.log import JsonlLog

    written, lock, append = 0, Lock(), JsonlLog.append

    def counted(log: JsonlLog, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        nonlocal written
        with lock:
            places = append(log, lines, durable=durable)
            written += len(lines)
            if int(dies) and written >= int(dies):
                os.kill(os.getpid(), signal.SIGKILL)
        return places

    JsonlLog.append = counted  # type: ignore[method-assign, assignment]
    clock, samples = ManualClock(), list[Sample]()

    def tick(event: object) -> None:
        if isinstance(event, Answered):
            clock.advance(ANSWER_SECONDS)

    settings = {
        "context_window": WINDOW,
        "notes": False,
        "background_compaction": False,
        "size_clearing": False,
        "gap_clearing": False,
        "provider_edits": False,
    }
    with (
        anthropic.Anthropic(base_url=url, api_key="simulated-key", max_retries=0) as sdk,
        sevenfold.Agent(
            MODEL,
            name=SESSION,
            folder=folder,
            client=sdk,
            clock=clock,
            agents=True,
            memory=False,
            mode="autonomous",
            settings=settings,
            listen=[tick],
        ) as agent,
    ):
        log, team = agent.session.conversation.transcript.log, agent.team
        assert team is not None
        for number in range(int(rounds)):
            prompt = f"ROUND {number}: have five berths looked at."
            if log.mentions(f"ROUND {number}:"):
                view = agent.session.conversation.transcript.view
                left = any(one.ended is None or one.pending for one in team.roster)
                newest = view.newest
                if left or view.pending_calls or (newest and newest.record.role == "user"):
                    agent.run()
            else:
                agent.run(prompt)
            samples.append(_sample(number))
        agents = {one.started.call: (str(one.status), one.runs, one.delivered) for one in team.roster}
        named = sum(team.roster.find(one.started.name).id == one.id for one in team.roster)
        life = Life(written, samples, agents, named)
    sys.stdout.write(msgspec.json.encode(life).decode() + "\n")


def _sample(number: int) -> Sample:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(
        number, len(list(Path("/proc/self/fd").iterdir())), pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    )


# The measurement


def measure(rounds: int = ROUNDS, kills: int = KILLS, seed: int = SEED) -> Hour:
    """Run once without kills to learn how long the logs become, then once with kills at random lines of them."""
    whole, *_ = _run(rounds, [])
    chance = Random(seed)
    places = sorted(chance.randrange(whole.lines // 10, whole.lines * 9 // 10) for _ in range(kills))
    last, brain, clock, lines, requests = _run(rounds, places)
    calls = [f"c{now}-{number}" for now in range(rounds) for number in range(AGENTS)]
    ended = [last.agents.get(call) for call in calls]
    return Hour(
        agents=len(calls),
        started=len(last.agents),
        once=sum(one is not None and one[:2] == ("completed", 1) for one in ended),
        delivered_once=sum(_deliveries(lines, call) == 1 for call in calls),
        addressable=last.named,
        compactions=sum(one.get("subtype") == "compact_boundary" for one in lines),
        kills=kills,
        seconds=clock,
        requests=requests,
        repeated=len(brain.final) - len(set(brain.final)),
        samples=last.samples,
    )


def _run(rounds: int, places: Sequence[int]) -> tuple[Life, Harbour, float, list[dict[str, Any]], int]:
    clock = VirtualClock()
    limits = RateLimits(input_tokens=10**12, requests=10**9)
    lives = [b - a for a, b in zip([0, *places], places, strict=False)]
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory())
        folder, home = Path(scratch) / "work", Path(scratch) / "home"
        began, brain = clock.now(), Harbour(clock, home)
        simulator = Simulator(brain, Setup(limits=limits), clock=clock)
        url = stack.enter_context(serve(simulator))
        folder.mkdir()
        for number in range(2):
            (folder / f"berths{number}.txt").write_text("".join(LINE.format(n) for n in range(LINES)))
        (folder / "berth.txt").write_text(LINE.format(7))
        for dies in (*(max(1, one) for one in lives), 0):
            command = [sys.executable, __file__, "--live", url, str(folder), str(rounds), str(dies)]
            environ = {**os.environ, "SEVENFOLD_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run(
                command, env=environ, stdout=subprocess.PIPE, timeout=PATIENCE, check=False
            )
            if done.returncode != (-signal.SIGKILL if dies else 0):
                raise SystemExit(f"a process ended with code {done.returncode}, killed after {dies} lines")
        lines = [json.loads(line) for line in log_of(home).read_text().splitlines() if line.endswith("}")]
        life = msgspec.json.decode(done.stdout, type=Life)
        return life, brain, clock.now() - began, lines, len(list(simulator.requests.answered()))


def _deliveries(lines: Sequence[Mapping[str, Any]], call: str) -> int:
    """Return how often the log contains an agent's report, in a message or as the result of the call."""
    report = f"Report {call[1:]}: the berth is free."
    said = [line for line in lines if line.get("type") == "user" and not line.get("isCompactSummary")]
    texts = [json.dumps(line.get("message", {})) for line in said]
    return sum(report in text for text in texts)


def bars(hour: Hour) -> list[tuple[str, str, bool]]:
    """Return the acceptance bars: (name, figure, met)."""
    files, memory = growth(hour.samples)
    return [
        ("each ran once", f"{hour.once} of {hour.agents}", hour.once == hour.agents == hour.started),
        (
            "each result delivered once",
            f"{hour.delivered_once} of {hour.agents}",
            hour.delivered_once == hour.agents,
        ),
        ("all addressable", f"{hour.addressable} of {hour.agents}", hour.addressable == hour.agents),
        ("asked again for what a kill cut off", str(hour.repeated), hour.repeated <= hour.kills * AGENTS),
        ("compactions", str(hour.compactions), hour.compactions >= hour.agents // (2 * AGENTS)),
        ("open files", f"{files:+}", files <= MOST_FILES),
        ("memory", f"{memory:+.0f} MB", memory <= MOST_MEGABYTES),
    ]


def growth(samples: Sequence[Sample]) -> tuple[int, float]:
    """Return by how many open files and megabytes a process grew from its second round to its last."""
    first, last = samples[min(1, len(samples) - 1)], samples[-1]
    return last.open_files - first.open_files, last.megabytes - first.megabytes


def main() -> int:
    """Measure and print; return 1 if a bar is missed, else 0."""
    if sys.argv[1:2] == ["--live"]:
        live(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    hour = measure(given.rounds, given.kills, given.seed)
    print(
        f"{hour.agents} agents in {hour.seconds / 60:.0f} simulated minutes, {hour.requests} requests, "
        f"{hour.kills} kills, {hour.compactions} compactions"
    )
    for name, figure, met in bars(hour):
        print(f"{'pass' if met else 'FAIL'}  {name}: {figure}")
    return 0 if all(met for *_, met in bars(hour)) else 1


if __name__ == "__main__":
    sys.exit(main())
