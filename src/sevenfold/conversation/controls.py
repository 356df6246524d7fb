"""What a user may choose about a model's answers: how long they may be, the effort, and whether it thinks.

Each model takes other values, and its profile says which. A value that a model does not take is an error, which names
those it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sevenfold.errors import InputError
from sevenfold.profiles import Profile
from sevenfold.record.window import Window

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every effort there is, from the least to the most."""
THINKING = ("shown", "hidden", "off")
"""What can be chosen about thinking: it thinks and shows a summary, it thinks unseen, it thinks as little as it can."""
ThinkingChoice = Literal["shown", "hidden", "off"]
LEAST_BUDGET = 1_024
MOST_BUDGET = 16_000
"""Limits on the tokens of thinking, for models whose thinking needs a budget."""


def answer_limit(profile: Profile, window: Window) -> int:
    """The default for the most tokens of an answer: the model's own maximum, if the window leaves room for it.

    A server that refuses a request whose prompt and answer together might exceed the window gets what is always left
    over: the room that is reserved for a summary.
    """
    if profile.output_may_overrun:
        return profile.max_output
    return max(1, min(profile.max_output, window.reserve))


def control_fields(
    profile: Profile, effort: str | None, thinking: str | None, max_tokens: int
) -> dict[str, Any]:
    """The request fields for an effort and a choice about thinking; raises `InputError` if the model takes it not."""
    fields: dict[str, Any] = {}
    if effort is not None:
        check_effort(profile, effort)
        fields["output_config"] = {"effort": effort}
    if thinking is not None:
        fields["thinking"] = _thinking_field(profile, effort, thinking, max_tokens)
    return fields


def efforts_of(profile: Profile) -> tuple[str, ...]:
    """The efforts a model takes; every one there is for an unknown model, whose server will say."""
    return profile.efforts if profile.efforts or profile.known else EFFORTS


def thinking_of(profile: Profile) -> tuple[str, ...]:
    """What can be chosen about a model's thinking."""
    rules = profile.thinking
    choices = []
    if "adaptive" in rules.modes or "enabled" in rules.modes:
        choices.append("shown")
    if "adaptive" in rules.modes:
        choices.append("hidden")
    if rules.off is not None:
        choices.append("off")
    return tuple(choices)


def check_effort(profile: Profile, effort: str) -> None:
    """Raise `InputError` if the model does not take the effort."""
    allowed = efforts_of(profile)
    if effort not in allowed:
        takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
        raise InputError(f"effort is {effort!r}, which {profile.model} does not take; {takes}")


def _thinking_field(
    profile: Profile, effort: str | None, choice: str, max_tokens: int
) -> Mapping[str, Any]:
    allowed = thinking_of(profile)
    rules = profile.thinking
    if choice not in allowed:
        takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none: choose an effort instead"
        raise InputError(f"thinking is {choice!r}, which {profile.model} does not take; {takes}")
    if choice == "off":
        _check_off(profile, effort)
        return {"type": rules.off}
    if "adaptive" in rules.modes:
        return {"type": "adaptive", "display": "summarized" if choice == "shown" else "omitted"}
    budget = min(MOST_BUDGET, max_tokens // 2)
    if budget < LEAST_BUDGET:
        raise InputError(
            f"thinking of {profile.model} needs a budget of {LEAST_BUDGET:,} tokens, and max_tokens is {max_tokens:,}; "
            f"give at least {2 * LEAST_BUDGET:,}"
        )
    return {"type": "enabled", "budget_tokens": budget}


def _check_off(profile: Profile, effort: str | None) -> None:
    """Raise `InputError` for an effort at which the model cannot stop thinking."""
    limit = profile.thinking.disabled_up_to
    used = effort or profile.effort
    if limit is not None and used is not None and EFFORTS.index(used) > EFFORTS.index(limit):
        raise InputError(
            f"{profile.model} can stop thinking only at an effort of {limit} or less, and it is {used}; lower the "
            "effort first"
        )
