"""The provider of a replay: the simulator in this process, whose model gives the recorded answers.

It enforces the provider's rules, bills every token by the model's prices, and its clock moves as the recorded one did.
Every request is recorded with its cost, no matter which part of the engine made it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import InputError
from sevenfold.lab.replay.prose import Prose
from sevenfold.lab.replay.recording import RecordedStep, Recording
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.errors import ApiError, invalid
from sevenfold.lab.simulator.messages import answer
from sevenfold.lab.simulator.parameters import ApiFeatures
from sevenfold.lab.simulator.preparation import prepare
from sevenfold.lab.simulator.provider import UNLIMITED, Setup, Simulator
from sevenfold.lab.simulator.schema import check_shape
from sevenfold.lab.simulator.tokens import Counter
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.profiles import Profile, find
from sevenfold.providers.anthropic import ANTHROPIC, MESSAGES, VERSION
from sevenfold.providers.failures import Endpoint, explain
from sevenfold.record.usage import Usage
from sevenfold.wire.error_report import report_of

Json = Mapping[str, Any]
CUT = ("max_tokens", "model_context_window_exceeded")
"""Why an answer ends before it is complete."""
MAIN = "main"
COMPACT = "compact"
USUAL_RULES = "claude-sonnet-4-5"
"""The model whose rules hold for models that are not served through the Messages API."""
MOST_ANSWER = 32_000
"""The most tokens of an answer that a request asks for, or a quarter of the window."""


class BilledRequest(Struct, frozen=True):
    """One request and what it cost."""

    step: int
    source: str
    in_session: bool
    """Whether the session waited for it: whether it was made in the session's own thread."""
    at: float
    usage: Usage
    usd: float | None


