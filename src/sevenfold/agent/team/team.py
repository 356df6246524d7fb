"""The sub-agents of one agent: starts them, runs them, and delivers their results exactly once.

A sub-agent is an agent like any other: a conversation with its own log, window and account, with tools and a loop. Its
log is a branch of the session's log: an empty one or, for a fork, one with the whole conversation so far. It runs as a
flow: in the foreground, its parent's driver runs it as part of the tool call; in the background, the session's runner
does. Its starts and ends are recorded in its parent's log (see `roster`).

After a kill, unfinished work continues from the sub-agent's own log: if that contains the final answer, no further
request is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from sevenfold.agent.executor import CONCURRENT, result_block
from sevenfold.agent.interrupt import with_client
from sevenfold.agent.slots import State
from sevenfold.agent.team.descent import Descent
from sevenfold.agent.team.handover import end_of_work, last_words, task_of
from sevenfold.agent.team.messages import Post
from sevenfold.agent.team.presence import TeamMail
from sevenfold.agent.team.price import ForkPrices
from sevenfold.agent.team.roster import AgentEntry, AgentStatus, Roster, agent_id
from sevenfold.agent.team.starting import Starting
from sevenfold.agent.team.summary import ProgressLine
from sevenfold.agent.team.tools import AgentInput, ProgressSink
from sevenfold.agent.texts import AgentReport
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.conversation.flow import Flow, Gather, Signal, Wait, in_thread, unguarded
from sevenfold.conversation.request import ToolCall
from sevenfold.errors import Refused, SevenfoldError
from sevenfold.events import AgentChanged
from sevenfold.record.decisions import AgentEnd, AgentStart
from sevenfold.record.quoting import quoted_lines

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.agent.team.definitions import AgentDefinition
    from sevenfold.conversation.tasks import TaskRegistry

R = TypeVar("R")
MapProgress = Callable[[int, str], None]
"""Called with the index of a task and a line of text, for each tool call of its agent."""
CLOSING = 5.0
"""Seconds to wait for each agent to stop when the session is closed."""
LONGEST_WAIT = 3600.0
MAPPED = "map-"
"""The prefix of the call id of an agent that `Team.map` has started."""
WARMING = 60.0
"""Seconds that forks wait for the first of them to write their shared prefix to the cache."""
LONGEST_REPORT = 16_000
"""How many characters of a result go into a message; a longer one is stored, and the message says where."""


class _Worker(Struct):
    """A working agent."""

    line: ProgressLine
    over: Signal = field(default_factory=Signal)
    """Signals that its work has ended."""
    agent: Assembly | None = None
    """The agent; None until it is opened."""
    stopped: bool = False


class Team:
    """The agents that one agent has started. Thread-safe."""

    def __init__(self, parent: Assembly, definitions: Mapping[str, AgentDefinition]) -> None:
        self.definitions = definitions
        """The types of agents that can be started, by name."""
        self.parent_team: Team | None = parent.descent.parent.team if parent.descent else None
        """The team that the agent itself belongs to; None for the main agent."""
        self.owner = parent.descent.entry.id if parent.descent else ""
        self.roster = Roster(parent.conversation, self.owner)
        self.root: Team = self.parent_team.root if self.parent_team else self
        self._parent = parent
        self._starting = Starting(parent, definitions)
        self._workers: dict[str, _Worker] = {}
        """The working agents, by id."""
        self._warm: dict[str, Signal] = {}
        """For each record that forks start from: signals that the first fork's response has begun."""
        self._news = Signal()
        """Signals that an agent has ended or a message has come; replaced by a new one each time."""
        self._closing = False
        self._resumed = False
        """Whether the work that an earlier process left was continued."""
        self.prices = ForkPrices(parent)
        """Says what the forks of an answer cost, if the user is to be asked first."""
        self._lock = RLock()
        self.address = self.owner or f"session:{parent.store.name}"
        """The id under which the agent sends and receives messages."""
        mailbox = parent.store.mailbox
        self.mail = TeamMail(self, mailbox, parent.clock)
        self.post = Post(mailbox, self.address, self.mail, parent.conversation) if mailbox else None
        """Sends and receives its messages; None if the store has no mailbox."""

    # -- queries --------------------------------------------------------------------------------

    def status(self, entry: AgentEntry) -> AgentStatus:
        """Return the current state of an agent."""
        live = self._live(entry.id)
        return "input_required" if live is not None and live.state.grants.pending else entry.status

    def progress(self, entry: AgentEntry) -> str:
        """Return in a few words what an agent is doing, or how it ended."""
        if entry.ended is not None:
            return entry.ended.detail
        worker = self._workers.get(entry.id)
        live = worker and worker.agent
        return worker.line.line(live.conversation.transcript.view) if worker and live else ""

    def write_progress(self) -> None:
        """Let a model write progress lines about background agents, if that is switched on and within the budget."""
        conversation = self.root._parent.conversation
        if not conversation.settings.progress_lines or not conversation.may_spend():
            return
        for entry, live in self._at_work():
            if entry.started.background and (worker := self._workers.get(entry.id)):
                worker.line.request_if_due(live.conversation, conversation.run_background)
        for team in self.child_teams():
            team.write_progress()

    def usd(self, entry: AgentEntry) -> float | None:
        """Return the total cost of an agent so far, including its own agents; None if unknown."""
        agent = self._live(entry.id)
        current_work = self._cost(agent, entry) if agent is not None and entry.ended is None else 0.0
        return None if entry.usd is None or current_work is None else entry.usd + current_work

    def output(self, entry: AgentEntry) -> str:
        """Return the path of an agent's transcript; empty if there is no file."""
        return self._parent.store.branch_path(entry.id)

    def tasks_of(self, agent: str) -> TaskRegistry | None:
        """Return the background tasks of a working agent; None if it is not working."""
        live = self._live(agent)
        return live.conversation.tasks if live is not None else None

    def spent(self) -> float | None:
        """Return the cost of the agent and everything it has started, including unfinished work; None if unknown."""
        # No lock, or it could deadlock: the loop calls this under the conversation's, which `_ended` takes under ours.
        costs = [self._parent.conversation.account.usd]
        costs += [self._cost(live, entry) for entry, live in self._at_work() if entry.ended is None]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def working(self) -> int:
        """The number of working agents, including agents that they have started."""
        return len(self._workers) + sum(team.working for team in self.child_teams())

    def _live(self, agent: str) -> Assembly | None:
        """Return a working agent; None if it is not working or not opened yet."""
        worker = self._workers.get(agent)
        return worker.agent if worker is not None else None

    def _at_work(self) -> list[tuple[AgentEntry, Assembly]]:
        """Return the working agents that are open, with their entries."""
        running = ((self.roster.get(agent), self._live(agent)) for agent in tuple(self._workers))
        return [(entry, live) for entry, live in running if entry and live]

    def child_teams(self) -> list[Team]:
        """Return the teams of its working agents."""
        return [live.team for _, live in self._at_work() if live.team is not None]

    def states(self) -> Iterator[State]:
        """Yield a list of agents that are working or have a pending result, to restore after a compaction."""
        lines = [self._line(entry) for entry in self.roster if entry.ended is None or entry.pending]
        if lines:
            yield State(STILL_THERE, "\n".join(reversed(lines)))

    def listing(self) -> str:
        """Return a line for each agent."""
        return "\n".join(map(self._line, self.roster)) or "No agent was started."

    def _line(self, entry: AgentEntry) -> str:
        started = entry.started
        usd = self.usd(entry)
        cost = "" if usd is None else f", ${usd:.2f}"
        unread = ", its result comes with the next message" if entry.pending else ""
        progress = self.progress(entry)
        activity = f" ({progress})" if progress and entry.ended is None else ""
        return (
            f"{entry.id} {entry.label}, {self.status(entry)}{cost}{unread}: {started.description}{activity}"
        )

    # -- starting -------------------------------------------------------------------------------

    def start(self, task: AgentInput, call: str) -> AgentEntry:
        """Add an agent to the roster for a tool call, without running it; the same call always gives the same agent.

        Raises `InputError` or `Refused`; the message says what to do instead.
        """
        with self._lock:
            agent = agent_id(self._parent.store.name, self.owner, call)
            if (existing := self.roster.get(agent)) is not None:
                return existing
            work = self._starting.work_of(task, agent, call, self.root.working)
            return self._record(work)

    def map(
        self, prompts: Sequence[str], kind: str, progress: MapProgress | None = None
    ) -> Flow[list[AgentEnd]]:
        """Run an agent of this type for each task, concurrently; the flow returns how each one ended, in order.

        The same tasks at the same point of the conversation are done only once: after a kill, only unfinished ones
        continue.
        """
        yield from self.resume(self._mapped_calls(prompts))
        works = [
            self._mapped(prompt, kind, call, progress and partial(progress, number))
            for number, (prompt, call) in enumerate(zip(prompts, self._mapped_calls(prompts), strict=True))
        ]
        done = yield from Gather(works, self._parent.store.settings.current().agents_at_once)
        return [entry.ended for entry in done if entry.ended is not None]

    def _mapped_calls(self, prompts: Sequence[str]) -> list[str]:
        """Return a call id for each of these tasks, specific to this point of the conversation."""
        tip = self._parent.conversation.transcript.view.tip
        tasks = [f"{tip} {number} {prompt}" for number, prompt in enumerate(prompts)]
        return [f"{MAPPED}{sha256(task.encode()).hexdigest()[:24]}" for task in tasks]

    def _mapped(
        self, prompt: str, kind: str, call: str, progress: Callable[[str], None] | None
    ) -> Flow[AgentEntry]:
        task = AgentInput(" ".join(prompt.split())[:80] or "a task", prompt, kind)
        return (yield from self.work(self.start(task, call), progress))

    def continue_work(self, entry: AgentEntry, prompt: str) -> AgentEntry:
        """Record new background work for an agent that has ended; run it with `launch`."""
        with self._lock:
            if entry.ended is None:
                raise Refused(f"{entry.label} is still working")
            self._starting.check_room(self.root.working)
            return self._record(replace(entry.started, prompt=prompt, call="", background=True))

    def would_fork(self, arguments: AgentInput) -> bool:
        """Whether the agent would begin with this conversation; False if it could not be started at all."""
        return self._starting.would_fork(arguments)

    def _record(self, work: AgentStart) -> AgentEntry:
        entry = self.roster.start(work)
        self._tell(entry)
        return entry

    # -- running --------------------------------------------------------------------------------

    def launch(self, entry: AgentEntry) -> None:
        """Run an agent in the background."""
        conversation = self.root._parent.conversation
        if conversation.background is None:
            raise Refused("background agents are not available here; start it in the foreground")
        # Registered now, because it would count as not working until the first step of its flow.
        self._workers[entry.id] = _Worker(ProgressLine(self._parent.clock))
        conversation.run_background(unguarded(self.work(entry)), partial(self._background_ended, entry))

    def _background_ended(self, entry: AgentEntry, outcome: AgentEntry | Exception) -> None:
        if isinstance(outcome, Exception):
            reason = f"{entry.label} could not be recorded as ended: {outcome}"
            self._parent.conversation.events.aside("agents", reason, error=outcome)
        self.wake_up()

    def work(self, entry: AgentEntry, progress: Callable[[str], None] | None = None) -> Flow[AgentEntry]:
        """Run an agent, or continue it, until its work has ended; the flow returns its updated entry."""
        if entry.ended is not None:
            return entry
        worker = self._workers.setdefault(entry.id, _Worker(ProgressLine(self._parent.clock)))
        child: Assembly | None = None
        try:
            try:
                child = yield from in_thread(partial(self._open, entry, worker, progress))
                result = yield from self._result(child, entry, worker)
            except Exception as error:  # noqa: BLE001 (whatever ends an agent is its result)
                expected = isinstance(error, SevenfoldError)
                detail = str(error) if expected else f"{type(error).__name__}: {error}"
                yield from worker.line.settle()
                usd = self._cost(child, entry) if child is not None else 0.0
                result = AgentEnd(agent=entry.id, state="failed", detail=detail, usd=usd)
            return entry if self._closing else self._ended(entry, result)
        finally:
            with self._lock:
                self._workers.pop(entry.id, None)
            if child is not None:
                child.end()
            worker.over.happen()
            self.wake_up()
            final_entry = None if self._closing else self.roster.get(entry.id)
            if final_entry is not None and final_entry.status == "completed":
                self.mail.check_waiting(final_entry)

    def _open(self, entry: AgentEntry, worker: _Worker, progress: Callable[[str], None] | None) -> Assembly:
        parent = self._parent
        started = entry.started
        definition = self.definitions.get(started.agent_type)
        if definition is None:
            raise Refused(f"the agent type {started.agent_type!r} no longer exists")
        child = parent.create_subagent(Descent(parent, definition, entry))
        if progress is not None:
            child.reporter.sink = ProgressSink(progress)
        with self._lock:
            worker.agent = child
            if self._closing or worker.stopped:
                child.loop.interrupt()
        return child

    def _result(self, child: Assembly, entry: AgentEntry, worker: _Worker) -> Flow[AgentEnd]:
        conversation = child.conversation
        has_task = bool(conversation.transcript.log.keyed(entry.key))
        if has_task and (text := last_words(child)) is not None:
            # It had finished, but its end was not recorded.
            return AgentEnd(agent=entry.id, text=text, usd=self._cost(child, entry))
        warm = Signal()
        if entry.started.fork and not has_task:
            warm = yield from self._wait_for_cache(child)
        if has_task:
            flow = child.loop.run()
        else:
            definition = self.definitions[entry.started.agent_type]
            flow = child.loop.run(task_of(child, entry, definition), entry.key)
        if self._closing or worker.stopped:
            child.loop.interrupt()
        try:
            finished = yield from with_client(flow, child, warm)
        finally:
            warm.happen()
        yield from worker.line.settle()
        return end_of_work(finished, child, entry, self._cost(child, entry))

    def _wait_for_cache(self, child: Assembly) -> Flow[Signal]:
        """Let the first of several forks write their shared prefix to the cache; the others wait, then read it."""
        tip = child.conversation.transcript.view.tip or ""
        with self._lock:
            ahead = self._warm.get(tip)
            if ahead is None:
                self._warm[tip] = warm = Signal()
                return warm
        yield from Wait(ahead, WARMING)
        return ahead

    def _ended(self, entry: AgentEntry, result: AgentEnd) -> AgentEntry:
        with self._lock:
            entry = self.roster.end(result)
        self._tell(entry)
        return entry

    def _cost(self, child: Assembly, entry: AgentEntry) -> float | None:
        """Return the cost of an agent's current work so far; None if unknown."""
        usd = child.team.spent() if child.team is not None else child.conversation.account.usd
        inherited = child.inherited_usd
        if usd is None or inherited is None or entry.usd is None:
            return None
        return max(0.0, usd - inherited - entry.usd)

    def _tell(self, entry: AgentEntry) -> None:
        started = entry.started
        ended = entry.ended
        self._parent.conversation.events.tell(
            AgentChanged(
                agent=entry.id,
                name=started.name,
                type=started.agent_type,
                state=entry.status,
                fork=started.fork,
                background=started.background,
                because=started.because,
                description=started.description,
                usd=ended.usd if ended else None,
                saved_usd=ended.saved_usd if ended else 0.0,
                turns=ended.turns if ended else 0,
            )
        )

    # -- results --------------------------------------------------------------------------------

    def resume(self, mapped: Collection[str] = ()) -> Flow[None]:
        """Continue the work that an earlier process left: open calls get results, and background work continues.

        Work of ``mapped`` calls is not touched, because `map` continues it.
        """
        if self._resumed:
            return
        self._resumed = True
        conversation = self._parent.conversation
        open_calls = set(conversation.waiting)
        unfinished = [entry for entry in self.roster if entry.ended is None or entry.pending]
        called = [entry for entry in self.roster if entry.started.call in open_calls]
        # Their calls are open if the program ended before the results of one answer were recorded. They work on.
        in_background = [entry for entry in called if entry.started.background]
        awaited = [entry for entry in called if entry in unfinished and not entry.started.background]
        for entry in self.roster:
            if entry.status == "completed":
                self.mail.check_waiting(entry)
        for entry in unfinished:
            if entry.started.background and entry.ended is None:
                self.launch(entry)
            elif entry.ended is None and entry not in awaited and entry.started.call not in mapped:
                detail = "the conversation went on without it"
                self._ended(entry, AgentEnd(agent=entry.id, state="cancelled", detail=detail))
        results = [_result(entry, ToolOutput(self.started(entry))) for entry in in_background]
        try:
            if awaited:
                done = yield from Gather([self.work(entry) for entry in awaited], CONCURRENT)
                results += [_result(entry, self.call_output(entry)) for entry in done]
        finally:
            # All results of the answer together: a fork begins behind its calls, before any of them has a result. If
            # the work is interrupted, those in the background have begun all the same.
            if results:
                conversation.tool_results(results)

    def deliver(self) -> None:
        """Add messages and the results of background agents to the conversation, each exactly once."""
        conversation = self._parent.conversation
        if self.post is not None:
            self.post.deliver()
            self.mail.release_held()
        for entry in self.roster:
            if not entry.pending:
                continue
            if entry.started.background:
                conversation.note(self.report(entry), key=entry.key)
            self.roster.deliver(entry.id)

    def await_result(self, otherwise: Callable[[], bool]) -> Flow[bool]:
        """Wait for background agents; True on a result, a message or ``otherwise()``, False if none is working."""
        while True:
            news = self._news
            pending = any(entry.pending and entry.started.background for entry in self.roster)
            if pending or otherwise() or (self.post is not None and self.post.waiting):
                return True
            if not any(entry.id in self._workers and entry.started.background for entry in self.roster):
                return False
            yield from Wait(news, LONGEST_WAIT)

    def wake_up_in(self, entry: AgentEntry) -> None:
        """Wake an agent of the team that is waiting for its own agents, so that it checks again."""
        live = self._live(entry.id)
        if live is not None and live.team is not None:
            live.team.wake_up()

    def wake_up(self) -> None:
        """Wake every flow that is waiting for a result, so that it checks again."""
        news = self._news
        self._news = Signal()
        news.happen()

    def report(self, entry: AgentEntry) -> str:
        """Return an agent's result as a message, with every line quoted; a long result is stored and truncated."""
        text, closing_line = entry.result()
        path = None
        if len(text) > LONGEST_REPORT:
            path = self._parent.store.results.keep(entry.key, text.encode())
            text = text[:LONGEST_REPORT]
        return AgentReport(
            entry.id, entry.label, entry.status, f"{quoted_lines(text)}\n\n{closing_line}", path
        ).render()

    def started(self, entry: AgentEntry) -> str:
        """Return what the call that starts an agent in the background says."""
        return STARTED.format(entry.label, entry.id)

    def call_output(self, entry: AgentEntry) -> ToolOutput:
        """Return an agent's result as the output of the call that waited for it, framed like any report."""
        return ToolOutput(self.report(entry), is_error=entry.status == "failed")

    # -- stopping -------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop the agents that current tool calls wait for; background agents continue."""
        with self._lock:
            for entry, live in self._at_work():
                if not entry.started.background:
                    live.loop.interrupt()
        self.wake_up()

    def stop(self, to: str) -> AgentEntry:
        """Stop an agent, by its id or name; return its entry from before the stop."""
        with self._lock:
            entry = self.roster.find(to)
            if (worker := self._workers.get(entry.id)) is not None:
                worker.stopped = True
                if worker.agent is not None:
                    worker.agent.loop.interrupt()
            elif entry.ended is None:
                self._ended(entry, AgentEnd(agent=entry.id, state="cancelled", detail="it was stopped"))
            return entry

    def close(self) -> None:
        """Stop all agents; unfinished work continues when the session is resumed."""
        with self._lock:
            self._closing = True
            for _, live in self._at_work():
                live.loop.interrupt()
            running = list(self._workers.values())
        for worker in running:
            worker.over.wait(CLOSING)


STILL_THERE = "Agents you have started; do not start them again. Their results come by themselves"
STARTED = (
    "{} has started in the background, agentId: {}. Its result comes as a message when it ends: go on with other work, "
    "or end your turn to wait. Do not start it again."
)


def _result(entry: AgentEntry, output: ToolOutput) -> Mapping[str, Any]:
    """Return the output as the result of the call that started an agent."""
    return result_block(ToolCall(entry.started.call, "Agent", {}), output)
