"""Interprets the answers of hooks: exit code and output of each, by the rules of its event, then all of them combined.

Exit code 0 is success, 2 blocks with standard error as the reason, any other is a failure without effect. Standard
output is JSON if it begins with a brace. Plain text is used on success only: as context for the two events that accept
it, as instructions for the summary in PreCompact. An invalid field is reported; the others still count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from sevenfold.agent.programs import CommandResult
from sevenfold.conversation.hooks import HookFailure, HookInput, HookOutcome, HookPermission, HookVerdict

R = TypeVar("R")
MOST_CHARACTERS = 10_000
"""The longest text accepted from a hook for the model or the user, in characters."""

MOST_INSTRUCTIONS = 2_000
"""The longest instructions a hook may give for a summary, in characters."""

BLOCK = 2
"""The exit code that blocks."""

_STRICTEST_FIRST: tuple[HookVerdict, ...] = ("deny", "ask", "allow")


def read_answer(event: type[HookInput], hook: str, result: CommandResult) -> HookOutcome:
    """Interpret the answer of one hook of this event."""
    answer = HookOutcome(event=event.__name__, ran=(hook,))
    if result.code is None:
        problems = [_with_detail(result.problem, result.stderr)]
    else:
        reader = _Reader(event, result)
        answer = reader.read(answer)
        problems = reader.problems
        if result.code == BLOCK:
            reason = text_of(result.stderr) or reader.text(reader.fields, "reason") or f"blocked by {hook}"
            answer = reader.blocked(answer, reason)
        elif result.code != 0:
            problems.append(_with_detail(f"it failed with exit code {result.code}", result.stderr))
    return replace(answer, failures=tuple(HookFailure(hook, problem) for problem in problems))


def unread_answer(event: type[HookInput], hook: str, problem: str) -> HookOutcome:
    """The outcome for a hook that could not be given its input; denies what the hook might have guarded."""
    return HookOutcome(
        event=event.__name__,
        ran=(hook,),
        permission=HookPermission("deny", problem) if event.rule.blocking == "deny" else None,
        failures=(HookFailure(hook, problem),),
    )


def text_of(printed: bytes) -> str:
    """Output as text that can be stored and sent, cut to `MOST_CHARACTERS`, without surrounding whitespace."""
    return bounded(printed.decode(errors="replace")).strip()


def bounded(text: str, limit: int = MOST_CHARACTERS) -> str:
    """The text, cut to this many characters with a note if it is longer; NUL characters are replaced."""
    text = text.replace("\0", "\ufffd")
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: the first {limit:,} of {len(text):,} characters]"


class _Reader:
    """Interprets one hook's output and collects the problems found."""

    def __init__(self, event: type[HookInput], result: CommandResult) -> None:
        self.event, self.problems = event, list[str]()
        self.plain = ""
        self.fields: Mapping[str, Any] = {}
        if result.stdout.lstrip().startswith(b"{"):
            self.fields = self._json(result)
        elif event.rule.plain and result.code == 0:
            self.plain = text_of(result.stdout)
        self.specific = self._specific_fields()

    def read(self, answer: HookOutcome) -> HookOutcome:
        """The answer with everything except the effect of the exit code."""
        stops = self._of_type(self.fields.get("continue"), bool, "continue", "true or false") is False
        message = self.text(self.fields, "systemMessage")
        answer = replace(
            answer,
            instructions=self._instructions(),
            context=self._context(),
            updated_input=self._updated_input(),
            updated_output=self._updated_output(),
            messages=(message,) if message else (),
            stop=(self.text(self.fields, "stopReason") or "") if stops else None,
        )
        return self._decided(self._permitted(answer))

    def text(self, fields: Mapping[str, Any], name: str) -> str | None:
        """A text field; None if it is missing, empty or not text."""
        value = self._of_type(fields.get(name), str, name, "text")
        return bounded(value).strip() or None if value else None

    def _of_type(self, value: Any, kind: type[R], name: str, expected: str) -> R | None:
        """The value if it has this type; else None, with a problem noted unless the field is missing."""
        if isinstance(value, kind):
            return value
        if value is not None:
            self.problems.append(f"{name} should be {expected}, not {value!r:.60}")
        return None

    def _json(self, result: CommandResult) -> Mapping[str, Any]:
        if result.cut:
            self.problems.append(f"its JSON is too long: more than {len(result.stdout):,} bytes")
            return {}
        try:
            return _decoded(result.stdout)
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            self.problems.append(f"its output begins like JSON but is not valid ({error})")
            return {}

    def _specific_fields(self) -> Mapping[str, Any]:
        specific = self._of_type(
            self.fields.get("hookSpecificOutput"), dict, "hookSpecificOutput", "an object"
        )
        if specific is None:
            return {}
        name = specific.get("hookEventName", self.event.__name__)
        if name != self.event.__name__:
            self.problems.append(f"hookSpecificOutput is meant for {name!r:.60}, not {self.event.__name__}")
            return {}
        return specific

    def _if_effective(self, name: str, value: Any, counts: bool, missing: Any = None) -> Any:
        """The given value if it has an effect at this event; else ``missing``, with a problem noted."""
        if value is missing or counts:
            return value
        self.problems.append(f"{name} has no effect at {self.event.__name__}")
        return missing

    def _context(self) -> tuple[str, ...]:
        name = "additionalContext"
        counts = self.event.rule.context
        added = self._if_effective(name, self.text(self.specific, name), counts)
        return tuple(filter(None, (self.plain if counts else "", added)))

    def _instructions(self) -> tuple[str, ...]:
        name = "additionalInstructions"
        counts = self.event.rule.instructions
        instructions = self.text(self.specific, name) or self.text(self.fields, name)
        effective = self._if_effective(name, instructions, counts) or (self.plain if counts else "")
        return (bounded(effective, MOST_INSTRUCTIONS),) if effective else ()

    def _updated_input(self) -> Mapping[str, Any] | None:
        name = "updatedInput"
        counts = self.event.rule.blocking == "deny"
        value = self._permission().get(name, self.specific.get(name))
        return self._of_type(self._if_effective(name, value, counts), dict, name, "an object")

    def _updated_output(self) -> Any | UnsetType:
        name = "updatedToolOutput"
        counts = self.event.rule.blocking == "feedback"
        return self._if_effective(name, self.specific.get(name, UNSET), counts, UNSET)

    def _permission(self) -> Mapping[str, Any]:
        """The decision of a PermissionRequest hook, which is an object; empty if there is none."""
        decision = self.specific.get("decision")
        return decision if isinstance(decision, Mapping) else {}

    def _permitted(self, answer: HookOutcome) -> HookOutcome:
        decision = self._permission()
        verdict = decision.get("behavior", self.specific.get("permissionDecision"))
        reason = (
            self.text(decision, "message") or self.text(self.specific, "permissionDecisionReason") or ""
        )
        if verdict in (None, "defer"):
            return answer
        if verdict in ("allow", "ask", "deny") and self.event.rule.blocking == "deny":
            return replace(answer, permission=HookPermission(verdict, reason))
        self.problems.append(f"{verdict!r:.60} is not a permission decision at {self.event.__name__}")
        return answer

    def _decided(self, answer: HookOutcome) -> HookOutcome:
        decision = self.fields.get("decision")
        if decision == "block":
            return self.blocked(answer, self.text(self.fields, "reason") or f"blocked by {answer.ran[0]}")
        if decision == "approve" and self.event.rule.blocking == "deny" and answer.permission is None:
            reason = self.text(self.fields, "reason") or ""
            return replace(answer, permission=HookPermission("allow", reason))
        if decision not in (None, "approve"):
            self.problems.append(f'{decision!r:.60} is not a decision; there is only "block"')
        return answer

    def blocked(self, answer: HookOutcome, reason: str) -> HookOutcome:
        """The answer with the effect that blocking has at this event."""
        match self.event.rule.blocking:
            case "stop":
                return replace(answer, blocked=reason)
            case "deny":
                return replace(answer, permission=HookPermission("deny", reason))
            case "feedback":
                return replace(answer, context=(*answer.context, reason))
            case "none":
                self.problems.append(f"{answer.event} cannot be blocked; it wanted to because: {reason}")
                return answer