class ReplayProvider:
    """A simulated provider for one replay."""

    def __init__(self, profile: Profile, recording: Recording) -> None:
        self.profile = profile
        self.prose = Prose.of(recording.summaries, profile.tokenizer)
        self.max_tokens = _most_tokens(profile, recording)
        """The most tokens of an answer that requests ask for."""
        self.clock = VirtualClock(0.0)
        self.requests: list[BilledRequest] = []
        self.shown: Sequence[Json] = ()
        """The messages of the newest request of the session itself, as the model saw them."""
        self.opening = 0
        """Tokens of system prompt and tools in the newest request of the session itself."""
        self.step = 0
        setup = Setup(models={self.profile.model: self.profile}, limits=UNLIMITED, log_bytes=1)
        self.simulator = Simulator(
            ScriptedBrain(self._answer),
            setup,
            clock=self.clock,
            summarise=lambda request: self.prose.at(self.step),
        )
        self._next: RecordedStep | None = None
        self._source = MAIN
        self._updates = 0
        self._lock = threading.Lock()
        self._thread = threading.get_ident()

    @property
    def thinking(self) -> Json | None:
        """The setting for thinking that every request has; None if the model does not think."""
        modes = self.profile.thinking.modes
        if "adaptive" in modes:
            return {"type": "adaptive"}
        if "enabled" in modes and self.max_tokens > 2_048:
            return {"type": "enabled", "budget_tokens": self.max_tokens // 2}
        return None

    @property
    def forgets_thinking(self) -> bool:
        """Whether the provider itself drops the thinking of a turn once the user speaks again."""
        return self.thinking is not None and not self.profile.thinking.kept

    def begin(self, number: int, step: RecordedStep) -> None:
        """Move on to a step: the time is when it was asked, and its answer is the next one."""
        self.step = number
        self._next = step
        self._pass_until(step.asked_at)

    def ask(self, body: Json, betas: Iterable[str] = (), source: str = MAIN) -> dict[str, Any]:
        """Answer a request, and bill it; raises `ApiError` if the provider would refuse it."""
        with self._lock:
            self._source = source.partition(":")[0]
            features = ApiFeatures(VERSION, frozenset(betas))
            check_shape(body, features)
            asked_at = self.clock.now()
            ready = prepare(self.simulator, body, self.profile, features)
            message, plans = answer(self.simulator, ready)
            for plan in plans:
                self.simulator.cache.commit(plan)
            if self._source == MAIN:
                self.opening = sum(part.tokens for part in ready.head)
                if message["stop_reason"] in CUT:
                    room = self.profile.window - ready.tokens
                    raise invalid(
                        f"the prompt has {ready.tokens:,} tokens, and the answer does not fit into the {room:,} "
                        "that are left of the window"
                    )
            usage = Usage.of(message["usage"])
            in_session = threading.get_ident() == self._thread
            self.requests.append(
                BilledRequest(
                    self.step, self._source, in_session, asked_at, usage, usage.cost(self.profile)
                )
            )
            return message

    def tokens(self, blocks: Iterable[Json], role: str) -> int:
        """The size of a message with these blocks."""
        scales = self.simulator.scales
        sizes = (scales.weigh(block, self.profile.tokenizer, role).tokens for block in blocks)
        return sum(sizes, scales.counter.per_message)

    def _answer(self, prompt: ModelPrompt) -> str | Sequence[Json]:
        match self._source:
            case "main" | "sdk":
                assert self._next is not None
                self.shown = prompt.messages
                self._pass_until(self._next.answered_at)
                thinks = bool(self.profile.thinking.modes) and self.thinking is not None
                return [
                    block for block in self._next.answer if thinks or block["type"] in ("text", "tool_use")
                ]
            case "compact" | "collapse":
                # The empty section says that no statement of the user's is named as lasting.
                return f"<summary>\n{self.prose.at(self.step)}\n</summary>\n<lasting>\n</lasting>"
            case "session_memory":
                self._updates += 1
                return self.prose.update(self._updates - 1)
            case _:
                return "<nothing/>"

    def _pass_until(self, seconds: float) -> None:
        """Move the clock to that time, unless it is already later."""
        self.clock.advance(max(0.0, seconds - self.clock.now()))


class InProcessClient:
    """A client of the provider for a session, without HTTP in between."""

    name = "simulated provider in this process"

    def __init__(self, provider: ReplayProvider) -> None:
        self._provider = provider
        self._at = Endpoint(ANTHROPIC, self.name, provider.profile.model)

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Ask the provider; its refusals are raised as a provider's errors are."""
        try:
            message = self._provider.ask(msgspec.json.decode(call.body), call.betas, call.source)
        except ApiError as error:
            raise explain(report_of(error.messages_body("req_replay"), error.status), self._at) from error
        reader = MESSAGES.reader(call.body)
        reader.body(msgspec.json.encode(message))
        return reader.reply(None)

    def close(self) -> None:
        """Do nothing: there are no connections."""


def served(model: str, window: int | None) -> Profile:
    """The profile of a model as the simulated provider serves it: in the Messages API, with this window."""
    profile = find(model)
    if window is not None and window > profile.window and profile.known:
        raise InputError(
            f"{model} has a window of {profile.window:,} tokens: a --window of {window:,} is more than it takes"
        )
    if not MESSAGES.serves(profile):
        # It has no rules of its own here; its tokens, window and prices count.
        own_fields = ("name", "model", "tokenizer", "prices", "window", "max_output")
        profile = replace(find(USUAL_RULES), **{name: getattr(profile, name) for name in own_fields})
    return profile if window is None else replace(profile, window=window)


def _most_tokens(profile: Profile, recording: Recording) -> int:
    """Enough for every recorded answer."""
    counter = Counter()
    answers = (
        sum(counter.block(block, profile.tokenizer) for block in step.answer) for step in recording.steps
    )
    largest = max(answers, default=0)
    usual = min(MOST_ANSWER, max(1, profile.window // 4))
    return min(profile.max_output, max(usual, largest + 1))
