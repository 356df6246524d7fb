"""Eight forks of a long conversation: their cache reads and their cost.

    python bench/forks.py [TOKENS] [--peers]      default: 100000, the conversation they share

An agent with a conversation of this many tokens has eight tasks done by forks, through the official SDK against the
simulator, after the parent's cache has expired; then each fork is woken five times. Printed are the share of the shared
prefix that forks 2 to 8 and every wake read from the cache, and the cost next to three others computed from the same
requests: the ideal (every token sent before is read), all forks started at once without one going first, and sub-agents
that start with the conversation as uncached text of their own, as in frameworks without forks. With ``--peers``,
sub-agents of Deep Agents and Pydantic AI do the same work in the same run with their own code, each in its own
environment (see `bench/peers/forking.py`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import sevenfold  # noqa: E402  # needs the path above
from bench.peers.environments import Unavailable, python_of  # noqa: E402
from bench.peers.timing import Adapter  # noqa: E402
from sevenfold.agent.team.team import Team  # noqa: E402
from sevenfold.lab.simulator.brains import ScriptedBrain  # noqa: E402
from sevenfold.lab.simulator.clock import VirtualClock  # noqa: E402
from sevenfold.lab.simulator.provider import Simulator  # noqa: E402
from sevenfold.lab.simulator.server import serve  # noqa: E402

MODEL = "claude-sonnet-5-5"
TOKENS = 100_000
FORKS = 8
WAKES = 5
PEERS = {
    "deepagents": ("deepagents", "langchain-anthropic"),
    "pydantic-ai": ("pydantic-ai-slim[anthropic]",),
}
"""Peers, and the packages they need."""
LEAST_READ = 0.99
MOST_ABOVE_IDEAL = 1.03
EXPIRY = 3_900.0
PAUSE = 120.0
"""Seconds between wakes."""


def usd(usage: Mapping[str, Any], write: float = 3.75, read: float = 0.3, plain: float = 3.0) -> float:
    """Return the price in dollars of one request's prompt."""
    prices = {
        "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read,
        "input_tokens": plain,
    }
    return sum(float(usage[name]) * price for name, price in prices.items()) / 1e6


def least_usd(tokens: int, known: int) -> float:
    """Return the price in dollars of a prompt if its ``known`` tokens are read from the cache and the rest written."""
    return (known * 0.3 + (tokens - known) * 3.75) / 1e6


def prompt_tokens(usage: Mapping[str, Any]) -> int:
    """Return all prompt tokens of a request."""
    names = ("cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens")
    return sum(int(usage[name]) for name in names)