def _decoded(printed: bytes) -> Mapping[str, Any]:
    """Decode a JSON object leniently: strings may contain newlines, invalid bytes and lone surrogates.

    A hook that quotes what it refuses must be understood, whatever it quotes.
    """
    try:
        fields: dict[str, Any] = msgspec.json.decode(printed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        lenient = json.dumps(json.loads(printed.decode(errors="replace"), strict=False), ensure_ascii=False)
        fields = msgspec.json.decode(lenient.encode(errors="replace"))
    return fields


def _with_detail(problem: str, stderr: bytes) -> str:
    detail = text_of(stderr)
    return f"{problem}: {detail}" if detail else problem


def combine(event: str, answers: Sequence[HookOutcome], earlier: Sequence[HookFailure] = ()) -> HookOutcome:
    """Combine the answers of all hooks; ``earlier`` are failures of background hooks that ended meanwhile."""
    permission = _permission(answers)
    denied = permission is not None and permission.verdict == "deny"
    reasons = [answer.blocked for answer in answers if answer.blocked]
    if permission and denied:
        reasons.append(permission.reason or "denied by a hook")
    inputs = [answer for answer in answers if answer.updated_input is not None]
    outputs = [answer for answer in answers if answer.updated_output is not UNSET]
    failures = [
        *earlier,
        *chain.from_iterable(answer.failures for answer in answers),
        *_clash(inputs, "the input"),
        *_clash(outputs, "the output"),
    ]
    stops = [answer.stop for answer in answers if answer.stop is not None]
    return HookOutcome(
        event=event,
        ran=tuple(chain.from_iterable(answer.ran for answer in answers)),
        blocked="\n".join(reasons) or None,
        instructions=tuple(chain.from_iterable(answer.instructions for answer in answers)),
        context=tuple(chain.from_iterable(answer.context for answer in answers)),
        permission=permission,
        updated_input=inputs[-1].updated_input if inputs and not denied else None,
        updated_output=outputs[-1].updated_output if outputs else UNSET,
        messages=tuple(chain.from_iterable(answer.messages for answer in answers)),
        stop="\n".join(filter(None, stops)) if stops else None,
        failures=tuple(failures),
    )


def _permission(answers: Sequence[HookOutcome]) -> HookPermission | None:
    permissions = [answer.permission for answer in answers if answer.permission is not None]
    for verdict in _STRICTEST_FIRST:
        reasons = [permission.reason for permission in permissions if permission.verdict == verdict]
        if reasons:
            return HookPermission(verdict, "\n".join(filter(None, reasons)))
    return None


def _clash(changing: Sequence[HookOutcome], changed: str) -> list[HookFailure]:
    *overruled, last = [*chain.from_iterable(answer.ran for answer in changing)] or [""]
    problem = f"its change of {changed} was replaced by that of {last}"
    return [HookFailure(hook, problem) for hook in overruled]
