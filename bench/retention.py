"""What a compaction keeps of a conversation: our engine compared with others.

    python bench/retention.py [FOLDER]      default: ../shared/corpus beside the project

The same facts of the same sessions are searched for in what the model would see next (*in context*), then in what it
could look up (*reachable*: by our recall, or in the files that Deep Agents writes; LangChain and a plain summary leave
nothing to look up). The same code, not a model, writes the summaries for all engines, from what each shows its model.
Peers run in their own environments (`bench/peers`); one that cannot be installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.archive import fidelity
from sevenfold.archive.audit import by_recall
from sevenfold.archive.fidelity import Count, Probe
from sevenfold.lab.simulator.tokens import Counter
from sevenfold.layers.compact.compaction import EngineName
from sevenfold.layers.compact.offline import summarise
from sevenfold.providers.offline import OfflineClient
from sevenfold.providers.registry import OFFLINE
from sevenfold.record import blocks
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.peers.environments import Unavailable, python_of  # noqa: E402 - started as a script, the project's folder is not on the path
from bench.peers.run import QUIET, adapter_of  # noqa: E402
from bench.points.recount import kind_of  # noqa: E402
from bench.trials.cut import Cut, cuts  # noqa: E402
from bench.trials.trial import open_session  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus"
LARGE = 100
"""The least number of records in view for a session to be worth compacting."""
ASK = {"role": "user", "content": [{"type": "text", "text": "Summarise this conversation."}]}
PEERS = {
    "LangChain, as it comes": ("langchain_", "langchain"),
    "LangChain, all shown to the summariser": ("langchain_", "langchain-all"),
    "Deep Agents": ("deepagents_", "deepagents"),
}
"""The adapter module that lists what to install, and the name by which the worker is asked for this engine."""

Json = dict[str, Any]


Reachable = Callable[[Probe], bool]


def by_reading(probes: Iterable[Probe], texts: Sequence[str]) -> Reachable:
    """Return a predicate that counts a fact as reachable if any of the texts that the model may open contains it."""
    score = fidelity.judge(probes, texts, nowhere)
    held = {probe for probe, state in score.states if state == "in_context"}
    return held.__contains__


def nowhere(probe: Probe) -> bool:
    """Count no fact as reachable."""
    return False


class Left(Struct, frozen=True):
    """The result of a compaction: the texts the model sees next, their size, and what else it can reach."""

    texts: Sequence[str]
    tokens: int
    reachable: Reachable = nowhere


class Kept(Struct, frozen=True):
    """The number of facts in context, reachable and lost over all sessions, and the tokens left."""

    sessions: int = 0
    in_context: int = 0
    reachable: int = 0
    lost: int = 0
    tokens: int = 0

    def plus(self, count: Count, tokens: int) -> Kept:
        """Return the totals with one more session added."""
        return Kept(
            self.sessions + 1,
            self.in_context + count.in_context,
            self.reachable + count.reachable,
            self.lost + count.lost,
            self.tokens + tokens,
        )


class Conversation(Struct, frozen=True):
    """A session to compact, and the facts to look for afterwards."""

    cut: Cut
    messages: list[Json]
    probes: Sequence[Probe]
    tokens: int


Way = Callable[[Conversation], Left]


def conversations(corpus: Path, most: int | None = None) -> Iterator[Conversation]:
    """Yield the larger sessions of a folder, cut halfway and before the last call; at most ``most`` of them."""
    files = [path for path in sorted(corpus.rglob("*.jsonl")) if kind_of(path) == "claude"]
    found = 0
    for cut in (cut for path in files for cut in cuts(path, 2)):
        session, _ = open_session(cut)
        with session:
            items = list(session.conversation.transcript.view.items)
            messages = [msgspec.json.decode(raw) for raw in session.conversation.transcript.view.encoded()]
        if len(items) >= LARGE and found != most:
            found += 1
            yield Conversation(cut, messages, fidelity.probes(items), _tokens(messages))


def ours(engine: EngineName) -> Way:
    """Return a way to compact with one of our engines and the offline model."""

    def compact(conversation: Conversation) -> Left:
        session, store = open_session(conversation.cut, client=OfflineClient(OFFLINE.script()))
        with session:
            session.compact(engine=engine)
            store.recall.catch_up()
            view, reach = session.conversation.transcript.view, by_recall(store.recall.index)
            found = {probe for probe in conversation.probes if reach(probe)}
            messages = [msgspec.json.decode(raw) for raw in view.encoded()]
            return Left(fidelity.texts(view.items), _tokens(messages), found.__contains__)

    return compact


def plain(conversation: Conversation) -> Left:
    """Replace everything with the summary from a single call."""
    text = summarise({"messages": [*conversation.messages, ASK]})
    return Left([text], _tokens([{"content": [{"type": "text", "text": text}]}]))


def peer(module: str, name: str) -> Way:
    """Return a way to compact with another engine, in its own environment."""
    python = python_of(adapter_of(module))

    def compact(conversation: Conversation) -> Left:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "messages.json")
            file.write_text(json.dumps(conversation.messages), "utf-8")
            came = _worked(python, name, file)
        texts = fidelity.texts(_items(came["context"]))
        reachable = by_reading(conversation.probes, came["files"]) if came["files"] else nowhere
        return Left(texts, _tokens(came["context"]), reachable)

    return compact


def _worked(python: Path, name: str, file: Path) -> Json:
    """Run the worker, answer its requests for summaries, and return its result."""
    command = [str(python), "-m", "bench.peers.retaining", name, str(file)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **QUIET, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdin is not None, "it is a pipe"
        assert worker.stdout is not None, "it is a pipe"
        for line in worker.stdout:
            said: Json = json.loads(line)
            if "summarise" not in said:
                return said
            text = summarise({"messages": [*said["summarise"], ASK]})
            worker.stdin.write(json.dumps(text) + "\n")
            worker.stdin.flush()
    raise RuntimeError(f"{name} came to nothing; it ended with {worker.returncode}")


def _items(messages: Sequence[Json]) -> list[Any]:
    parts = [
        tuple(blocks.read(msgspec.json.encode(part)) for part in message["content"]) for message in messages
    ]
    return [
        Item.of(Said(f"m{place}", None, messages[place]["role"], said), place)
        for place, said in enumerate(parts)
    ]


def _tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    counter = Counter()
    parts = [part for message in messages for part in message["content"]]
    return sum(counter.block(part, "claude-b") for part in parts)


def ways() -> dict[str, Way]:
    """Return all ways that can be compared on this machine."""
    found: dict[str, Way] = {
        "Sevenfold, with the offline model": ours("fork"),
        "Sevenfold, by code alone": ours("extractive"),
        "a plain summary": plain,
    }
    for title, (module, name) in PEERS.items():
        try:
            found[title] = peer(module, name)
        except Unavailable as reason:
            print(f"{title}: left out, it cannot be installed here: {reason}", file=sys.stderr)
    return found


def measure(
    corpus: Path, compared: Mapping[str, Way], most: int | None = None
) -> tuple[dict[str, Kept], int]:
    """Return what each way keeps over all sessions, and the tokens of the sessions before compaction."""
    kept = {title: Kept() for title in compared}
    before = 0
    for conversation in conversations(corpus, most):
        before += conversation.tokens
        for title, way in compared.items():
            left = way(conversation)
            score = fidelity.judge(conversation.probes, left.texts, left.reachable)
            kept[title] = kept[title].plus(score.total, left.tokens)
    return kept, before


def show(kept: Mapping[str, Kept], before: int) -> None:
    """Print the table."""
    print(f"{'':40}{'in context':>12}{'reachable':>12}{'lost':>8}{'tokens':>10}")
    for title, one in kept.items():
        print(
            f"{title:40}{one.in_context:>12,}{one.reachable:>12,}{one.lost:>8,}{one.tokens / max(1, before):>10.1%}"
        )
    print(f"{max((one.sessions for one in kept.values()), default=0)} sessions, {before:,} tokens before")


def main(arguments: Sequence[str]) -> int:
    """Compare and print; return 0 if our engine without a model lost no fact, else 1."""
    parser = argparse.ArgumentParser(description="What compactions leave, ours beside others.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        print(f"no transcripts in {options.folder}: there is nothing to compare")
        return 1
    kept, before = measure(options.folder, ways())
    show(kept, before)
    return 0 if kept["Sevenfold, by code alone"].lost == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
