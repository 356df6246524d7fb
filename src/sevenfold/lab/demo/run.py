"""The demo: the user, the simulated provider, and the agent in its own process.

The agent is `sevenfold.Agent` with its standard tools, sending requests over HTTP with the official SDK. Once, while it
waits for an answer, its process is killed, and another one resumes the session. At the end, an agent delegates work to
other agents and is killed while they are working.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import UserError
from sevenfold.events import Acted, Answered
from sevenfold.lab.demo import figures
from sevenfold.lab.demo.figures import AgentStarted, DemoOutcome, FactsJudged, Report, TaskEnded, UserSpoke
from sevenfold.lab.demo.handover import hand_over
from sevenfold.lab.demo.harbour import TEXTS, check, harbour, start, write
from sevenfold.lab.demo.script import TASKS, Assistant, UserTask, plan, recollect
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.provider import UNLIMITED, Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.record.usage import Usage

NAME = "sevenfold-demo"
"""The scratch folder; the same in every run if it is free, because paths are part of the requests."""
ANSWER_TOKENS = 8_000
"""The room for an answer in the naive calculation."""
DAY = 86_400.0
LAYERS = ("offload", "clear", "notes", "compact")
_read = msgspec.json.Decoder(Report).decode


class Scale(Struct, frozen=True):
    """How large a demo is."""

    parts: int
    broken: int
    """Parts with a fault."""
    window: int
    killed: int
    """The turn in which the agent is killed."""


FULL = Scale(24, 12, 60_000, 190)
FAST = Scale(4, 2, 32_000, 40)


class Stage:
    """The user, the provider and the agent of one demo; ``watch`` is called with every report."""

    def __init__(self, scale: Scale, folder: Path, watch: Callable[[Report], None]) -> None:
        self.scale = scale
        self._watch = watch
        self.project = folder / "project"
        self.home = folder / "home"
        parts = harbour(scale.parts, scale.broken)
        write(parts, self.project)
        self._clock = VirtualClock()
        plans = chain((plan(task, parts) for task in TASKS), [recollect(lambda: self._assistant.prompt)])
        self._assistant = Assistant(plans, self._asked)
        self._session = "demo"
        # A session that is kept has ids of its own: tools take two calls with the same id for copies of one.
        self.run = "" if folder.name == NAME else folder.name
        setup = Setup(limits=UNLIMITED, chunk=400, run=self.run)
        self.simulator = Simulator(self._assistant, setup, clock=self._clock)
        self.reports: list[Report] = []
        self.side_requests = self.last_request = self._moves = self._lives = 0
        self._killed_with = b""
        self.same_request: bool | None = None

    @contextmanager
    def agent(self, url: str) -> Iterator[None]:
        """Start the agent, and kill its process on exit."""
        self._url = url
        self._start()
        try:
            yield
        finally:
            self._end()

    def work(self, task: UserTask) -> str:
        """Send a task to the agent and wait until it is done, across a kill; returns its last words."""
        self._clock.advance(task.after)
        text = task.text
        while not isinstance(last := self._tell(text), TaskEnded):
            self._end()
            self._start()
            text = ""
        if last.end != "done":
            raise UserError(f"the agent stopped in the middle: {last.end}")
        return last.text

    def next_day(self) -> str:
        """Ask a question in a new session, one day later; returns the answer."""
        self._session = "next-day"
        self._end()
        self._start()
        return self.work(UserTask(TEXTS["next_day"]["says"], "", after=DAY))

    def judge(self) -> FactsJudged:
        """Let the agent's process finish; returns its last report, on where the facts are."""
        self._commands.close()
        judged = self._hear()
        assert isinstance(judged, FactsJudged)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        return judged

    def _start(self) -> None:
        facts = chain.from_iterable(task.facts for task in TASKS)
        arguments = [
            self._url,
            str(self.project),
            self._session,
            str(self.scale.window),
            str(self._lives),
            *facts,
        ]
        self._process = start("worker", arguments, self.project, self.home)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands = self._process.stdin
        self._answers = self._process.stdout
        self._lives += 1

    def _end(self) -> None:
        with suppress(BrokenPipeError), self._process:  # The context manager closes its pipes.
            self._process.kill()

    def _tell(self, text: str) -> Report | None:
        self.reports.append(UserSpoke(text, self._clock.now()))
        with suppress(BrokenPipeError):  # The process is dead, which `_hear` will notice.
            self._commands.write(msgspec.json.encode(self.reports[-1]) + b"\n")
            self._commands.flush()
        return self._hear()

    def _hear(self) -> Report | None:
        """Read reports up to the end of the task and return the last; None if the process was killed on purpose."""
        for line in self._answers:
            self.reports.append(_read(line))
            self._watch(self.reports[-1])
            if isinstance(self.reports[-1], TaskEnded | FactsJudged):
                return self.reports[-1]
        if not self._killed_with or self.same_request is not None:
            raise UserError(f"the agent's process ended with code {self._process.wait()}")
        return None

    def _asked(self, kind: str) -> None:
        """Handle a new request, on the server's thread, while the agent waits; kills the agent in the chosen turn."""
        if kind != "main":
            self.side_requests += 1
            return
        raw = self.simulator.requests[-1].raw
        self.last_request = self.simulator.requests[-1].number
        if self._killed_with and self.same_request is None:
            self.same_request = raw == self._killed_with
        if self._assistant.moves > self._moves:
            self._moves = self._assistant.moves
            self._clock.advance(figures.TURN_SECONDS)
            if self._moves == self.scale.killed:
                self._killed_with = raw
                # A local reference: the other thread starts the next process as soon as this one is gone.
                agent = self._process
                agent.kill()
                agent.wait()


