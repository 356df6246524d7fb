"""The demonstration itself: a simulated provider, an agent in a process of its own, and the user's words.

Here is the user and here is the provider; the agent is the engine as it comes, with its standard tools, asking over
HTTP through the official SDK. Once, while it waits for an answer, its process is killed and started again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from sevenfold.errors import UserError
from sevenfold.lab.demo.assistant import MAIN, Assistant
from sevenfold.lab.demo.bill import Meter, Naive
from sevenfold.lab.demo.figures import Death, Facts, Figures, Mark, Outcome
from sevenfold.lab.demo.process import AgentProcess
from sevenfold.lab.demo.project import project
from sevenfold.lab.demo.protocol import (
    Begin,
    Judge,
    Judged,
    Layer,
    Over,
    Ready,
    Say,
    Told,
    Turned,
    Used,
)
from sevenfold.lab.demo.scratch_folder import checked
from sevenfold.lab.demo.story import ANSWER, Task, story
from sevenfold.lab.simulator.brains import ModelPrompt
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.provider import RateLimits, Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.lab.simulator.tokens import Counter as TokenCounter
from sevenfold.profiles import find
from sevenfold.record.usage import Usage

MODEL = "claude-opus-4-6"
ANSWER_TOKENS = 8_000
"""What an answer may have: the naive way must leave room for it."""
TURN_SECONDS = 8.0
UNLIMITED = RateLimits(input_tokens=10**12, requests=10**9)
LAYERS = ("offload", "clear", "notes", "compact")


class Scale(Struct, frozen=True):
    """How large a demonstration is."""

    parts: int
    """Of the scratch project."""
    broken: int
    window: int
    """Tokens the model is treated as having room for."""
    killed: int
    """The turn in which the agent is killed."""


FULL = Scale(24, 12, 60_000, 190)
FAST = Scale(4, 2, 32_000, 40)

Watch = Callable[[Told], None]


class Stage:
    """The provider, the agent and the books of one demonstration."""

    def __init__(self, scale: Scale, folder: Path, watch: Watch) -> None:
        self.scale = scale
        self._content = project(scale.parts, scale.broken)
        self.tasks = story(self._content)
        self.project, self.home = folder / "project", folder / "home"
        self._watch = watch
        self._clock = VirtualClock()
        self._profile = find(MODEL)
        self._tokens = TokenCounter()
        self._assistant = Assistant((task.plan() for task in self.tasks), self._asked)
        setup = Setup(limits=UNLIMITED, chunk=400)
        self.simulator = Simulator(self._assistant, setup, clock=self._clock)
        self.meter = Meter(self._profile)
        self.naive = Naive(self._profile, scale.window - ANSWER_TOKENS)
        self._billed = 0
        self._lives = 0
        self._url = ""
        self._agent: AgentProcess | None = None
        self._spare: AgentProcess | None = None
        self._killed: bytes | None = None
        self._moves = 0
        self.death: Death | None = None
        self.sizes: list[int] = []
        self.marks: list[Mark] = []
        self.threshold = self.side_requests = 0

    # -- the agent ------------------------------------------------------------------------------

    def open(self, url: str) -> None:
        """Put the project there and start the agent."""
        self.home.mkdir()
        self._content.write(self.project)
        self._url = url
        self._start()

    def work(self, task: Task) -> str:
        """Let the user say something, and the agent do it; gives its last words."""
        self._clock.advance(task.after)
        self.naive.said(self._weight(task.says))
        words = task.says
        while True:
            over = self._told(Say(words, self._clock.now()))
            if isinstance(over, Over):
                if over.end != "done":
                    raise UserError(f"the agent stopped in the middle: {over.end}")
                return over.text
            self._start()
            words = ""

    def judge(self, facts: Sequence[str]) -> Judged:
        """What became of everything."""
        judged = self._told(Judge(tuple(facts)))
        assert isinstance(judged, Judged)
        return judged

    def close(self) -> None:
        """Let the agent end by itself."""
        if self._agent is not None:
            self._agent.leave()
        self.kill()

    def kill(self) -> None:
        """End all processes, in the middle of whatever they do."""
        for process in (self._agent, self._spare):
            if process is not None:
                process.close()

    def _start(self) -> None:
        """Begin a life of the agent, in the process that waits for that if there is one."""
        settings: dict[str, int | bool] = {"context_window": self.scale.window}
        if self._agent is not None:
            self._agent.close()
        self._agent, self._spare = self._spare or AgentProcess(self.project, self.home), None
        if not self._lives:
            self._spare = AgentProcess(self.project, self.home)
        self._agent.tell(Begin(self._url, str(self.project), MODEL, settings, self._lives))
        self._lives += 1

    def _told(self, command: Say | Judge) -> Told | None:
        """Give a command and take in what is told; the last thing, or None if the agent died, as it is to, once."""
        assert self._agent is not None
        last: Told | None = None
        self._agent.tell(command)
        for told in self._agent.hear():
            self._take(told)
            self._watch(told)
            last = told
        if isinstance(last, Over | Judged):
            return last
        if self._killed is None or self.death is not None:
            self._agent.close()
            self._agent.must_live()
        return None

    # -- the books ------------------------------------------------------------------------------

    def _take(self, told: Told) -> None:
        match told:
            case Ready(threshold=threshold):
                self.threshold = threshold
            case Turned(prompt=prompt, output=output):
                self._bill()
                self.naive.begin(prompt)
                self.naive.ask(output)
                self.sizes.append(prompt)
            case Used(tokens=tokens):
                self.naive.used(tokens)
            case Layer(name=name):
                self.marks.append(Mark(len(self.sizes), name))
            case _:
                pass

    def _bill(self) -> None:
        """Take in the requests that were answered since."""
        answered = self.simulator.requests.answered()
        for received in answered[self._billed :]:
            self.meter.add(received.raw, Usage.of(received.usage or {}))
        self._billed = len(answered)

    def _weight(self, words: str) -> int:
        return self._tokens.text(words, self._profile.tokenizer) + self._tokens.per_message

    # -- the provider ---------------------------------------------------------------------------

    def _asked(self, kind: str, prompt: ModelPrompt) -> None:
        """A request came in, on the server's thread; the agent waits for its answer."""
        if kind != MAIN:
            self.side_requests += 1
            return
        raw = self.simulator.requests[-1].raw
        if self._killed is not None and self.death is None:
            self.death = Death(self._moves, same_request=raw == self._killed)
        if self._assistant.moves == self._moves:
            return
        self._moves = self._assistant.moves
        self._clock.advance(TURN_SECONDS)
        if self._killed is None and self._moves == self.scale.killed and self._agent is not None:
            self._killed = raw
            self._agent.kill()


