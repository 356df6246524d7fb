"""One simulated provider: its setup, its state between requests (rate limits, request log) and its models.

The server and all three APIs operate on a `Simulator`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from threading import Lock, get_ident
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from sevenfold import profiles
from sevenfold.lab.simulator import brains
from sevenfold.lab.simulator.brains import Brain, ModelPrompt, ModelReply
from sevenfold.lab.simulator.cache import Diagnosis, PromptCache
from sevenfold.lab.simulator.clock import RealClock, SimulatorClock
from sevenfold.lab.simulator.errors import ApiError, rate_limited, unknown_model
from sevenfold.lab.simulator.faults import Faults
from sevenfold.lab.simulator.instances import with_required_output
from sevenfold.lab.simulator.response_diagnosis import ResponseDiagnosis
from sevenfold.lab.simulator.thinking import Binder
from sevenfold.lab.simulator.threads import HeldHistories
from sevenfold.lab.simulator.tokens import Counter, Scales
from sevenfold.profiles import CLEAR_THINKING, CLEAR_TOOL_USES, COMPACT, MODES, Profile
from sevenfold.providers.anthropic import MESSAGES

MINUTE = 60.0
OTHER_MODELS = ("gpt-5.6", "gpt-5", "gpt-4.1", "local-8k")
"""Model names listed in addition to the profile table; each gets the defaults of its family."""
SMALL_MODEL = "local-8k"
"""A model with a very small window, as some local servers have."""
LOCAL_WINDOW = 32_768
"""The window of every other unlisted model whose family default is smaller."""


RELEASED = "2026-01-01T00:00:00Z"
LINES = ("haiku", "sonnet", "opus", "fable", "mythos")


class RateLimits(Struct, frozen=True):
    """What an account may use per minute."""

    requests: int = 4_000
    input_tokens: int = 10_000_000
    """Tokens read from the cache do not count."""
    output_tokens: int = 2_000_000


UNLIMITED = RateLimits(requests=10**9, input_tokens=10**12, output_tokens=10**12)
"""For runs on a virtual clock, where limits per minute make no sense."""


class Setup(Struct, frozen=True):
    """How a simulator behaves; the defaults describe a new account at a healthy provider."""

    api_key: str | None = None
    """The accepted key; None accepts any non-empty key."""
    secret: bytes = b"sevenfold simulator"
    """The signing key: a simulator restarted with the same secret accepts its old signatures."""
    run: str = ""
    """Ids of messages, calls and requests are those of this run: of two runs of one name, the same."""
    organisation: str = "org_simulated"
    account: Literal["new", "old"] = "new"
    """Old accounts are exempt from bound thinking on models that make it depend on the account's age."""
    models: Mapping[str, Profile] = field(default_factory=dict)
    """Models served in addition to the profile table; a profile given here wins over the table's."""
    any_model: bool = True
    """Whether to serve names that are neither in the table nor in ``models``, with the defaults of their families."""
    announced_windows: Mapping[str, int] = field(default_factory=dict)
    """Wrong windows, by model, to report in the list of models."""
    counter: Counter = field(default_factory=Counter)
    limits: RateLimits = RateLimits()
    chunk: int = 24
    """Characters of text in one stream event."""
    body_bytes: int = 32_000_000
    pinned_edits: bool = False
    """Enables an extension that no provider has; see `prompt._without_deleted`."""
    edits_hold: bool = False
    """Whether ``clear_tool_uses_20250919`` clears in steps of ``clear_at_least`` and changes nothing in between; if
    not, every request clears all results but the newest ``keep``. The documentation can be read either way."""
    extra_blocks: frozenset[str] = frozenset()
    """Block types of a future API, accepted unchecked."""
    long_lifetime: bool = True
    """Whether the account may cache for an hour; if not, markers that ask for it are refused."""
    lifetimes_apart: bool = True
    """Whether an entry written with one lifetime is invisible to markers with the other."""
    threads: bool = False
    """Whether histories are held: message threads, and stored responses; if not, they are declined."""
    log_bytes: int = 256_000_000
    """How many bytes of requests the request log keeps."""


class Received(Struct):
    """One request; status, usage and answer are filled in when it is answered."""

    at: float
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    raw: bytes
    number: int = 0
    """Counted from 1, over all requests."""
    status: int = 0
    usage: Mapping[str, Any] | None = None
    answer: Any = None
    """The body of the answer as decoded JSON, streamed or not."""

    @property
    def body(self) -> Any:
        """The request body as JSON, decoded on demand: kept as objects, a long session would fill the memory."""
        return msgspec.json.decode(self.raw)


