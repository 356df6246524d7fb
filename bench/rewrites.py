"""Whatever a program does to its own list of messages: what is sent in its place is accepted, and nothing is undone.

    python bench/rewrites.py [--count 20000] [--seed N] [--jobs 1]

A program talks to a model below a follower that keeps its conversation in a window of 10,000 tokens, and rewrites its
list between two questions: small changes (a result is cleared or shortened, a reminder is added or taken back, a text
becomes blocks, an old call is rewritten, parallel results change places, marks for the cache move), and from time to
time one that gives up a part of the conversation (it goes back, drops its oldest rounds, or goes on with a summary of
its own). After each rewrite and the question behind it:

- the provider accepts what was sent, and no error of ours kept the follower from deciding;
- a small change has undone no compaction, rewound nothing, and is not on record as a compaction of the program's;
- going back is on record as a rewind or as an undone compaction, and a summary as a compaction of the program's.

A session has five to thirty rewrites and ends with its first problem; its number is its seed, and the same one repeats
it. The provider's rules are those of the simulator, in this process; summaries are made by code.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from sevenfold import profiles  # noqa: E402 - started as a script, the project's folder is not on the path
from sevenfold.clock import RandomIds, SystemClock  # noqa: E402
from sevenfold.doors.follower.follower import CallEnd, ClientCall, FollowedCall  # noqa: E402
from sevenfold.doors.follower.keeper import KeepingFollower, KeepingOptions  # noqa: E402
from sevenfold.doors.follower.keeping import KeptConversation  # noqa: E402
from sevenfold.lab.rules import refusals  # noqa: E402
from sevenfold.lab.rules.base import RuleFacts  # noqa: E402
from sevenfold.ports import Client  # noqa: E402
from sevenfold.providers.registry import client_for  # noqa: E402
from sevenfold.record import blocks  # noqa: E402
from sevenfold.record.decisions import Rewound, Undone  # noqa: E402
from sevenfold.record.log import Answer  # noqa: E402
from sevenfold.session.factory import OFFLINE_JOBS  # noqa: E402
from sevenfold.settings import Settings  # noqa: E402
from sevenfold.stores.memory import MemoryStore  # noqa: E402

COUNT = 20_000
REWRITES = (5, 30)
"""How few and how many rewrites a session has: what one costs grows with what is on record."""
WINDOW = 10_000
MODEL = "claude-opus-4-6"
SYSTEM = "s"
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]
FILLER = "It was a long day, and the harbour was calm. " * 30
LONGEST_TEXTS = (150, 400, 1_300)
"""How long a text of a session is at most; which of these it is, is drawn for each session."""
GIVING_UP_SHARE = 0.2
"""How many of the rewrites give up a part of the conversation."""
SHORTEST_TO_SPLIT = 3
MARK = {"type": "ephemeral"}
TOGETHER = 8
"""Sessions that are given to each process at once."""
PROGRESS_EVERY = 1_000
"""Rewrites between two lines about the progress."""
MOST_SHOWN = 5

Message = dict[str, Any]


class Problem(Exception):
    """What must not happen has happened."""


class Figures(Struct, frozen=True):
    """What a search did and found."""

    sessions: int = 0
    rewrites: int = 0
    requests: int = 0
    changed: int = 0
    """Requests that were sent in another way than the program wrote them."""
    compactions: int = 0
    """Compactions of ours."""
    problems: Mapping[str, Sequence[int]] = {}
    """What went wrong, with the seeds of the sessions in which it did."""

    def __str__(self) -> str:
        return (
            f"{self.rewrites:,} rewrites in {self.sessions:,} sessions ({self.requests:,} requests, {self.changed:,} "
            f"of them changed by us, {self.compactions:,} compactions of ours): "
            f"{sum(map(len, self.problems.values())):,} sessions with a problem"
        )

    def after(self, session: Figures) -> Figures:
        """The figures with those of one more session."""
        problems: dict[str, list[int]] = defaultdict(list)
        for figures in (self, session):
            for problem, seeds in figures.problems.items():
                problems[problem] += seeds
        return Figures(
            self.sessions + session.sessions,
            self.rewrites + session.rewrites,
            self.requests + session.requests,
            self.changed + session.changed,
            self.compactions + session.compactions,
            problems,
        )


class DecisionsOnRecord(Struct, frozen=True):
    """What the record says was decided so far."""

    taken_back: int
    """Decisions that were undone, and rewinds."""
    programs_compactions: int
    our_compactions: int


class RewritingProgram:
    """A program that keeps a list, and does to it what programs do."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._longest = self.chance.choice(LONGEST_TEXTS)
        self.planned = self.chance.randint(*REWRITES)
        """How many rewrites there are to be."""
        self.messages: list[Message] = []
        self.requests = 0
        self.changed = 0
        self.rewrites = 0
        self._failures: list[Exception] = []
        self._facts = RuleFacts.of(profiles.find(MODEL))
        self._calls_made = 0
        self._questions = 0
        self._newest: FollowedCall | None = None
        options = KeepingOptions(
            Settings(context_window=WINDOW), client=_offline, failed=self._failures.append
        )
        self._follower = KeepingFollower(
            MemoryStore(), "", b"secret", options, clock=SystemClock(), ids=RandomIds()
        )

    def close(self) -> None:
        """Close the session."""
        self._follower.close()

    # -- talking -----------------------------------------------------------------------------------

    def say(self) -> None:
        """Ask a question, and carry out what the model calls until it has answered."""
        self._questions += 1
        self.messages.append({"role": "user", "content": f"Question {self._questions}: {self._text()}"})
        self._finish_turn()

    def decisions(self) -> DecisionsOnRecord:
        """What the record says was decided so far."""
        assert self._newest is not None
        conversation = self._newest.conversation
        assert isinstance(conversation, KeptConversation)
        log = conversation.transcript.log
        boundaries = [boundary for _, boundary in log.boundaries()]
        ours = sum(boundary.own for boundary in boundaries)
        taken_back = [*log.decisions(Undone), *log.decisions(Rewound)]
        return DecisionsOnRecord(len(taken_back), len(boundaries) - ours, ours)

    def _finish_turn(self) -> None:
        for _ in range(self.chance.randint(0, 2)):
            names = [self._call_name() for _ in range(self.chance.randint(1, 3))]
            self._ask([{"type": "tool_use", "id": name, "name": "Read", "input": {}} for name in names])
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": name,
                    "content": f"{name}: {FILLER[: self.chance.randint(1, self._longest)]}",
                }
                for name in names
            ]
            self.messages.append({"role": "user", "content": results})
        self._ask([{"type": "text", "text": f"Answer {self.requests}. {self._text()}"}])

    def _call_name(self) -> str:
        self._calls_made += 1
        return f"toolu_{self._calls_made:04}"

    def _text(self) -> str:
        return FILLER[: self.chance.randint(10, self._longest)]

    def _ask(self, answer: Sequence[Message]) -> None:
        """Send the list, check what is sent in its place, and take the answer."""
        self.requests += 1
        body = json.dumps(
            {"model": MODEL, "max_tokens": 100, "system": SYSTEM, "tools": TOOLS, "messages": self.messages}
        ).encode()
        headers = {"x-api-key": "k", "x-sevenfold-session": "work"}
        call = ClientCall("messages", "/v1/messages", headers, body)
        followed = self._follower.prepare(call, "http://127.0.0.1:9")
        if self._failures:
            raise Problem(f"not prepared: {self._failures[0]!r}")
        self._newest = followed
        self.changed += followed.body is not None
        sent = followed.body or body
        messages = msgspec.json.decode(sent)["messages"]
        refused = refusals(messages, facts=self._facts, tools=TOOLS, system=SYSTEM)
        if refused:
            raise Problem(f"refused: {refused[0]}")
        self._answered(followed, sent, answer)
        self.messages.append({"role": "assistant", "content": answer})

    def _answered(self, followed: FollowedCall, sent: bytes, answer: Sequence[Message]) -> None:
        usage = {"input_tokens": len(sent) // 4, "output_tokens": 50}
        parts = tuple(blocks.read(json.dumps(block).encode()) for block in answer)
        raw_usage = msgspec.Raw(json.dumps(usage).encode())
        reply = Answer(f"msg_{self.requests}", MODEL, parts, raw_usage, "end_turn")
        self._follower.ended(followed, CallEnd(200, reply))
        self._follower.settle()

    # -- what programs do to their own past --------------------------------------------------------

    def clear_a_result(self) -> None:
        """Show a result as cleared."""
        if results := self._parts("tool_result"):
            self.chance.choice(results)["content"] = "[cleared]"

    def shorten_a_result(self) -> None:
        """Cut a result in half."""
        if results := self._parts("tool_result"):
            result = self.chance.choice(results)
            result["content"] = result["content"][: len(result["content"]) // 2]

    def write_blocks_for_text(self) -> None:
        """Write a text as a list of blocks."""
        message = self.chance.choice(self.messages)
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]

    def add_a_reminder(self) -> None:
        """Put a reminder behind an old text."""
        texts = [message for message in self.messages if isinstance(message["content"], str)]
        if texts:
            message = self.chance.choice(texts)
            reminder = {
                "type": "text",
                "text": f"<system-reminder>The time is {self.requests}.</system-reminder>",
            }
            message["content"] = [{"type": "text", "text": message["content"]}, reminder]

    def take_a_reminder_back(self) -> None:
        """Leave out a reminder that was sent before."""
        reminded = [message for message in self._lists() if _is_reminder(message["content"][-1])]
        if reminded:
            del self.chance.choice(reminded)["content"][-1]

    def write_a_call_anew(self) -> None:
        """Change the arguments of an old call."""
        if calls := self._parts("tool_use"):
            self.chance.choice(calls)["input"] = {"file_path": f"pier{self.requests}.txt"}

    def move_the_marks(self) -> None:
        """Mark another block for the provider's cache."""
        for message in self._lists():
            for part in message["content"]:
                part.pop("cache_control", None)
        if lists := self._lists():
            self.chance.choice(lists)["content"][-1]["cache_control"] = MARK

    def give_results_in_another_order(self) -> None:
        """Shuffle the results of parallel calls."""
        for message in self._lists():
            if all(part["type"] == "tool_result" for part in message["content"]):
                self.chance.shuffle(message["content"])

    def go_back(self) -> None:
        """Leave out everything from an old question on."""
        turns = self._turns()
        if len(turns) >= SHORTEST_TO_SPLIT:
            del self.messages[self.chance.choice(turns[1:]) :]

    def drop_the_oldest(self) -> None:
        """Leave out the older half of the questions and what belongs to them."""
        turns = self._turns()
        if len(turns) > SHORTEST_TO_SPLIT:
            del self.messages[: turns[len(turns) // 2]]

    def summarise(self) -> None:
        """Go on with nothing but a summary."""
        beginning = "This session is being continued from a previous conversation that ran out of context."
        summary = f"{beginning} Summary {self.requests}: all is well."
        self.messages[:] = [{"role": "user", "content": summary}]
        self._finish_turn()

    def _lists(self) -> list[Message]:
        return [message for message in self.messages if isinstance(message["content"], list)]

    def _parts(self, kind: str) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for message in self._lists():
            parts += (part for part in message["content"] if part["type"] == kind)
        return parts

    def _turns(self) -> list[int]:
        return [number for number, message in enumerate(self.messages) if _begins_turn(message)]


Rewriting = Callable[[RewritingProgram], None]
GIVES_UP: tuple[Rewriting, ...] = (
    RewritingProgram.go_back,
    RewritingProgram.drop_the_oldest,
    RewritingProgram.summarise,
)
"""What gives up a part of the conversation."""
SMALL: tuple[Rewriting, ...] = (
    RewritingProgram.clear_a_result,
    RewritingProgram.shorten_a_result,
    RewritingProgram.write_blocks_for_text,
    RewritingProgram.add_a_reminder,
    RewritingProgram.take_a_reminder_back,
    RewritingProgram.write_a_call_anew,
    RewritingProgram.move_the_marks,
    RewritingProgram.give_results_in_another_order,
)
"""What leaves the conversation as it is."""


def _offline(call: ClientCall, address: str) -> Client:
    return client_for(MODEL, None, OFFLINE_JOBS)


def _begins_turn(message: Message) -> bool:
    content = message["content"]
    if message["role"] != "user":
        return False
    return isinstance(content, str) or all(part["type"] == "text" for part in content)


def _is_reminder(part: Mapping[str, Any]) -> bool:
    return part["type"] == "text" and str(part["text"]).startswith("<system-reminder>")


def rewrite(program: RewritingProgram) -> None:
    """Rewrite the list, ask the next question, and check what was made of it; raises `Problem`."""
    gives_up = program.chance.random() < GIVING_UP_SHARE
    rewriting = program.chance.choice(GIVES_UP if gives_up else SMALL)
    before = program.decisions()
    length = len(program.messages)
    rewriting(program)
    is_shorter = len(program.messages) < length
    program.rewrites += 1
    program.say()
    after = program.decisions()
    if rewriting in SMALL and after.taken_back != before.taken_back:
        raise Problem(f"{rewriting.__name__} took something back")
    if rewriting in SMALL and after.programs_compactions != before.programs_compactions:
        raise Problem(f"{rewriting.__name__} counts as a compaction of the program's")
    if rewriting is RewritingProgram.go_back and is_shorter and after.taken_back == before.taken_back:
        raise Problem("going back is not on record")
    is_new_summary = after.programs_compactions > before.programs_compactions
    if rewriting is RewritingProgram.summarise and not is_new_summary:
        raise Problem("a summary of the program's is not on record")


def play(seed: int) -> Figures:
    """Talk and rewrite in turn in one session; it ends with its first problem."""
    program = RewritingProgram(seed)
    problems: dict[str, list[int]] = {}
    try:
        program.say()
        for _ in range(program.planned):
            while program.chance.random() < 0.5:
                program.say()
            rewrite(program)
        our_compactions = program.decisions().our_compactions
    except Problem as problem:
        problems[str(problem)] = [seed]
        our_compactions = 0
    except Exception as error:  # noqa: BLE001 - whatever it is, the search goes on with the next session
        where = traceback.extract_tb(error.__traceback__)[-1]
        problems[f"{type(error).__name__} in {where.name}: {error}"] = [seed]
        our_compactions = 0
    finally:
        program.close()
    return Figures(1, program.rewrites, program.requests, program.changed, our_compactions, problems)


def search(count: int, seed: int, jobs: int = 1) -> Iterator[Figures]:
    """Make at least so many rewrites in sessions from ``seed`` on; gives the figures so far after each session."""
    figures = Figures()
    with ProcessPoolExecutor(jobs) as pool:
        while figures.rewrites < count:
            first = seed + figures.sessions
            for played in pool.map(play, range(first, first + TOGETHER * jobs)):
                figures = figures.after(played)
                yield figures


def searched(count: int, seed: int, jobs: int = 1) -> Figures:
    """The figures after so many rewrites."""
    *_, figures = search(count, seed, jobs)
    return figures


def main(arguments: Sequence[str]) -> int:
    """Search and print; return exit status 0 if nothing went wrong, 1 if something did."""
    parser = argparse.ArgumentParser(description="Random rewrites of a program's list of messages.")
    parser.add_argument("--count", type=int, default=COUNT, help="rewrites, default 20000")
    parser.add_argument("--seed", type=int, help="of the first session; by default a random one")
    parser.add_argument("--jobs", type=int, default=1, help="processes, default 1")
    options = parser.parse_args(arguments)
    seed = random.randrange(10**9) if options.seed is None else options.seed
    started = perf_counter()
    shown = 0
    figures = Figures()
    for figures in search(options.count, seed, options.jobs):
        if figures.rewrites >= shown + PROGRESS_EVERY:
            shown = figures.rewrites
            print(f"{figures}, after {perf_counter() - started:.0f} s", flush=True)
    print(f"from seed {seed}: {figures}, in {perf_counter() - started:.0f} s")
    for problem, seeds in figures.problems.items():
        print(f"  {problem}: seed {', '.join(map(str, seeds[:MOST_SHOWN]))} ({len(seeds)} in all)")
    return 1 if figures.problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
