"""The one place that knows the engine from inside: a world in which a session does the same to the byte every time.

Everything else here uses what is public. When modules move, the imports below are what has to follow:

    the simulated provider      sevenfold.lab.simulator.*, behind one server for all scenarios
    who writes summaries        sevenfold.layers.compact.offline, what the offline model answers by
    a model's profile           sevenfold.profiles; sevenfold.providers.models.find, where a session looks it up
    the sequence of ids         sevenfold.clock.CountedIds
    how hooks are made          sevenfold.agent.hooks.registry.run_command
    how a fork is asked         sevenfold.conversation.flow, sevenfold.providers.registry
    a log kept in memory        session.conversation.transcript.log

A scenario is one coroutine for both kinds of session. With `Session` nothing in it ever waits, so it is run by hand;
with `AsyncSession` it runs on an event loop.
"""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import json
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import anthropic
import openai
from msgspec.structs import replace

import sevenfold
from sevenfold import profiles
from sevenfold.agent.hooks.registry import run_command
from sevenfold.clock import CountedIds
from sevenfold.conversation.flow import drive, drive_async
from sevenfold.lab.simulator.brains import ModelPrompt as Prompt
from sevenfold.lab.simulator.brains import ModelReply as Reply
from sevenfold.lab.simulator.brains import NoSummary, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.faults import Fault
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.providers.registry import async_client_of, client_of
from tests.engine.stage import stage
from tests.recorded import form

__all__ = ["Fault", "Mind", "NoSummary", "Prompt", "Reply", "Rig", "Setup", "changed", "recording"]

ROOT = Path("/tmp/sevenfold-recorded")
"""Paths are part of what a model reads, and of every hash over it: they have to be the same in every run."""
KEY = "simulated-key"
HEADERS = ("anthropic-beta", "anthropic-version", "openai-beta")
PASSED = (".lock", ".recall.sqlite", "unseen.json")
"""What holds nothing that could not be made again, or names the process that wrote it."""
USUAL = (
    '"isSidechain":false,"userType":"external","cwd":"<root>/project",'
    '"sessionId":"s","version":"<version>","gitBranch":""'
)
"""What every record of a session says besides."""
_COUNTED = re.compile("00000000-0000-0000-0000-0*([0-9a-f]*)(?![0-9a-f])")
"""Ids in the order they were given out."""
VARIABLES = ("SEVENFOLD_", "ANTHROPIC_", "OPENAI_")

Said = str | Sequence[Mapping[str, Any]] | Reply
Answer = Callable[[Prompt], Said]


class Mind:
    """What the simulated model says: it plays steps, or works through files without end; summaries and notes are
    written by whoever is given for it."""

    def __init__(
        self,
        steps: Iterable[Said] | None = None,
        *,
        summary: Answer = lambda prompt: summarise({"messages": prompt.messages}),
        notes: Answer = lambda prompt: take_notes({"messages": prompt.messages}),
        thinks: bool = False,
        calls: int = 1,
    ) -> None:
        self.summary, self.notes, self.thinks, self.calls = summary, notes, thinks, calls
        self._steps = None if steps is None else iter(steps)
        self._numbers = count(1)

    def brain(self) -> ScriptedBrain:
        return ScriptedBrain(self._reply)

    def _reply(self, prompt: Prompt) -> Said:
        asked = prompt.last_text
        if "<summary>" in asked and "<analysis>" in asked:
            return self.summary(prompt)
        if "session notes below" in asked:
            return self.notes(prompt)
        return self._work() if self._steps is None else next(self._steps)

    def _work(self) -> Said:
        number = next(self._numbers)
        said: list[dict[str, Any]] = [{"type": "text", "text": f"Looking at part {number}."}]
        if self.thinks:
            said.insert(0, {"type": "thinking", "thinking": f"step {number}", "signature": ""})
        for each in range(self.calls):
            path = f"src/part{number}{'_' * bool(each)}{each or ''}.py"
            changes = number % 3 == 0
            given = {"path": path, "old": "a", "new": "b"} if changes else {"path": path}
            name = "Edit" if changes else "Read"
            said.append({"type": "tool_use", "id": f"toolu_{number}_{each}", "name": name, "input": given})
        return said