class RequestLog(deque[Received]):
    """The newest requests, oldest first, up to a total size in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._bytes = 0
        self._count = 0

    def add(self, received: Received) -> Received:
        """Number a request, append it and return it; drops the oldest ones to make room."""
        self._count += 1
        received.number = self._count
        self.append(received)
        self._bytes += len(received.raw)
        while self._bytes > self._limit and len(self) > 1:
            self._bytes -= len(self.popleft().raw)
        return received

    def answered(self, path: str = "/v1/messages") -> list[Received]:
        """The requests to a path that succeeded."""
        return [received for received in self if received.path == path and received.status == 200]

    def __iter__(self) -> Iterator[Received]:
        # Iterate over a copy: the server may append meanwhile.
        return iter(list(super().__iter__()))

    def clear(self) -> None:
        """Forget all requests."""
        super().clear()
        self._bytes = 0


class RateMeter:
    """Counts the requests and tokens of the last minute."""

    def __init__(self, limits: RateLimits) -> None:
        self.limits = limits
        self._spent: deque[tuple[float, int, int]] = deque()
        """Time, input tokens and output tokens of each request."""

    def admit(self, now: float) -> None:
        """Raise a rate-limit error if the requests or input tokens of the last minute reach the limit."""
        requests, input_tokens, _ = self._used(now)
        if requests >= self.limits.requests or input_tokens >= self.limits.input_tokens:
            raise rate_limited(max(1.0, self._spent[0][0] + MINUTE - now))

    def spend(self, now: float, input_tokens: int, output_tokens: int) -> None:
        """Count an answered request."""
        self._spent.append((now, input_tokens, output_tokens))

    def headers(self, now: float) -> dict[str, str]:
        """The rate-limit headers: each limit, what remains of it and when it resets."""
        limits, (requests, input_tokens, output_tokens) = self.limits, self._used(now)
        rows = {
            "requests": (limits.requests, requests),
            "tokens": (limits.input_tokens + limits.output_tokens, input_tokens + output_tokens),
            "input-tokens": (limits.input_tokens, input_tokens),
            "output-tokens": (limits.output_tokens, output_tokens),
        }
        reset = datetime.fromtimestamp(now + MINUTE, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers: dict[str, str] = {}
        for name, (allowed, used) in rows.items():
            headers[f"anthropic-ratelimit-{name}-limit"] = str(allowed)
            headers[f"anthropic-ratelimit-{name}-remaining"] = str(max(0, allowed - used))
            headers[f"anthropic-ratelimit-{name}-reset"] = reset
        return headers

    def _used(self, now: float) -> tuple[int, int, int]:
        while self._spent and self._spent[0][0] <= now - MINUTE:
            self._spent.popleft()
        input_tokens = sum(tokens for _, tokens, _ in self._spent)
        output_tokens = sum(tokens for *_, tokens in self._spent)
        return len(self._spent), input_tokens, output_tokens


class Simulator:
    """A simulated provider: setup, brain, clock, cache, faults and the request log."""

    def __init__(
        self,
        brain: Brain | None = None,
        setup: Setup | None = None,
        *,
        clock: SimulatorClock | None = None,
        faults: Faults | None = None,
        summarise: brains.Summarise = brains.simulated_summary,
    ) -> None:
        self.setup = setup or Setup()
        self.brain: Brain = brain or brains.EchoBrain()
        self.clock: SimulatorClock = clock or RealClock()
        self.faults = faults or Faults()
        self.summarise = summarise
        self.scales = Scales(self.setup.counter)
        self.binder = Binder(self.setup.secret, self.setup.organisation)
        self.cache = PromptCache(lifetimes_apart=self.setup.lifetimes_apart)
        self.diagnosis = Diagnosis()
        self.response_diagnosis = ResponseDiagnosis()
        self.histories = HeldHistories(self.clock)
        self.meter = RateMeter(self.setup.limits)
        self.requests = RequestLog(self.setup.log_bytes)
        self._lock = Lock()
        self._worker: int | None = None
        """The thread that holds the lock."""
        self._ids = count(1)

    def profile(self, model: str) -> Profile | None:
        """The profile of a served model; None for a name that is not served."""
        if model in self.setup.models:
            return self.setup.models[model]
        profile = profiles.find(model)
        if not (self.setup.any_model or profile.known or model in OTHER_MODELS):
            return None
        small = not profile.known and model != SMALL_MODEL and profile.window < LOCAL_WINDOW
        return replace(profile, window=LOCAL_WINDOW) if small else profile

    def messages_profile(self, model: str) -> Profile | None:
        """The profile of a model on the Messages API; None if the API does not serve it."""
        profile = self.profile(model)
        if profile is None or MESSAGES.serves(profile):
            return profile
        if not self.setup.any_model:
            return None
        # Local servers offer this API for any model, with the rules of Anthropic's older models.
        rules = profiles.find("claude-sonnet-4-5")
        own_fields = ("name", "model", "window", "max_output", "tokenizer")
        return replace(
            rules, known=False, prices=(), **{name: getattr(profile, name) for name in own_fields}
        )

    def think(self, prompt: ModelPrompt) -> ModelReply:
        """Ask the brain for a reply; a server processes other requests meanwhile."""
        if self._worker != get_ident():
            return with_required_output(self.brain.reply(prompt), prompt)
        self._worker = None
        self._lock.release()
        try:
            return with_required_output(self.brain.reply(prompt), prompt)
        finally:
            self._lock.acquire()
            self._worker = get_ident()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Process one request while no other is processed; `think` gives way to others."""
        with self._lock:
            self._worker = get_ident()
            try:
                yield
            finally:
                self._worker = None

    def new_id(self, prefix: str) -> str:
        """A new unique id; the same sequence in every run of this name."""
        digest_hex = sha256(
            self.setup.secret + f"{self.setup.run}{prefix}{next(self._ids)}".encode()
        ).hexdigest()
        return f"{prefix}{digest_hex[:24]}"