def run(scale: Scale, folder: Path, watch: Watch) -> Outcome:
    """Hold a demonstration in a folder; ``watch`` is told of everything as it happens."""
    stage = Stage(scale, folder, watch)
    tasks = stage.tasks
    with _uncomplaining(), serve(stage.simulator) as url:
        try:
            stage.open(url)
            answer = ""
            for task in tasks:
                answer = stage.work(task)
            judged = stage.judge([fact for task in tasks for fact in task.facts])
            stage.close()
        except BaseException:
            stage.kill()
            raise
    return _outcome(stage, answer, judged)


@contextmanager
def _uncomplaining() -> Iterator[None]:
    """The server's side complains when a client is killed, which here is a part of the show."""
    log = logging.getLogger("asyncio")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _outcome(stage: Stage, answer: str, judged: Judged) -> Outcome:
    bill, fired = stage.meter.bill, Counter(mark.layer for mark in stage.marks)
    sound, tests = checked(stage.project)
    assert stage.death is not None
    figures = Figures(
        turns=len(stage.sizes),
        peak_context_tokens=max(stage.sizes),
        threshold_tokens=stage.threshold,
        cost_usd=round(bill.paid, 6),
        naive_cost_usd=round(stage.naive.usd, 6),
        ideal_cost_usd=round(bill.ideal, 6),
        cache_read_share=round(bill.read_share, 6),
        layers={layer: fired[layer] for layer in LAYERS},
        facts=Facts(judged.in_context, judged.reachable, len(judged.lost)),
    )
    return Outcome(
        figures,
        MODEL,
        tuple(stage.sizes),
        tuple(stage.marks),
        needed_tokens=stage.naive.needed,
        largest_turn=max((later - size for size, later in pairwise(stage.sizes)), default=0),
        side_requests=stage.side_requests,
        death=stage.death,
        answer=answer,
        answered=all(fact in answer for fact in ANSWER),
        tests=tests,
        sound=sound,
        lost=judged.lost,
    )
