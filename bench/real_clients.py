"""Real Claude Code and Codex through a session with automatic compactions, a resume for each message, and tools.

    python -m bench.real_clients PROGRAM [--without-plugin] [--gateway] [--keep FOLDER] [--capture FILE] [--json]

PROGRAM is claude-code or codex, installed from npm by exact version into `.dev/clients`. It runs in a network
namespace of its own, against the simulator, with the plugin installed by `sevenfold install`. The user says a codeword
in each message; after each compaction all of them so far, and the one in the instruction file, must be in the request
as captured. `--without-plugin` is the control: there, they are not. With `--gateway` the program runs below `sevenfold
gateway`, and the figures of the recorded session are compared with those of the program's own transcript. In the end
the plugin is removed, and the settings must be as they were, to the byte.
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
from msgspec.structs import replace

from bench.clients import capture, programs, story
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.profiles import find
from sevenfold.record import entries
from sevenfold.record.decisions import Billed
from sevenfold.record.entries import Decision, Said
from sevenfold.record.usage import Usage

INSIDE = "SEVENFOLD_IN_NAMESPACE"
SEARCHES = "claude-code"
"""The program whose model is offered our search at once; Codex hides tools of servers behind a search of its own."""


class Figures(Struct, frozen=True):
    """What a run showed."""

    program: str
    version: str
    requests: int
    compactions: tuple[story.CompactionSeen, ...]
    recalled: bool | None
    """Whether the MCP tool found a fact that only an old tool result had; None where the program hides its tools."""
    settings_same: bool
    """Whether the settings are as they were once the plugin is removed."""
    calls_own: int = 0
    calls_gateway: int = 0
    calls_of_both: int = 0
    calls_that_differ: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", choices=tuple(programs.CLIENTS))
    parser.add_argument("--without-plugin", action="store_true")
    parser.add_argument("--gateway", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--capture", type=Path, metavar="FILE", help="write what was sent, shortened, for tests"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        programs.install()
        return in_namespace(sys.argv[1:])
    version = programs.install()[options.program]
    folder = options.keep or Path(tempfile.mkdtemp(prefix="sevenfold-clients-", dir="/var/tmp"))
    try:
        figures = drive(
            options.program,
            version,
            folder,
            plugin=not options.without_plugin,
            gateway=options.gateway,
            to=options.capture,
        )
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(msgspec.json.encode(figures).decode())
    else:
        show(figures)
    return 0 if holds(figures) else 1


def in_namespace(arguments: list[str]) -> int:
    """Run this again where there is no network but the loopback device."""
    again = [sys.executable, "-m", "bench.real_clients", *arguments]
    shell = 'ip link set lo up && exec "$@"'
    env = {**os.environ, INSIDE: "1"}
    return subprocess.call(["unshare", "-rn", "sh", "-c", shell, "sh", *again], env=env, cwd=programs.ROOT)


def drive(
    name: str, version: str, folder: Path, *, plugin: bool, gateway: bool, to: Path | None = None
) -> Figures:
    """Drive a program through the story."""
    brain = story.StoryBrain()
    compacting = replace(find(programs.CODEX_MODEL), on_demand_compaction=True, threshold_compaction=True)
    simulator = Simulator(
        ScriptedBrain(brain.answer),
        Setup(models={programs.CODEX_MODEL: compacting}),
        summarise=story.summary,
    )
    with serve(simulator) as url:
        client = programs.CLIENTS[name](folder, url, own_provider=gateway)
        story.prepare(client)
        before = client.settings.read_bytes()
        if plugin:
            programs.run(client, programs.sevenfold("install", name))
        said: list[int] = []
        session = ""
        for turn in range(story.TURNS):
            is_last = turn == story.TURNS - 1
            paths = [client.work / f"log-{turn * story.READS + read}.txt" for read in range(story.READS)]
            brain.plan.extend(map(story.reading, paths))
            if is_last and plugin and name == SEARCHES:
                brain.plan.append(story.recalling(story.lost_fact()))
            command = client.command(story.message(turn), session)
            if gateway:
                command = programs.sevenfold("gateway", "--upstream", url, "--", *command)
            session = client.session_of(programs.run(client, command))
            said += [turn + 1] * (len(simulator.requests) - len(said))
        if plugin:
            programs.run(client, programs.sevenfold("uninstall", name))
        requests = list(simulator.requests)
        for number, request in enumerate(requests):
            (folder / f"request-{number}.json").write_bytes(request.raw)
        if to is not None:
            capture.save(requests, to, folder)
        own = _own_calls(client, session) if gateway else {}
        watched = _watched_calls(client) if gateway else {}
        both = own.keys() & watched.keys()
        return Figures(
            program=name,
            version=version,
            requests=len(requests),
            compactions=tuple(story.compactions(requests, said)),
            recalled=any(b"is 5521" in request.raw for request in requests[-2:])
            if name == SEARCHES
            else None,
            settings_same=client.settings.read_bytes() == before,
            calls_own=len(own),
            calls_gateway=len(watched),
            calls_of_both=len(both),
            calls_that_differ=sum(own[call] != watched[call] for call in both),
        )


def _own_calls(client: programs.Client, session: str) -> dict[str, story.CallTokens]:
    """The tokens of each call by the id of its answer, as the program's own transcript has them."""
    calls: dict[str, story.CallTokens] = {}
    for line in client.transcript(session).read_bytes().splitlines():
        record = msgspec.json.decode(line)
        payload = record.get("payload") or {}
        message = record.get("message") or {}
        if record.get("type") == "token_usage_record":
            calls[payload["response_id"]] = story.CallTokens.of_codex(payload["usage"])
        elif (
            record.get("type") == "assistant"
            and message.get("usage")
            and message.get("model") != "<synthetic>"
        ):
            calls[message["id"]] = story.CallTokens.of_messages(message["usage"])
    return calls


def _watched_calls(client: programs.Client) -> dict[str, story.CallTokens]:
    """The same as the gateway recorded it."""
    calls: dict[str, story.CallTokens] = {}
    for path in (client.home / "sevenfold" / "projects").rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            match entries.read(line):
                case Said(message_id=message, usage=usage) if message and usage is not None:
                    calls[message] = story.CallTokens.of(usage)
                case Decision(record=Billed(request=request, usage=reported)):
                    calls[request] = story.CallTokens.of(Usage.read(reported))
    return calls


def show(figures: Figures) -> None:
    """Print what a run showed."""
    print(f"{figures.program} {figures.version}, {figures.requests} requests")
    for compaction in figures.compactions:
        missing = ", ".join(compaction.missing) or "nothing"
        print(f"  compaction before request {compaction.number}: missing {missing}")
    if figures.calls_own:
        print(
            f"  calls in its transcript {figures.calls_own}, recorded by the gateway {figures.calls_gateway},"
            f" in both {figures.calls_of_both}, of these with other figures {figures.calls_that_differ}"
        )
    print(
        f"  an old fact found by the tool: {figures.recalled}; settings restored: {figures.settings_same}"
    )


def holds(figures: Figures) -> bool:
    """Whether everything is as it must be."""
    whole = all(not compaction.missing for compaction in figures.compactions)
    return (
        len(figures.compactions) >= 3 and whole and figures.recalled is not False and figures.settings_same
    )


if __name__ == "__main__":
    sys.exit(main())