# -- the list of models, as each provider gives it ---------------------------------------------


def model_list(sim: Simulator, *, anthropic: bool) -> dict[str, Any]:
    """The list of all served models, in Anthropic's or OpenAI's format."""
    names = dict.fromkeys([*sim.setup.models, *profiles.names(), *OTHER_MODELS])
    if not anthropic:
        return {"object": "list", "data": [_openai_model(sim, name) for name in names]}
    listed: list[dict[str, Any]] = []
    for name in names:
        profile = sim.profile(name)
        if profile is not None and MESSAGES.serves(profile):
            listed.append(_anthropic_model(sim, name, profile))
    return {"data": listed, "has_more": False, "first_id": listed[0]["id"], "last_id": listed[-1]["id"]}


def model_info(sim: Simulator, name: str, *, anthropic: bool) -> dict[str, Any]:
    """The description of one model, in Anthropic's or OpenAI's format; raises if it is not served."""
    profile = sim.messages_profile(name) if anthropic else sim.profile(name)
    if profile is None:
        raise ApiError(404, "not_found_error", f"model: {name}") if anthropic else unknown_model(name)
    return _anthropic_model(sim, name, profile) if anthropic else _openai_model(sim, name)


def _openai_model(sim: Simulator, name: str) -> dict[str, Any]:
    """A model as OpenAI lists it; models from the setup include their window, as on local servers."""
    listed = {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "simulated"}
    if own_profile := sim.setup.models.get(name):
        listed["max_model_len"] = sim.setup.announced_windows.get(name, own_profile.window)
    return listed


def _anthropic_model(sim: Simulator, name: str, profile: Profile) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": f"{name} (simulated)",
        "created_at": RELEASED,
        "deprecated_at": None,
        "retires_at": None,
        "lifecycle": "active",
        "line": next((line for line in LINES if line in name), None),
        "max_input_tokens": sim.setup.announced_windows.get(name, profile.window),
        "max_tokens": profile.max_output,
        "allowed_fallback_models": [],
        "capabilities": _capabilities(profile),
    }


def _capabilities(profile: Profile) -> dict[str, Any]:
    no = _can(False)
    modes = profile.thinking.modes
    effort = _can(profile.effort is not None)
    summarises = _can(profile.on_demand_compaction)
    edits = {name: _can(name in profile.edits) for name in (CLEAR_TOOL_USES, CLEAR_THINKING)}
    edits[COMPACT] = _can(profile.threshold_compaction)
    return {
        "batch": no,
        "citations": no,
        "code_execution": no,
        "compaction": {**summarises, "summarize": summarises},
        "context_management": {**_can(bool(profile.edits) or profile.threshold_compaction), **edits},
        "effort": {**effort, **dict.fromkeys(("low", "medium", "high", "xhigh", "max"), effort)},
        "image_input": _can(True),
        "pdf_input": _can(True),
        "server_tools": {**no, "code_execution": no, "web_search": no},
        "structured_outputs": _can(True),
        "thinking": {
            **_can(bool(set(modes) - {"disabled"})),
            "types": {mode: _can(mode in modes) for mode in MODES},
        },
    }


def _can(supported: bool) -> dict[str, bool]:
    return {"supported": supported}
