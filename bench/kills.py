"""Kill processes at random moments, and check that no data is lost and that the next request is accepted.

    python bench/kills.py [--kills N] [--seed N]

A process opens a session, takes random steps (requests, tool results, compactions, undo, redo, snips, rewinds, pins …)
and reports each once it is done. After a random time it is killed with SIGKILL. Then the session is reopened: every
message reported as done must be in the transcript, folding the log from its start must give the same view as opening
it, and the next request must be accepted unchanged. The provider is simulated in the process that does the killing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anthropic
from msgspec import Struct

import sevenfold
from sevenfold.conversation.resume import fold, resume
from sevenfold.errors import Refused
from sevenfold.events import Event, Failed
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain, text, thinking, tool_use
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.layers.compact.offline import summarise
from sevenfold.record.view import View
from sevenfold.stores.jsonl.log import JsonlLog

KILLS = 2_000
AT_ONCE = 4
"""How many processes work and are killed side by side; each mostly waits for its turn to be killed."""
LONGEST = 0.6
"""The maximum lifetime of a process in seconds, counted from its first report."""
PATIENCE = 60.0
"""The seconds a process may take to start and finish its first step."""
SESSION_KILLS = 6
"""The number of kills after which a new session begins."""
PAIRS: tuple[tuple[str, bool], ...] = (
    ("claude-sonnet-5-5", True),
    ("claude-sonnet-5-5", False),
    ("claude-opus-5-5", True),
    ("claude-opus-4-6", True),
    ("claude-haiku-4-5", False),
)
"""Models, and whether thinking is enabled."""
READ = sevenfold.tool(
    {"name": "Read", "description": "Read.", "input_schema": {"type": "object"}}, kind="read"
)
SETTINGS = {
    "context_window": 60_000,
    "gap_keep": 1,
    "size_trigger_tokens": 4_000,
    "size_target_tokens": 2_000,
    "size_least_tokens": 500,
}


class Done(Struct, frozen=True):
    """A step that was reported as done."""

    what: str
    words: str = ""
    """Text that must be in the transcript from then on."""
    error: str = ""
    """The error, if the step failed; the process then stops."""


class Tally(Struct):
    """The totals over all kills."""

    kills: int = 0
    done: Counter[str] = Counter()
    problems: list[str] = []

    def __str__(self) -> str:
        """Return a one-line summary."""
        return f"{self.kills} kills, {self.done.total():,} things done, {len(self.problems)} problems"


def session(url: str, file: Path, model: str, thinks: bool, listen: Any = ()) -> sevenfold.Session:
    """Open the session stored in a file."""
    sdk = anthropic.Anthropic(api_key="simulated-key", base_url=url, max_retries=0)
    more: dict[str, Any] = {"thinking": {"type": "adaptive"}} if thinks else {}
    return sevenfold.Session.open(
        "s",
        file=file,
        folder=file.parent,
        model=model,
        system="Be careful. " * 300,
        tools=[READ],
        max_tokens=2_000,
        client=sdk,
        settings=SETTINGS,
        listen=list(listen),
        **more,
    )


# The process that is killed


class Work:
    """Random steps on a session."""

    def __init__(self, opened: sevenfold.Session, chance: random.Random, name: str) -> None:
        self._session, self._chance, self._name = opened, chance, name
        self._numbers = count(1)

    def step(self) -> Done:
        """Take one random step; a refusal counts as done."""
        asks = [self.ask] * 6
        others = [
            self.compact,
            self.undo,
            self.undo,
            self.redo,
            self.redo,
            self.snip,
            self.rewind,
            self.pin,
            self.say,
        ]
        chosen: Callable[[], str] = self._chance.choice([*asks, *others])
        words = ""
        with suppress(Refused):
            words = chosen()
        return Done(chosen.__name__, words)

    def ask(self) -> str:
        """Make one request and give results for its tool calls."""
        self._answer()
        newest = self._session.conversation.transcript.view.newest
        words = self.say() if newest is None or newest.record.role == "assistant" else ""
        self._session.complete()
        return self._answer() or words

    def say(self) -> str:
        """Add a user message with a unique word in it, and return that word."""
        self._answer()
        words = f"word-{self._name}-{next(self._numbers)}"
        self._session.user(f"Go on, please: {words}")
        return words

    def compact(self) -> str:
        """Compact with a random engine, the whole conversation or a part of it."""
        self._answer()
        engine: Any = self._chance.choice(["fork", "plain", "extractive", None])
        names = self._rounds()
        wish: dict[str, Any] = {}
        if len(names) > 3 and self._chance.random() < 0.5:
            wish = {"span": self._chance.choice(["from", "up_to"]), "record": names[len(names) // 2]}
        self._session.compact(engine=engine, **wish)
        return ""

    def undo(self) -> str:
        """Undo the newest decision."""
        self._session.undo()
        return ""

    def redo(self) -> str:
        """Redo the newest undone decision."""
        self._session.redo()
        return ""

    def snip(self) -> str:
        """Snip a round."""
        names = self._rounds()
        if len(names) > 2:
            place = self._chance.randrange(len(names) - 1)
            items = [item.record.uuid for item in self._session.conversation.transcript.view.items]
            self._session.snip(names[place], items[items.index(names[place + 1]) - 1])
        return ""

    def rewind(self) -> str:
        """Rewind to a random round."""
        if names := self._rounds():
            self._session.rewind(self._chance.choice(names))
        return ""

    def pin(self) -> str:
        """Pin a record."""
        items = self._session.conversation.transcript.view.items
        if items:
            self._session.pin(self._chance.choice(items).record.uuid)
        return ""

    def _answer(self) -> str:
        calls = self._session.conversation.waiting
        words = f"word-{self._name}-{next(self._numbers)}"
        size = self._chance.choice([20, 400, 3_000])
        if calls:
            self._session.tool_results(dict.fromkeys(calls, f"{words} " + "a line of output\n" * size))
        return words if calls else ""

    def _rounds(self) -> list[str]:
        view = self._session.conversation.transcript.view
        return [
            item.record.uuid
            for item in view.items
            if item.record.role == "assistant" and view.begins_round(item.record.uuid)
        ]


def work(url: str, file: str, pair: tuple[str, bool], seed: int, reports: Connection) -> None:
    """Take random steps until killed, and report each."""
    chance = random.Random(seed)
    with session(url, Path(file), *pair) as opened:
        doing = Work(opened, chance, str(seed))
        while True:
            try:
                done = doing.step()
            except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
                done = Done("failing", error=repr(error))
            reports.send(done)
            if done.error:
                return


# The process that kills and checks


def mind(prompt: ModelPrompt) -> Any:
    """A model that reads files, and summarises when asked to."""
    if "<summary>" in prompt.last_text and "<analysis>" in prompt.last_text:
        return summarise({"messages": prompt.messages})
    thought = [thinking("hm")] if "thinking" in prompt.body else []
    said = [*thought, text("Looking.")]
    return [*said, tool_use("Read", {"path": "a.py"})] if random.random() < 0.7 else said


def kill_once(url: str, file: Path, pair: tuple[str, bool], seed: int) -> list[Done]:
    """Let a process work on a session and kill it; return the steps it had reported by then."""
    context = multiprocessing.get_context("forkserver")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(url, str(file), pair, seed, writer), daemon=True)
    child.start()
    writer.close()
    done: list[Done] = []
    lives = random.Random(seed).uniform(0, LONGEST)
    with suppress(EOFError):
        # The start-up time does not count towards the lifetime.
        if not reader.poll(PATIENCE):
            done.append(Done("starting", error=f"nothing was done within {PATIENCE:.0f} seconds"))
        until = time.monotonic() + lives
        while (left := until - time.monotonic()) > 0:
            if reader.poll(left):
                done.append(reader.recv())
    child.kill()
    child.join()
    with suppress(EOFError):
        while reader.poll():
            done.append(reader.recv())
    reader.close()
    if child.exitcode != -signal.SIGKILL and not any(one.error for one in done):
        done.append(Done("ending", error=f"the process ended by itself with exit code {child.exitcode}"))
    return done


def look(url: str, file: Path, pair: tuple[str, bool], known: list[Done]) -> list[str]:
    """Check a session after a kill, sending its next request; return the problems."""
    problems: list[str] = []
    raw = file.read_bytes()
    lost = [one.words for one in known if one.words and one.words.encode() not in raw]
    if lost:
        problems.append(f"lost: {lost[0]}")
    log = JsonlLog(file)
    if _view(resume(log)) != _view(fold(log)):
        problems.append("opened, it is not what reading it from the beginning gives")
    failed: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Failed):
            failed.append(event.reason)

    with session(url, file, *pair, listen=[hear]) as opened:
        try:
            Work(opened, random.Random(0), "look").ask()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
            failed.append(repr(error))
    return problems + [f"refused: {reason}" for reason in failed]


def _view(view: View) -> tuple[Any, ...]:
    return view.encoded(), view.tip, view.boundary, view.epoch


def search(kills: int = KILLS, seed: int = 0, keep: Path | None = None) -> Tally:
    """Kill this many times; copy sessions with problems to ``keep``, if given."""
    tally = Tally()
    multiprocessing.set_forkserver_preload(["bench.kills", "sevenfold.providers.anthropic"])
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, serve(Simulator(ScriptedBrain(mind))) as url:
        while tally.kills < kills:
            pair, file = chance.choice(PAIRS), Path(folder) / f"{tally.kills}.jsonl"
            known: list[Done] = []
            for _ in range(SESSION_KILLS):
                done = kill_once(url, file, pair, chance.randrange(2**31))
                known += done
                tally.kills += 1
                tally.done.update(one.what for one in done)
                found = [f"failed: {one.error}" for one in done if one.error]
                found += look(url, file, pair, known)
                tally.problems += [
                    f"{pair[0]}: after {done[-1].what if done else 'nothing'}: {one}" for one in found
                ]
                if found:
                    if keep is not None:
                        (keep / file.name).write_bytes(file.read_bytes())
                    break
    return tally


def search_side_by_side(kills: int = KILLS, seed: int = 0) -> Tally:
    """Kill this many times in several threads, each with its own sessions."""
    share = -(-kills // AT_ONCE)
    total = Tally()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for tally in pool.map(partial(search, share), range(seed, seed + AT_ONCE)):
            total.kills += tally.kills
            total.done.update(tally.done)
            total.problems += tally.problems
    return total


def main() -> int:
    """Kill, check and print; return exit status 0 if there were no problems, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--keep", type=Path, help="a folder for sessions in which something was wrong")
    given = parser.parse_args()
    tally = search(given.kills, given.seed, given.keep)
    print(f"seed {given.seed}: {tally}")
    print(dict(tally.done.most_common()))
    for problem in tally.problems:
        print(problem)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