@contextmanager
def scratch_folder(*, keep: bool) -> Iterator[Path]:
    """Create a new folder, and remove it on exit unless ``keep`` is set; one that is kept has a name of its own."""
    parent = Path(tempfile.gettempdir()).resolve()
    folder = Path(tempfile.mkdtemp(prefix=f"{NAME}-", dir=parent)) if keep else _usual_folder(parent)
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _usual_folder(parent: Path) -> Path:
    """The folder of a run that is not kept: always the same, so that runs have the same paths, if it is free."""
    folder = parent / NAME
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        folder = Path(tempfile.mkdtemp(prefix=f"{NAME}-", dir=parent))
    return folder


def run(scale: Scale, folder: Path, watch: Callable[[Report], None]) -> DemoOutcome:
    """Run the demo in a folder; ``watch`` is called with every report as it arrives."""
    stage = Stage(scale, folder, watch)
    log = logging.getLogger("asyncio")
    level = log.level
    log.setLevel(logging.CRITICAL)  # The server complains when a client is killed.
    try:
        with serve(stage.simulator) as url, stage.agent(url):
            answers = [stage.work(task) for task in TASKS]
            outcome = _outcome(stage, answers[-1], stage.judge())
            outcome = replace(outcome, next_day=stage.next_day())
        handed = hand_over(stage.project, stage.home, stage.run)
        watch(handed)
        return replace(outcome, handed=handed)
    finally:
        log.setLevel(level)


def _outcome(stage: Stage, answer: str, judged: FactsJudged) -> DemoOutcome:
    # Requests after the last answer prepare turns that never come: they are not part of the cost.
    answered = stage.simulator.requests.answered()
    requests = [request for request in answered if request.number <= stage.last_request]
    billed = ((request.body, Usage.of(request.usage or {})) for request in requests)
    paid, ideal, share = figures.costs(billed)
    naive, needed = figures.naive(stage.reports, stage.scale.window - ANSWER_TOKENS)
    threshold = 0
    sizes = list[int]()
    acted = list[tuple[int, str]]()
    for report in stage.reports:
        match report:
            case AgentStarted():
                threshold = report.threshold
            case Answered():
                sizes.append(figures.prompt_tokens(report))
            case Acted(layer=layer):
                acted.append((len(sizes), layer))
            case _:
                pass
    fired = Counter(layer for _, layer in acted)
    layers = {layer: fired[layer] for layer in LAYERS}
    facts = {"in_context": judged.in_context, "reachable": judged.reachable, "lost": len(judged.lost)}
    usd = round(paid, 6), round(naive, 6), round(ideal, 6), round(share, 6)
    return DemoOutcome(
        figures.Figures(len(sizes), max(sizes), threshold, *usd, layers, facts),
        sizes,
        acted,
        needed_tokens=needed,
        side_requests=stage.side_requests,
        killed=stage.scale.killed,
        same_request=bool(stage.same_request),
        answer=answer,
        tests=check(stage.project),
        lost=judged.lost,
    )