def worked(tokens: int) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Run the work; return the usage of the forks' first requests, in order, and of all wakes."""
    import anthropic

    clock = VirtualClock()
    simulator = Simulator(ScriptedBrain(lambda prompt: "Done."), clock=clock)
    text = "The harbour has many berths, and each of them is described here in a line of its own. "
    with tempfile.TemporaryDirectory() as folder, serve(simulator) as url:
        client = anthropic.Anthropic(base_url=url, api_key="simulated-key")
        settings = {"notes": False, "extraction": False}
        with sevenfold.Agent(
            MODEL, client=client, clock=clock, folder=folder, agents=True, settings=settings
        ) as agent:
            agent.run(text * (tokens * 2 // len(text)))
            clock.advance(EXPIRY)
            before = len(simulator.requests.answered())
            agent.map([f"Task {number}: look at berth {number}." for number in range(FORKS)])
            forks: list[Mapping[str, Any]] = [
                dict(one.usage or {}) for one in simulator.requests.answered()[before:]
            ]
            wakes = _woken(agent, agent.team, simulator, clock)
        client.close()
    return forks, wakes


def _woken(
    agent: sevenfold.Agent, team: Team | None, simulator: Simulator, clock: VirtualClock
) -> list[Mapping[str, Any]]:
    assert team is not None
    before = len(simulator.requests.answered())
    for number in range(WAKES):
        clock.advance(PAUSE)
        for entry in list(team.roster):
            agent._drive(team.work(team.continue_work(entry, f"And now look at berth {number} again.")))
    woken = [one for one in simulator.requests.answered()[before:] if one.body is not None]
    return [dict(one.usage or {}) for one in woken]


def peer_usages(name: str, tokens: int) -> tuple[str, list[Mapping[str, Any]]]:
    """Return a peer's version and the usage of its sub-agents' requests; raise `Unavailable` if it cannot run."""
    python = python_of(Adapter(f"forks-{name}", (), PEERS[name]))
    shown = subprocess.run(
        [
            python,
            "-c",
            f"import importlib.metadata as m; print(m.version({PEERS[name][0].partition('[')[0]!r}))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    clock = VirtualClock()
    simulator = Simulator(ScriptedBrain(lambda prompt: "Done."), clock=clock)
    script = Path(__file__).parent / "peers" / "forking.py"
    with serve(simulator) as url:
        command = [str(python), str(script), name, url, *map(str, (tokens, FORKS, WAKES))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
            assert peer.stdin is not None
            assert peer.stdout is not None
            before = 0
            for line in peer.stdout:
                part = line.strip()
                if part == "forks":
                    before = len(simulator.requests.answered())
                clock.advance({"forks": EXPIRY, "wakes": PAUSE}.get(part, 0.0))
                peer.stdin.write("\n")
                peer.stdin.flush()
        if peer.returncode:
            raise Unavailable(f"it ended with code {peer.returncode}")
    return shown.stdout.strip(), [dict(one.usage or {}) for one in simulator.requests.answered()[before:]]


def compare_peers(tokens: int, paid: float) -> None:
    """Print the cost of the same work for each peer."""
    for name in PEERS:
        try:
            version, usages = peer_usages(name, tokens)
        except Unavailable as error:
            print(f"{name}: left out, {error}")
            continue
        theirs = sum(map(usd, usages))
        read = sum(int(one["cache_read_input_tokens"]) for one in usages) / sum(map(prompt_tokens, usages))
        print(
            f"{name} {version}: ${theirs:.3f}, {theirs / paid:.1f} x; {len(usages)} requests, {read:.1%} read"
        )


def main(tokens: int, peers: bool) -> int:
    """Measure and print; return 1 if a bar is missed, else 0."""
    forks, wakes = worked(tokens)
    first, *others = forks
    shared = prompt_tokens(first)
    read = min(one["cache_read_input_tokens"] for one in others) / shared
    woken = min(one["cache_read_input_tokens"] / prompt_tokens(one) for one in wakes)
    paid = sum(map(usd, (*forks, *wakes)))
    common = max(one["cache_read_input_tokens"] for one in others)
    ideal = usd(first) + sum(least_usd(prompt_tokens(one), common) for one in others)
    for number, one in enumerate(wakes):
        before = wakes[number - FORKS] if number >= FORKS else forks[number]
        ideal += least_usd(prompt_tokens(one), min(prompt_tokens(before), prompt_tokens(one)))
    at_once = usd(first) * len(forks) + sum(map(usd, wakes))
    fresh = sum(prompt_tokens(one) for one in (*forks, *wakes)) * 3.0 / 1e6
    print(
        f"{FORKS} forks over {shared:,} tokens, woken {WAKES} times each: {len(forks) + len(wakes)} requests"
    )
    print(
        f"shared prefix read by forks 2 to {FORKS}: {read:.2%} at least; prompt read by wakes: {woken:.2%} at least"
    )
    print(f"prompts paid:        ${paid:.3f}, {paid / ideal:.3f} x the ideal")
    print(f"all forks at once:   ${at_once:.3f}, {at_once / paid:.1f} x")
    print(f"uncached sub-agents: ${fresh:.3f}, {fresh / paid:.1f} x")
    held = read >= LEAST_READ and woken >= LEAST_READ and paid <= MOST_ABOVE_IDEAL * ideal
    if peers:
        compare_peers(tokens, paid)
    print("held" if held else "NOT held")
    return 0 if held else 1


if __name__ == "__main__":
    given = [one for one in sys.argv[1:] if one != "--peers"]
    sys.exit(main(int(given[0]) if given else TOKENS, "--peers" in sys.argv))