class Plain:
    """A session, or an agent, whose methods can be awaited although none of them waits for an event loop."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in ("listen", "queue", "interrupt") or not inspect.ismethod(found):
            return Plain(found) if isinstance(found, sevenfold.Session) else found

        async def called(*given: Any, **more: Any) -> Any:
            return found(*given, **more)

        return called

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_inner":
            super().__setattr__(name, value)
        else:
            setattr(self._inner, name, value)


class Rig:
    """A provider, a clock, names for records, a home, and everything that was told and sent."""

    def __init__(self, name: str, *, awaited: bool) -> None:
        self.awaited = awaited
        self.root = ROOT / name
        self.home, self.project = self.root / "home", self.root / "project"
        self.clock, self.ids = VirtualClock(), CountedIds()
        self.began = self.clock.now()
        self.told: list[str] = []
        self.simulator = Simulator(Mind().brain(), clock=self.clock)
        self.veto: Callable[[Any], bool] = lambda event: False
        self._offline: list[Any] = []
        self._clients: list[Any] = []
        self._memory: list[Any] = []
        self._serves = ExitStack()
        self._url = ""

    # -- the world -----------------------------------------------------------------------------

    def provider(self, mind: Mind | None = None, setup: Setup | None = None, **more: Any) -> None:
        """Another provider than the usual one; before anything is opened."""
        self.simulator = Simulator((mind or Mind()).brain(), setup, clock=self.clock, **more)

    def faults(self, fault: Fault, requests: int = 1) -> None:
        """Let the next requests meet a fault."""
        self.simulator.faults.then(fault, requests)

    def client(self, wire: str = "messages") -> Any:
        """A client of an official SDK, of the kind the scenario needs."""
        if wire == "messages":
            kind: Any = anthropic.AsyncAnthropic if self.awaited else anthropic.Anthropic
            made = kind(api_key=KEY, base_url=self._serving(), max_retries=0)
        else:
            kind = openai.AsyncOpenAI if self.awaited else openai.OpenAI
            made = kind(api_key=KEY, base_url=f"{self._serving()}/v1", max_retries=0)
        self._clients.append(made)
        return made

    def offline(self, steps: Iterable[Any], **jobs: Any) -> Any:
        """The offline model with a script; it asks nobody, and what it is asked is recorded."""
        kind = sevenfold.AsyncOfflineClient if self.awaited else sevenfold.OfflineClient
        known = {"compact": summarise, "session_memory": take_notes, **jobs}
        made: Any = kind(sevenfold.Script(steps, jobs=known))
        ask = made.ask

        def asked(call: Any, watch: Any = None) -> Any:
            self._offline.append(call)
            return ask(call, watch)

        made.ask = asked
        return made

    def hooks(self, **functions: Callable[[Any], Any]) -> Any:
        """Hooks of the kind the scenario needs."""
        kind: Any = sevenfold.AsyncHooks if self.awaited else sevenfold.Hooks
        made = kind(run=run_command, environ={}, project_dir=str(self.project))
        for name, function in functions.items():
            made.add(name, function)
        return made

    # -- sessions ------------------------------------------------------------------------------

    def open(self, name: str = "s", **options: Any) -> AbstractAsyncContextManager[Any]:
        """A session in the home; closed at the end, as a program would."""
        kind: Any = sevenfold.AsyncSession if self.awaited else sevenfold.Session
        options.setdefault("folder", self.project)
        return self._held(lambda: kind.open(name, **self._options(options)))

    def in_memory(self, **options: Any) -> AbstractAsyncContextManager[Any]:
        kind: Any = sevenfold.AsyncSession if self.awaited else sevenfold.Session
        return self._held(lambda: kind.in_memory(**self._options(options)), kept=False)

    def agent(self, model: str, **options: Any) -> AbstractAsyncContextManager[Any]:
        kind: Any = sevenfold.AsyncAgent if self.awaited else sevenfold.Agent
        given = self._options({"folder": self.project, "model": model, **options})
        return self._held(lambda: kind(**given))

    def _options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        usual = {"clock": self.clock, "ids": self.ids, "listen": [self._hear]}
        return {**usual, **{name: value for name, value in given.items() if value is not None}}

    @asynccontextmanager
    async def _held(self, make: Callable[[], Any], *, kept: bool = True) -> Any:
        made = make()
        if isinstance(made, Awaitable):
            made = await made
        if not kept:
            self._memory.append(made)
        held = made if self.awaited else Plain(made)
        try:
            yield held
        finally:
            await held.close()

    def _hear(self, event: Any) -> sevenfold.Veto | None:
        self.told.append(form.event(event, self.began))
        return sevenfold.Veto("the scenario says no") if self.veto(event) else None

    # -- what a scenario looks at --------------------------------------------------------------

    def note(self, label: str, value: Any = "") -> None:
        """Put something that was returned among what was told."""
        self.told.append(f"-- {label}: {form.plain(value)}" if value != "" else f"-- {label}")

    def streamed(self, events: Iterable[Any]) -> None:
        """Put what an agent told behind the rest: in which order both come is up to two threads."""
        for event in events:
            engines = isinstance(event, sevenfold.Happened)
            told = f"Happened {type(event.event).__name__}" if engines else form.event(event, self.began)
            self.told.append(f"-- {told}")

    @property
    def log(self) -> Path:
        """The transcript of the session named s."""
        (found,) = self.home.glob("projects/*/s.jsonl")
        return found

    def records(self, *types: str) -> list[str]:
        """Ids of the records of these types in the transcript, in its order."""
        lines = map(json.loads, self.log.read_bytes().splitlines())
        return [line["uuid"] for line in lines if line.get("type") in types and "message" in line]

    @property
    def asked(self) -> int:
        """How many requests there were."""
        return len(self.simulator.requests)

    def settle(self, agent: Any) -> None:
        """Wait, from inside a tool, for what goes on beside a plain agent."""
        agent.session._inner.settle(60)

    async def ask_aside(self, fork: Any, client: Any) -> Any:
        """Let a fork ask what was said in it."""
        if self.awaited:
            return await drive_async(fork.turn(), async_client_of(client))
        return drive(fork.turn(), client_of(client))

    # -- the recording -------------------------------------------------------------------------

    def recorded(self) -> str:
        """All of it as text."""
        parts = ["## told", *self.told]
        bodies = form.Bodies()
        for number, received in enumerate(self.simulator.requests, 1):
            headers = [f"{name}={received.headers[name]}" for name in HEADERS if name in received.headers]
            head = f"{received.method} {received.path} {received.status} {' '.join(headers)}".rstrip()
            parts += [
                "",
                f"## request #{number} {head} {len(received.raw)} bytes {form.digest(received.raw)}",
            ]
            parts.append(bodies.told(received.raw))
        for number, call in enumerate(self._offline, 1):
            betas = " ".join(call.betas)
            head = f"## offline request #{number} {call.source} {betas}".rstrip()
            parts += ["", f"{head} {len(call.body)} bytes {form.digest(call.body)}", bodies.told(call.body)]
        for log in sorted([*self.home.glob("projects/*/*.jsonl"), *self.project.glob("*.jsonl")]):
            raw = log.read_bytes()
            parts += ["", f"## log {log.name} {len(raw)} bytes", *self._lines(raw)]
        for session in self._memory:
            raw = b"".join(line for _, line in session.conversation.transcript.log.read())
            parts += ["", f"## log in memory {len(raw)} bytes", *self._lines(raw)]
        parts += ["", "## files", *form.files(self.root, passed=PASSED)]
        return self._normal("\n".join(parts)) + "\n"

    def _lines(self, raw: bytes) -> list[str]:
        return [form.compact(line) for line in raw.decode(errors="backslashreplace").split("\n") if line]

    def _normal(self, text: str) -> str:
        text = text.replace(str(self.root), "<root>").replace(str(self.root).replace("/", "-"), "<root>")
        if self._url:
            text = text.replace(self._url, "<provider>")
        text = text.replace(f"sevenfold-{sevenfold.__version__}", "<version>")
        return _COUNTED.sub(lambda found: f"@{found[1] or 0}", text.replace(USUAL, "<usual>"))

    # -- beginning and end ---------------------------------------------------------------------

    def _serving(self) -> str:
        if not self._url:
            self._url = self._serves.enter_context(stage().serve(self.simulator))
        return self._url

    async def finish(self) -> None:
        for client in self._clients:
            closed = client.close()
            if self.awaited:
                await closed
        self._serves.close()


@contextmanager
def changed(model: str, **fields: Any) -> Iterator[Any]:
    """A model whose profile is another one, for the engine; returns it, to be given to the provider or not."""
    known = profiles.find
    other = replace(known(model), **fields)

    def found(name: str) -> Any:
        return other if name == model else known(name)

    with mock.patch("sevenfold.providers.models.find", found):
        yield other


@contextmanager
def _some_machine() -> Iterator[None]:
    """What the standard prompt says of the machine is the same on all of them."""
    with (
        mock.patch("platform.system", return_value="Linux"),
        mock.patch("platform.release", return_value="6.1.0"),
        mock.patch("platform.machine", return_value="x86_64"),
    ):
        yield


def recording(name: str, scenario: Callable[[Rig], Coroutine[Any, Any, None]], *, awaited: bool) -> str:
    """Play a scenario from the beginning; returns everything it left."""
    ROOT.mkdir(mode=0o700, exist_ok=True)
    with (ROOT / f"{name}.lock").open("w") as lock:
        # The paths are the same in every process: whoever plays it too has to wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        rig = Rig(name, awaited=awaited)
        shutil.rmtree(rig.root, ignore_errors=True)
        rig.project.mkdir(parents=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
        environment |= {
            "SEVENFOLD_HOME": str(rig.home),
            "HOME": str(rig.root),
            "TZ": "UTC",
            "SHELL": "/bin/bash",
        }
        try:
            with mock.patch.dict(os.environ, environment, clear=True), _some_machine():
                _play(_whole(rig, scenario), awaited=awaited)
                return rig.recorded()
        finally:
            shutil.rmtree(rig.root, ignore_errors=True)


async def _whole(rig: Rig, scenario: Callable[[Rig], Coroutine[Any, Any, None]]) -> None:
    try:
        await scenario(rig)
    finally:
        await rig.finish()


def _play(flow: Coroutine[Any, Any, None], *, awaited: bool) -> None:
    if awaited:
        asyncio.run(flow)
        return
    try:
        flow.send(None)
    except StopIteration:
        return
    flow.close()
    raise AssertionError("a scenario with a plain session waited for something")
