"""Everything one simulated provider is: how it is set up, and what it remembers between requests."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Literal

from msgspec import Struct, field

from sevenfold import profiles
from sevenfold.lab.simulator.bound_thinking import Binder
from sevenfold.lab.simulator.brains import Brain, EchoBrain, Summarise, simulated_summary
from sevenfold.lab.simulator.cache import PromptCache
from sevenfold.lab.simulator.clock import Clock, RealClock
from sevenfold.lab.simulator.diagnostics import Diagnosis
from sevenfold.lab.simulator.faults import Faults
from sevenfold.lab.simulator.limits import Limits, RateMeter
from sevenfold.lab.simulator.log import RequestLog
from sevenfold.lab.simulator.pieces import Scales
from sevenfold.lab.simulator.prefix_cache import PrefixCache
from sevenfold.lab.simulator.seals import Sealer
from sevenfold.lab.simulator.tokens import Counter
from sevenfold.profiles import Profile

OTHER_MODELS = ("gpt-5.6", "gpt-5", "gpt-4.1", "local-8k")
"""Names served besides those in the table of profiles, which get the defaults of their families."""


class Setup(Struct, frozen=True):
    """How a simulator behaves; the defaults are a new account at a provider in good health."""

    api_key: str | None = "simulated-key"
    """The key that is accepted; None accepts any."""
    secret: bytes = b"sevenfold simulator"
    """What signatures are made with: a simulator restarted with the same secret accepts them."""
    organisation: str = "org_simulated"
    account: Literal["new", "old"] = "new"
    """Old accounts are not held to bound thinking on models that leave it to the account's age."""
    models: Mapping[str, Profile] = field(default_factory=dict)
    """Models served besides, or in place of, those of the table."""
    announced_windows: Mapping[str, int] = field(default_factory=dict)
    """Windows that the list of models gives wrongly."""
    counter: Counter = field(default_factory=Counter)
    limits: Limits = Limits()
    chunk: int = 24
    """Characters of text in one event of a stream."""
    body_bytes: int = 32_000_000
    pinned_edits: bool = False
    """Switches on an extension no provider has: see `pinned`."""
    extra_blocks: frozenset[str] = frozenset()
    """Block types of a future API that are accepted as they are."""
    long_lifetime: bool = True
    """Whether the account may have things kept for an hour; if not, markers that ask for it are refused."""
    lifetimes_apart: bool = True
    """Whether an entry written for one lifetime is invisible to markers of the other."""
    log_bytes: int = 256_000_000
    """How many bytes of requests the log holds."""


class Simulator:
    """A simulated provider: setup, brain, clock, cache, faults, and the log of what came in."""

    def __init__(
        self,
        brain: Brain | None = None,
        setup: Setup | None = None,
        *,
        clock: Clock | None = None,
        faults: Faults | None = None,
        summarise: Summarise = simulated_summary,
    ) -> None:
        self.setup = setup or Setup()
        self.brain: Brain = brain or EchoBrain()
        self.clock: Clock = clock or RealClock()
        self.faults = faults or Faults()
        self.summarise = summarise
        self.scales = Scales(self.setup.counter)
        self.binder = Binder(Sealer(self.setup.secret), self.setup.organisation)
        self.cache = PromptCache(lifetimes_apart=self.setup.lifetimes_apart)
        self.prefixes = PrefixCache()
        self.diagnosis = Diagnosis()
        self.meter = RateMeter(self.setup.limits)
        self.requests = RequestLog(self.setup.log_bytes)
        self._ids = 0

    def profile(self, model: str) -> Profile | None:
        """The profile of a served model; None for a name that is not served."""
        if model in self.setup.models:
            return self.setup.models[model]
        found = profiles.find(model)
        return found if found.known or model in OTHER_MODELS else None

    def served(self) -> list[str]:
        """The names of all models on offer."""
        return list(dict.fromkeys([*self.setup.models, *profiles.names(), *OTHER_MODELS]))

    def new_id(self, prefix: str) -> str:
        """An id nobody else has, the same in every run."""
        self._ids += 1
        named = sha256(self.setup.secret + f"{prefix}{self._ids}".encode()).hexdigest()
        return f"{prefix}{named[:24]}"
