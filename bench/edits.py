"""Fuzz sessions with random edits, undos, redos and reopens, and check every request that follows.

    python bench/edits.py [--count 300] [--seed N] [--steps] [--cuts]

Each session draws a model, settings and some dozens of steps: user messages, answers with tool calls and thinking,
results that are partial, late or repeated, compactions of every kind, clearings, notes, snips, pins, undo, redo,
rewind, a change of model or system prompt, and closing and reopening at any point. At every step:

- the provider accepts every request, including those for summaries and notes; only a summary request may be rejected
  as too long, when the conversation is as large as the window: it is then retried with less;
- every error is one of our own types, and a refused edit changes nothing in the view;
- a session whose log lost its end, as by a kill, shows the same whether the log is read from its end or from its start
  (where cache markers were, may then be lost as well);
- a reopened session shows the same messages; if its size is anchored to reported usage, it also sends the same bytes
  and has the same size, within the sum of both bands' widths;
- undoing a decision at once restores the earlier bytes; undo then redo restores its result; cache markers may differ;
- when a request does not fit or an edit is refused, the remedy that the error names is possible and works.

The provider is simulated in this process. The same seed repeats a session, and `--steps` prints what happens in it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

import sevenfold
from sevenfold.clock import CountedIds
from sevenfold.conversation.intake import must_have_news
from sevenfold.conversation.resume import fold, resume
from sevenfold.errors import ContextFull, InputError, ModelError, PromptTooLong, Refused
from sevenfold.events import Acted, EpochOpened, Event
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.messages import answer
from sevenfold.lab.simulator.parameters import ApiFeatures
from sevenfold.lab.simulator.preparation import prepare
from sevenfold.lab.simulator.provider import UNLIMITED, Setup, Simulator
from sevenfold.lab.simulator.schema import check_shape
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.providers.anthropic import MESSAGES
from sevenfold.providers.failures import Endpoint, explain
from sevenfold.record.entries import Boundary, Clearing
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.session.replies import reply_of
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.memory import MemoryStore
from sevenfold.wire.error_report import report_of

Json = dict[str, Any]
MODELS = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-opus-4-6", "claude-haiku-4-5", "claude-sonnet-5")
WITHOUT_THINKING = ("claude-haiku-4-5",)
SYSTEMS = ("Be careful. " * 300, "Be quick. " * 300)
TOOLS = [
    sevenfold.tool({"name": "Read", "input_schema": {"type": "object"}}, kind="read"),
    sevenfold.tool({"name": "Ask", "input_schema": {"type": "object"}}),
]
SETTINGS: dict[str, object] = {
    **dict.fromkeys(("model_listing", "recall_ahead"), False),
    **dict.fromkeys(("size_keep", "gap_keep"), 1),
    "size_trigger_tokens": 4_000,
    "size_target_tokens": 2_000,
    "size_least_tokens": 500,
}
VERSION = "2026-10-21"
LINE = "a line of output\n"
NEWLINE = ord("\n")
MOST_LINES_LOST = 12
MOST_WAYS = 8
"""How many remedies are tried in a row before a session counts as stuck."""


class Found(Struct):
    """The totals of a run of sessions."""

    sessions: int = 0
    steps: int = 0
    requests: int = 0
    declined: int = 0
    """Steps that ended in one of our own errors."""
    problems: dict[str, list[int]] = {}
    """The seeds of the sessions with a problem, by its description."""

    def __str__(self) -> str:
        """Return a one-line summary."""
        number = sum(map(len, self.problems.values()))
        done = f"{self.steps:,} steps and {self.requests:,} requests"
        return f"{number} problems in {self.sessions:,} sessions with {done}"


class Wrong(Exception):
    """A violated invariant."""


class FickleBrain:
    """A model that thinks, talks, calls tools with ids of either kind, and summarises when asked to."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Return a random answer, or a summary or notes if the prompt asks for them."""
        dice, asked = self.dice, prompt.last_text
        if "<summary>" in asked and "<analysis>" in asked:
            return ModelReply([{"type": "text", "text": summarise({"messages": prompt.messages})}])
        if "session notes" in asked.lower() and "<section" in asked:
            return ModelReply([{"type": "text", "text": take_notes({"messages": prompt.messages})}])
        said: list[Json] = []
        if "thinking" in prompt.body:
            said += [{"type": "thinking", "thinking": "step by step"}] * dice.choice((0, 1, 1))
        if dice.random() < 0.8:
            said.append({"type": "text", "text": dice.choice(("Part.", "Looking.", "x" * 300))})
        counted = dice.random() < 0.15
        for each in range(dice.choice((0, 0, 1, 1, 2, 3))):
            name = {"id": f"call_{each}"} if counted else {}
            said.append({"type": "tool_use", "name": "Read", "input": {"path": f"{each}.py"}, **name})
        return ModelReply(said or [{"type": "text", "text": "Yes."}])


