"""What all hooks of one event said together.

Answers are combined in the order in which the hooks were registered, whichever finished first, so that the
same answers always mean the same. The strictest verdict wins; reasons and texts add up; where two hooks both
change an input or an output, the later one wins and the clash is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from sevenfold.runtime.hooks.answers import Answer, Verdict

_STRICTEST_FIRST: tuple[Verdict, ...] = ("deny", "ask", "allow")


class Failure(Struct, frozen=True):
    """A hook that did not do what it should; the turn goes on without it."""

    hook: str
    problem: str


class Permission(Struct, frozen=True):
    """Whether hooks let a tool run."""

    verdict: Verdict
    reason: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """What comes of an event's hooks."""

    event: str
    ran: tuple[str, ...] = ()
    """The hooks that ran, by label, in order."""
    blocked: str | None = None
    """Why what was about to happen should not: the prompt, the tool call, the compaction, or stopping."""
    instructions: tuple[str, ...] = ()
    """For the summary of a compaction."""
    context: tuple[str, ...] = ()
    """For the model."""
    permission: Permission | None = None
    updated_input: Mapping[str, Any] | None = None
    """What the tool should be given instead."""
    updated_output: Any | UnsetType = UNSET
    """What the model should see as the tool's result instead."""
    messages: tuple[str, ...] = ()
    """To show the user."""
    stop: str | None = None
    """Why the agent should stop altogether; may be empty. None: it need not."""
    failures: tuple[Failure, ...] = ()


def combined(event: str, answers: Sequence[Answer], earlier: Sequence[Failure] = ()) -> Outcome:
    """All answers as one; ``earlier`` are failures of background hooks that have come to light since."""
    permission = _permission(answers)
    denied = permission is not None and permission.verdict == "deny"
    reasons = [answer.blocked for answer in answers if answer.blocked]
    if permission and denied:
        reasons.append(permission.reason or "denied by a hook")
    failures = [*earlier, *(Failure(one.hook, problem) for one in answers for problem in one.problems)]
    inputs = [one for one in answers if one.updated_input is not None]
    outputs = [one for one in answers if one.updated_output is not UNSET]
    failures += [*_clash(inputs, "the input"), *_clash(outputs, "the output")]
    stops = [one.stop for one in answers if one.stop is not None]
    return Outcome(
        event=event,
        ran=tuple(one.hook for one in answers),
        blocked="\n".join(reasons) or None,
        instructions=tuple(one.instructions for one in answers if one.instructions),
        context=tuple(words for one in answers for words in one.context),
        permission=permission,
        updated_input=inputs[-1].updated_input if inputs and not denied else None,
        updated_output=outputs[-1].updated_output if outputs else UNSET,
        messages=tuple(one.message for one in answers if one.message),
        stop="\n".join(filter(None, stops)) if stops else None,
        failures=tuple(failures),
    )


def _permission(answers: Sequence[Answer]) -> Permission | None:
    for verdict in _STRICTEST_FIRST:
        agreeing = [one for one in answers if one.verdict == verdict]
        if agreeing:
            return Permission(verdict, "\n".join(one.reason for one in agreeing if one.reason))
    return None


def _clash(changing: Sequence[Answer], what: str) -> list[Failure]:
    last = changing[-1].hook if changing else ""
    return [
        Failure(one.hook, f"its change of {what} was replaced by that of {last}") for one in changing[:-1]
    ]
