"""The cost of preparing the next request after a tool result of 100 KB, by length of the session.

    python bench/prepare_cost.py [MESSAGES...]      default: 100 1000 10000

Ours is `session.prepare()`, before the body or the arguments are built: it decides about offloading results, estimates
the size with its band, lets the planner decide what to clear, and checks the request against the window. It is compared
with what others do at the same point, on the same session and in their own environments: LangChain's middleware for
clearing and for summaries, and the summarization of Deep Agents, none of which has reached its threshold. A second
figure of ours includes adding the result (store, fold and weigh it); with the peers that is the agent's work and not
timed. Times are CPU milliseconds, medians.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.peers import run, sessions  # noqa: E402 - started as a script, the project's folder is not on the path
from bench.peers.environments import Unavailable, python_of  # noqa: E402

LENGTHS = (100, 1_000, 10_000)
RESULT = 100_000
"""The number of characters of each new result."""
MOST_GROWTH = 1.5
LEAST_RATIO = 50.0
OURS = ("sevenfold", "turn: prepare")
TAKEN_IN = ("sevenfold", "turn: results, prepare")
PEERS = (
    ("langchain", "turn: clearing check"),
    ("langchain", "turn: summary check"),
    ("deepagents", "turn: summary check"),
)
MODULES = {"sevenfold": "sevenfold_", "langchain": "langchain_", "deepagents": "deepagents_"}

Table = dict[tuple[str, str], dict[int, float]]


def write(path: Path, messages: int) -> None:
    """Write a session of that many messages in which every measured turn has a result of 100 KB."""
    sessions.write(path, messages)
    lines = path.read_text("utf-8").splitlines()
    with path.open("w", encoding="utf-8") as file:
        for number, line in enumerate(lines):
            grown = _grown(json.loads(line)) if number >= messages - sessions.TURNS else line
            file.write(grown + "\n")


def _grown(message: sessions.Message) -> str:
    for block in message["content"]:
        if block["type"] == "tool_result":
            block["content"] = (block["content"] * (RESULT // len(block["content"]) + 1))[:RESULT]
    return json.dumps(message, ensure_ascii=False)


def measure(
    lengths: Sequence[int] = LENGTHS, cases: Sequence[tuple[str, str]] = (OURS, TAKEN_IN, *PEERS)
) -> Table:
    """Return the CPU milliseconds of each case by length; leave out peers that cannot be installed."""
    table: Table = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {length: Path(folder, f"{length}.jsonl") for length in lengths}
        for length, path in paths.items():
            write(path, length)
        for name, wanted in cases:
            adapter = run.adapter_of(MODULES[name])
            case = next(one for one in adapter.cases if one.name == wanted)
            try:
                python = python_of(adapter)
            except Unavailable as reason:
                print(f"{name}: left out, it cannot be installed here: {reason}", file=sys.stderr)
                continue
            times = table[name, wanted] = {}
            for length in lengths:
                times.update(run.timed(python, MODULES[name], case, length, paths[length]))
    return table


def bars(
    table: Mapping[tuple[str, str], Mapping[int, float]],
) -> list[tuple[str, float, float, bool | None]]:
    """Return the acceptance bars: (name, figure, bar, met); met is None if a peer could not be measured."""
    ours = table.get(OURS, {})
    found: list[tuple[str, float, float, bool | None]] = []
    if not ours:
        return [("our own time", 0.0, 0.0, False)]
    growth = ours[max(ours)] / ours[min(ours)]
    found.append(
        (
            f"prepare at {max(ours):,} / at {min(ours):,} messages",
            growth,
            MOST_GROWTH,
            growth <= MOST_GROWTH,
        )
    )
    for peer in PEERS:
        times = table.get(peer, {})
        name = f"{peer[0]}, {peer[1].removeprefix('turn: ')} / ours at {max(ours):,} messages"
        if max(ours) not in times:
            found.append((name, 0.0, LEAST_RATIO, None))
            continue
        ratio = times[max(ours)] / ours[max(ours)]
        found.append((name, ratio, LEAST_RATIO, ratio >= LEAST_RATIO))
    return found


def show(table: Mapping[tuple[str, str], Mapping[int, float]], lengths: Sequence[int]) -> None:
    """Print the times."""
    print(f"{'CPU ms':40}" + "".join(f"{length:>12,}" for length in lengths))
    for (name, case), times in table.items():
        cells = "".join(
            f"{times[length]:>12.3f}" if length in times else f"{'-':>12}" for length in lengths
        )
        print(f"{name + ', ' + case.removeprefix('turn: '):40}{cells}")


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 1 if a bar is missed, else 0."""
    lengths = [int(argument) for argument in arguments] or LENGTHS
    table = measure(lengths)
    show(table, lengths)
    verdicts = {True: "pass", False: "FAIL", None: "skip"}
    for name, figure, bar, met in bars(table):
        print(f"{verdicts[met]}  {name}: {figure:.3g} ({bar:g})")
    return 0 if all(met is not False for *_, met in bars(table)) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