class InProcess:
    """A client that calls the simulator in this process; a refused request counts as a problem."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator, self.requests, self.refused = simulator, 0, ""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Answer a request from the engine."""
        return reply_of(self.answered(call.body, call.betas, call.source), request_body=call.body)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def answered(self, body: bytes, betas: tuple[str, ...], source: str = "main") -> Json:
        """Return the provider's answer; raise one of our own errors if it refuses."""
        self.requests += 1
        sim, asked = self.simulator, json.loads(body)
        features = ApiFeatures(VERSION, frozenset(betas))
        try:
            check_shape(asked, features)
            profile = sim.messages_profile(asked["model"])
            assert profile is not None
            message, plans = answer(sim, prepare(sim, asked, profile, features))
        except ApiError as error:
            meant = explain(
                report_of(error.messages_body("req"), error.status), Endpoint(MESSAGES.vendor, "simulator")
            )
            if source != "compact" or not isinstance(meant, PromptTooLong):
                self.refused = self.refused or f"the provider refused a request: {error}"
            raise meant from None
        for plan in plans:
            sim.cache.commit(plan)
        return message


class RandomSession:
    """One session and the random steps applied to it."""

    def __init__(
        self, seed: int, found: Found, folder: Path, *, tells: bool = False, cuts: bool = False
    ) -> None:
        self.seed, self.found, self.tells = seed, found, tells
        self.cuts = cuts
        dice = self.dice = random.Random(seed)
        self.clock, self.ids = VirtualClock(), CountedIds()
        simulator = Simulator(FickleBrain(dice), Setup(limits=UNLIMITED), clock=self.clock)
        self.client = InProcess(simulator)
        self.model, self.system = dice.choice(MODELS), SYSTEMS[0]
        self.thinks = dice.random() < 0.8
        switches = ("notes", "background_compaction", "size_clearing", "offload", "collapse")
        self.settings = {
            **SETTINGS,
            **{name: dice.random() < 0.5 for name in switches[:-1]},
            "collapse": dice.random() < 0.15,
            "context_window": dice.choice((30_000, 60_000, 60_000, 200_000)),
        }
        self.place: Json = {"store": MemoryStore()}
        if dice.random() < 0.3 or cuts:
            self.place = {"file": folder / f"{seed}.jsonl"}
        self.folder = folder
        self.records: list[str] = []
        """Ids of the records that have been in view at any time."""
        self.acted = 0
        """How often a layer acted by itself, or a new epoch changed what precedes the messages."""
        self.session = self.opened()

    def hear(self, event: Event) -> None:
        """Count events that change the next request."""
        self.acted += isinstance(event, Acted | EpochOpened)

    def opened(self) -> sevenfold.Session:
        """Open the stored session with the current model, system prompt and settings."""
        options: Json = {}
        if self.thinks and self.model not in WITHOUT_THINKING:
            options["thinking"] = {"type": "adaptive"}
        return sevenfold.Session.open(
            "s",
            model=self.model,
            system=self.system,
            tools=TOOLS,
            max_tokens=2_000,
            client=self.client,
            clock=self.clock,
            ids=self.ids,
            listen=[self.hear],
            settings=self.settings,
            folder=self.folder,
            **self.place,
            **options,
        )

    def run(self) -> None:
        """Take random steps, then make a last request."""
        steps: list[Callable[[], None]] = [
            *[self.work] * 8,
            *[self.ask, self.speak, self.give_results] * 2,
            *[self.compact, self.snip, self.undo, self.redo, self.rewind, self.pin, self.wait] * 2,
            *[self.reopen, self.take_back, self.make_again] * 2,
            *[self.change, self.fork],
            *[self.cut] * (4 if self.cuts else 0),
        ]
        try:
            for _ in range(self.dice.randint(8, 50)):
                self.attempt(self.dice.choice(steps))
            self.attempt(self.finish)
        finally:
            self.found.requests += self.client.requests
            self.session.close()
        self.found.sessions += 1

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step; one of our own errors is acceptable if the view is unchanged and its remedy works."""
        self.found.steps += 1
        edits = step.__name__ in ("snip", "undo", "redo", "rewind", "pin")
        before = self.view.encoded() if edits else []
        self.tell(step.__name__)
        try:
            step()
        except ContextFull as error:
            self.tell(f"  {error}")
            self.go_on(str(error))
        except (Refused, InputError) as error:
            self.tell(f"  {error}")
            self.found.declined += 1
            if edits and self.view.encoded() != before:
                raise Wrong(f"{step.__name__} was refused and changed what is in view") from None
            self.heed(str(error))
        except ModelError:
            if not self.client.refused:
                raise
        if self.client.refused:
            raise Wrong(self.client.refused)
        self.session.settle()
        if self.client.refused:
            raise Wrong(f"in the background: {self.client.refused}")
        new = {item.record.uuid for item in self.view.items}.difference(self.records)
        self.records += sorted(new)
        self.tell(f"  {len(self.view)} records, {self.session.conversation.size().tokens:,} tokens")

    def tell(self, words: str) -> None:
        """Print what happens, if `--steps` is given."""
        if self.tells:
            print(words)

    # Messages

    def speak(self) -> None:
        """Add a user message, sometimes a long one."""
        self.session.user(self.dice.choice(("go on", "x" * 500, "why? ", LINE * 2_000)))

    def ask(self) -> None:
        """Make one request, by the engine or by the caller's own loop, where edits may happen before the answer."""
        if not self.may_ask():
            self.session.user("and now?")
        if self.dice.random() < 0.6:
            self.session.complete()
            return
        request = self.session.prepare()
        came = self.client.answered(request.body, _betas(request.headers))
        if self.dice.random() < 0.2:
            self.dice.choice((self.speak, self.snip, self.undo, self.redo))()
        if self.dice.random() < 0.1:
            cut = {**came, "stop_reason": None, "content": came["content"][: self.dice.randint(1, 2)]}
            self.session.observe(cut, partial=True)
        else:
            self.session.observe(came)

    def give_results(self) -> None:
        """Give results for some or all pending calls, sometimes also for a call that already has one."""
        waiting = list(self.session.conversation.waiting)
        self.dice.shuffle(waiting)
        if self.dice.random() < 0.3:
            waiting = waiting[:1]
        known = [call for item in self.view.items for call in item.record.answers]
        if known and self.dice.random() < 0.2:
            waiting.append(self.dice.choice(known))
        size = self.dice.choice((1, 20, 400, 400, 3_000))
        self.session.tool_results({call: f"of {call}\n" + LINE * size for call in waiting})

    def work(self) -> None:
        """Run one to four rounds of an agent."""
        for _ in range(self.dice.randint(1, 4)):
            if self.session.conversation.waiting:
                self.give_results()
            self.ask()

    def fork(self) -> None:
        """Ask a question in a fork."""
        fork = self.session.fork()
        fork.user("in short?")
        call = fork.prepare().call
        self.client.answered(call.body, call.betas)

    def wait(self) -> None:
        """Let time pass: the cache expires, and old results may be cleared."""
        self.clock.advance(self.dice.choice((10, 400, 4_000)))

    # Decisions

    def compact(self) -> None:
        """Compact with a random engine, the whole conversation or a part of it."""
        engine: Any = self.dice.choice(("notes", "provider", "fork", "plain", "extractive", None))
        names, wish = self.rounds(), Json()
        span = self.dice.choice(("whole", "from", "up_to", "range"))
        if len(names) > 3 and span != "whole":
            place = self.dice.randrange(1, len(names) - 1)
            wish = {"span": span, "record": names[place]}
            if span == "range":
                wish["until"] = self.before(names[self.dice.randrange(place + 1, len(names))])
        self.tell(f"  {engine} {wish}")
        self.session.compact(engine=engine, **wish)

    def snip(self) -> None:
        """Snip one or two rounds."""
        names = self.rounds()
        if len(names) > 1:
            place = self.dice.randrange(len(names) - 1)
            until = self.dice.randrange(place + 1, min(len(names), place + 3))
            self.session.snip(names[place], self.before(names[until]))

    def pin(self) -> None:
        """Pin or unpin a record."""
        pinned = sorted(self.session.conversation.transcript.pinned())
        if pinned and self.dice.random() < 0.4:
            self.session.unpin(self.dice.choice(pinned))
        elif self.view.items:
            self.session.pin(self.dice.choice(self.view.items).record.uuid)

    def undo(self) -> None:
        """Undo the newest decision, or sometimes another one."""
        names = [made.uuid if isinstance(made, Clearing) else made.id for made in self.view.decisions()]
        self.session.undo(self.dice.choice(names) if names and self.dice.random() < 0.2 else "")

    def redo(self) -> None:
        """Redo the newest undone decision, or sometimes another one."""
        names = sorted(self.view.undone)
        self.session.redo(self.dice.choice(names) if names and self.dice.random() < 0.3 else "")

    def rewind(self) -> None:
        """Rewind to a record that is or was in view, or to the start."""
        known = self.records if self.dice.random() < 0.3 else [item.record.uuid for item in self.view.items]
        if self.dice.random() < 0.05 or not known:
            self.session.rewind(None)
        else:
            self.session.rewind(self.dice.choice(known[-12:]))

    # Invariants

    def reopen(self) -> None:
        """Close and reopen the session, and check that it is the same."""
        body = self.body() if self.dice.random() < 0.7 else None
        shown, size = self.view.encoded(), self.session.conversation.size()
        self.session.close()
        self.session = self.opened()
        now = self.session.conversation.size()
        if self.view.encoded() != shown:
            raise Wrong("opened again, other messages are in view")
        # Either estimate may miss its band sometimes; the reopened session has to learn its rates from scratch.
        reach = now.high - now.low + size.high - size.low
        if now.anchored and abs(now.tokens - size.tokens) > reach:
            raise Wrong(f"opened again, it has {now.tokens} tokens and not {size.tokens}")
        # Without reported usage the size is only a guess, and the reopened session has less to base it on.
        if body is not None and now.anchored:
            self.expect(body, "opened again, it", marked=not self.cuts)

    def cut(self) -> None:
        """Lose the end of a log in a file, as by a kill, at the end of a line or within one, and go on from there."""
        file: Path = self.place["file"]
        self.session.close()
        log = file.read_bytes()
        line_ends = [end for end, byte in enumerate(log, start=1) if byte == NEWLINE]
        kept = self.dice.choice(line_ends[-MOST_LINES_LOST:])
        if self.dice.random() < 0.2:
            kept -= self.dice.randrange(1, 200)
        file.write_bytes(log[:kept])
        written = JsonlLog(file)
        from_end, from_start = resume(written), fold(written)
        for view in (from_end, from_start):
            self.tell(f"  {len(view)} records, tip {view.tip}, boundary {view.boundary}")
        if _shown(from_end) != _shown(from_start):
            raise Wrong("read from its end, a log that lost its last lines shows something else")
        self.session = self.opened()

    def change(self) -> None:
        """Reopen the session with another model or another system prompt."""
        self.session.close()
        if self.dice.random() < 0.6:
            self.model = self.dice.choice(MODELS)
        else:
            self.system = SYSTEMS[1 - SYSTEMS.index(self.system)]
        self.tell(f"  {self.model}")
        self.session = self.opened()

    def take_back(self) -> None:
        """Check that undoing a decision at once restores the bytes from before it."""
        body, boundary, decided = self.body(), self.view.boundary, len(self.view.decisions())
        shown = self.view.encoded()
        self.dice.choice((self.snip, self.compact))()
        if self.view.boundary == boundary and len(self.view.decisions()) == decided:
            return
        try:
            self.session.undo()
        except Refused as error:
            if body is None:
                raise
            raise Wrong(f"what was there directly before cannot be had again: {error}") from None
        if self.view.encoded() != shown:
            raise Wrong("undone directly, a decision leaves other messages than it found")
        self.expect(body, "after a decision that was undone directly it")

    def make_again(self) -> None:
        """Check that undoing a decision and redoing it at once restores the bytes from after it."""
        body, shown = self.body(), self.view.encoded()
        name = self.session.undo()
        if (again := self.session.redo()) != name:
            raise Wrong(f"undone was {name}, redone {again}")
        if self.view.encoded() != shown:
            raise Wrong("undone and redone, a decision leaves other messages than it had made")
        self.expect(body, "after a decision that was undone and redone it")

    def expect(self, body: bytes | None, when: str, *, marked: bool = False) -> None:
        """Check that the next body is the same as before, unless a layer acted and reported it."""
        acted, now = self.acted, self.body() if body else None
        same = now == body if marked else _unmarked(now) == _unmarked(body)
        if not same and self.acted == acted:
            raise Wrong(f"{when} sends {'another body' if now else 'nothing'}")

    def finish(self) -> None:
        """Check that after any history, with all results and a user message added, the next request is answered."""
        self.session.tool_results(dict.fromkeys(self.session.conversation.waiting, "done"))
        self.session.user("and now?")
        self.session.complete()

    def go_on(self, error: str) -> None:
        """Apply the remedies that the errors name until a request is answered."""
        for _ in range(MOST_WAYS):
            try:
                if "size_clearing" in error:
                    self.session.close()
                    self.settings["size_clearing"] = True
                    self.session = self.opened()
                elif "alone does not fit" in error or "rewind to before the newest round" in error:
                    self.forget_newest()
                elif "unpin" in error:
                    for pinned in self.session.conversation.transcript.pinned():
                        self.session.unpin(pinned)
                elif "compact()" in error and self.compacted():
                    pass
                elif "(snip)" in error:
                    # A compaction that would hardly make the conversation smaller is not made, and says so.
                    names = self.rounds(hidden=False)
                    self.session.snip(names[0], self.before(names[1]))
                else:
                    raise Wrong(f"stuck: {error}")
                if not self.may_ask():
                    self.session.user("and now?")
                self.session.complete()
                return
            except ContextFull as another:
                self.tell(f"  {another}")
                error = str(another)
            except (Refused, IndexError) as another:
                raise Wrong(f"what the error named was refused: {another}; {error}") from another
        if self.session.conversation.size().anchored:
            raise Wrong(f"stuck after {MOST_WAYS} ways on: {error}")
        # Without reported usage the size is a guess, which may be far too high after a compaction and a restart.

    def heed(self, error: str) -> None:
        """Apply the remedy that a refusal names, if any."""
        if "unpin it first" in error:
            self.session.unpin(error.split()[0])
        elif "rewind to before the compaction" in error:
            entry = self.view.entry(self.view.boundary or "")
            assert isinstance(entry, Boundary)
            self.session.rewind(self.said_at(entry.logical_parent))
        elif "undo the newer compaction first" in error:
            try:
                self.session.undo(self.view.boundary or "")
            except Refused as another:
                self.heed(str(another))

    def compacted(self) -> bool:
        """Compact the conversation; False if that was not done, because it would hardly have made it smaller."""
        compacted = self.session.compact()
        return compacted is not None and compacted.made

    # Queries

    @property
    def view(self) -> View:
        """What the model would see now."""
        return self.session.conversation.transcript.view

    def may_ask(self) -> bool:
        """Whether there is something new to send."""
        try:
            must_have_news(self.view)
        except InputError:
            return False
        return True

    def body(self) -> bytes | None:
        """Return the body that would be sent now, or None if nothing can be sent."""
        try:
            return self.session.prepare().body if self.may_ask() else None
        except ContextFull:
            return None

    def rounds(self, *, hidden: bool = True) -> list[str]:
        """Return the first record of each round, by default including rounds that are hidden."""
        items: list[Item] = self.view.items
        return [
            item.record.uuid
            for item in items
            if item.record.role == "assistant"
            and (hidden or not item.hidden_by)
            and self.view.begins_round(item.record.uuid)
        ]

    def before(self, record: str) -> str:
        """Return the record that precedes another one."""
        items = [item.record.uuid for item in self.view.items]
        return items[items.index(record) - 1]

    def forget_newest(self) -> None:
        """Rewind past the messages not yet answered; the answer goes too if it made tool calls."""
        answers = [item for item in self.view.items if item.record.role == "assistant"]
        if not answers:
            self.session.rewind(None)
        else:
            newest = answers[-1].record
            self.session.rewind(self.said_at(newest.parent) if newest.calls else newest.uuid)

    def said_at(self, record: str | None) -> str | None:
        """Return the record, or its nearest ancestor that is not a clearing: clearings are links in the chain too."""
        _, entry = self.session.conversation.transcript.log.record(record or "") or (0, None)
        return self.said_at(entry.parent) if isinstance(entry, Clearing) else record


