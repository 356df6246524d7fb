"""One session under one policy: what it would have cost, and what the model would know at its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from sevenfold.errors import InputError, SevenfoldError
from sevenfold.lab.replay import retention
from sevenfold.lab.replay.bill import ReplayBill
from sevenfold.lab.replay.engine import held
from sevenfold.lab.replay.figures import Replayed, ReplayFigures
from sevenfold.lab.replay.plain import PlainConversation
from sevenfold.lab.replay.policies import OURS, STANDARD, PlainPolicy, plain_policy
from sevenfold.lab.replay.provider import ReplayProvider, served
from sevenfold.lab.replay.recording import RecordedStep, Recording
from sevenfold.lab.replay.retention import Reachable
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.profiles import find
from sevenfold.settings import Settings, SettingsLayer, resolve
from sevenfold.stores.settings_files import read_values

USUAL_MODEL = "claude-sonnet-5-5"
"""The model for recordings whose own has no known price."""


class ReplayPolicy(Struct, frozen=True):
    """A policy by its name: another program's, or our own engine with some settings."""

    name: str
    settings: Settings | None = None
    """The settings of our own engine; None for another program's policy."""


def policy(name: str) -> ReplayPolicy:
    """The policy of this name: one of ours or of another program, or a file with settings for our engine.

    Raises `InputError` for any other name, and `SettingError` for a file that cannot be used.
    """
    if name == OURS:
        return ReplayPolicy(name, Settings())
    if plain_policy(name) is not None:
        return ReplayPolicy(name)
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        if not path.exists():
            raise InputError(f"{name}: there is no such settings file")
        values = read_values(path)
        return ReplayPolicy(name, resolve([SettingsLayer(f"file {name}", values)]).settings)
    raise InputError(
        f"there is no policy {name!r}; choose {', '.join(STANDARD)}, with other numbers if you like, "
        "or name a settings file (*.toml)"
    )


class Course(Protocol):
    """What holds a session: a list of messages with a policy, or our engine."""

    announced: bool
    """Whether what had been sent was changed on purpose since the last request."""
    compactions: int
    """How many summaries have replaced what they summarise."""

    def give(self, step: RecordedStep) -> None:
        """Add the input of a step."""

    def complete(self) -> None:
        """Send the next request and record its answer."""

    def reachable(self) -> Reachable:
        """Whether the model can look up a fact that left the context."""


class PlainCourse:
    """A list of messages that a policy shortens."""

    def __init__(self, recording: Recording, provider: ReplayProvider, policy: PlainPolicy) -> None:
        self.compactions = 0
        self._policy = policy
        self._plain = PlainConversation(recording, provider)

    @property
    def announced(self) -> bool:
        """Whether the policy changed what had been sent."""
        return self._plain.announced

    @announced.setter
    def announced(self, announced: bool) -> None:
        self._plain.announced = announced

    def give(self, step: RecordedStep) -> None:
        """Add the input of a step."""
        self._plain.give(step)

    def complete(self) -> None:
        """Let the policy act, then ask."""
        self.compactions += self._policy.before(self._plain)
        self._plain.complete()

    def reachable(self) -> Reachable:
        """What the policy leaves for the model to look up."""
        return self._policy.reachable


def replay(
    recording: Recording,
    policy: ReplayPolicy,
    *,
    file: str = "",
    model: str = "",
    window: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Replayed:
    """Replay a recorded session under a policy, with a model's prices and in its window, or in a smaller one.

    Without ``model``, it is the recording's own if its prices are known. ``progress`` is called with the share of the
    steps that are done.
    """
    provider = ReplayProvider(served(model or model_of(recording), window), recording)
    bill = ReplayBill(provider)
    with _course(recording, provider, policy) as course:
        failure = _follow(recording, provider, course, bill, progress)
        facts = retention.facts_of(recording, len(bill.contexts))
        facts_kept, rules_kept = retention.measure(facts, provider.shown, course.reachable())
        compactions = course.compactions
    prompt = bill.prompt_tokens
    figures = ReplayFigures(
        file=file or recording.name,
        policy=policy.name,
        cost_usd=None if failure else bill.cost,
        ideal_cost_usd=None if failure else bill.ideal_cost,
        cache_read_share=bill.read_tokens / prompt if prompt and not failure else None,
        unexpected_breaks=bill.breaks,
        peak_context_tokens=max(bill.contexts, default=0),
        compactions=compactions,
        foreground_waits=bill.foreground_waits,
        facts=facts_kept,
        rules=rules_kept,
    )
    return Replayed(
        figures=figures,
        model=provider.profile.model,
        window=provider.profile.window,
        requests=len(recording.steps),
        prompt_tokens=prompt,
        read_tokens=bill.read_tokens,
        stand_in=compactions > 0 and not recording.summaries,
        failure=failure,
        series=bill.series,
    )


def _follow(
    recording: Recording,
    provider: ReplayProvider,
    course: Course,
    bill: ReplayBill,
    progress: Callable[[float], None] | None,
) -> str:
    """Replay all steps; returns why that ended early, or an empty text."""
    steps = recording.steps
    for number, step in enumerate(steps):
        try:
            provider.begin(number, step)
            course.give(step)
            course.announced = False
            course.complete()
        except (ApiError, SevenfoldError) as error:
            return f"request {number + 1} of {len(steps)}: {' '.join(str(error).split())}"
        forgets = bool(step.user_content) and provider.forgets_thinking
        bill.answered(announced=course.announced or forgets, compactions=course.compactions)
        if progress is not None:
            progress((number + 1) / len(steps))
    return ""


def model_of(recording: Recording) -> str:
    """The model that a recording is replayed with if none is named: its own, or a usual one if that has no price."""
    return recording.model if find(recording.model or "unknown").prices else USUAL_MODEL


def _course(
    recording: Recording, provider: ReplayProvider, policy: ReplayPolicy
) -> AbstractContextManager[Course]:
    if policy.settings is not None:
        return held(recording, provider, policy.settings)
    plain = plain_policy(policy.name)
    assert plain is not None, policy.name
    return nullcontext(PlainCourse(recording, provider, plain))