def _shown(view: View) -> tuple[Any, ...]:
    return view.encoded(), view.tip, view.boundary, view.epoch


def _betas(headers: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, headers.get("anthropic-beta", "").split(",")))


def _unmarked(body: bytes | None) -> bytes | None:
    """Return a body without its cache markers."""
    return re.sub(rb',"cache_control":\{[^}]*\}', b"", body) if body else None


def search(count: int, seed: int, *, tells: bool = False, cuts: bool = False) -> Found:
    """Run a session for each seed and collect the problems; with ``cuts``, logs lose their ends on the way."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        for each in range(seed, seed + count):
            try:
                RandomSession(each, found, Path(folder), tells=tells, cuts=cuts).run()
            except Exception as error:  # noqa: BLE001 (what is looked for)
                if tells:
                    traceback.print_exc()
                found.problems.setdefault(_plain(error), []).append(each)
    return found


def _plain(error: Exception) -> str:
    """Return an error's message without the parts that vary between sessions, so that equal errors group."""
    words = str(error)
    if not isinstance(error, Wrong):
        where = traceback.extract_tb(error.__traceback__)[-1]
        words = f"{type(error).__name__} in {Path(where.filename).name}:{where.name}: {error}"
    return " ".join("#" if any(c.isdigit() for c in word) else word for word in words.split())[:300]


def main() -> int:
    """Search for problems and print them; return 1 if there are any, else 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--steps", action="store_true", help="print what happens")
    parser.add_argument("--cuts", action="store_true", help="logs lose their ends on the way, as by a kill")
    given = parser.parse_args()
    found = search(given.count, given.seed, tells=given.steps, cuts=given.cuts)
    print(f"seed {given.seed}: {found}, {found.declined:,} steps declined with an error of ours")
    for words, number in Counter(
        {words: len(seeds) for words, seeds in found.problems.items()}
    ).most_common():
        print(f"  {number:>4,}  {words}  (seed {', '.join(map(str, found.problems[words][:3]))})")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
