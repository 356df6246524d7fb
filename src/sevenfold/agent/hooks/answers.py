"""Interprets the answers of hooks: exit code and output of each, by the rules of its event, then all of them combined.

Exit code 0 is success, 2 blocks with standard error as the reason, any other is a failure without effect. Standard
output is JSON if it begins with a brace. Plain text is used on success only: as context for the two events that accept
it, as instructions for the summary in PreCompact. An invalid field is reported; the others still count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
            reason = text_of(result.stderr) or reader.text(reader.said, "reason") or f"blocked by {hook}"
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


def bounded(words: str, most: int = MOST_CHARACTERS) -> str:
    """The text, cut to this many characters with a note if it is longer; NUL characters are replaced."""
    words = words.replace("\0", "\ufffd")
    if len(words) <= most:
        return words
    return f"{words[:most]}\n[cut: the first {most:,} of {len(words):,} characters]"


class _Reader:
    """Interprets one hook's output and collects the problems found."""

    def __init__(self, event: type[HookInput], result: CommandResult) -> None:
        self.event, self.problems = event, list[str]()
        self.plain = ""
        self.said: Mapping[str, Any] = {}
        if result.stdout.lstrip().startswith(b"{"):
            self.said = self._json(result)
        elif event.rule.plain and result.code == 0:
            self.plain = text_of(result.stdout)
        self.specific = self._specific()

    def read(self, answer: HookOutcome) -> HookOutcome:
        """The answer with everything except the effect of the exit code."""
        stops = self._typed(self.said.get("continue"), bool, "continue", "true or false") is False
        message = self.text(self.said, "systemMessage")
        answer = replace(
            answer,
            instructions=self._instructions(),
            context=self._context(),
            updated_input=self._updated_input(),
            updated_output=self._updated_output(),
            messages=(message,) if message else (),
            stop=(self.text(self.said, "stopReason") or "") if stops else None,
        )
        return self._decided(self._permitted(answer))

    def text(self, fields: Mapping[str, Any], name: str) -> str | None:
        """A text field; None if it is missing, empty or not text."""
        value = self._typed(fields.get(name), str, name, "text")
        return bounded(value).strip() or None if value else None

    def _typed(self, value: Any, kind: type[R], name: str, what: str) -> R | None:
        """The value if it has this type; else None, with a problem noted unless the field is missing."""
        if isinstance(value, kind):
            return value
        if value is not None:
            self.problems.append(f"{name} should be {what}, not {value!r:.60}")
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

    def _specific(self) -> Mapping[str, Any]:
        given = self._typed(self.said.get("hookSpecificOutput"), dict, "hookSpecificOutput", "an object")
        if given is None:
            return {}
        name = given.get("hookEventName", self.event.__name__)
        if name != self.event.__name__:
            self.problems.append(f"hookSpecificOutput is meant for {name!r:.60}, not {self.event.__name__}")
            return {}
        return given

    def _effective(self, name: str, given: Any, counts: bool, missing: Any = None) -> Any:
        """The given value if it has an effect at this event; else ``missing``, with a problem noted."""
        if given is missing or counts:
            return given
        self.problems.append(f"{name} has no effect at {self.event.__name__}")
        return missing

    def _context(self) -> tuple[str, ...]:
        name = "additionalContext"
        counts = self.event.rule.context
        given = self._effective(name, self.text(self.specific, name), counts)
        return tuple(filter(None, (self.plain if counts else "", given)))

    def _instructions(self) -> tuple[str, ...]:
        name = "additionalInstructions"
        counts = self.event.rule.instructions
        given = self.text(self.specific, name) or self.text(self.said, name)
        words = self._effective(name, given, counts) or (self.plain if counts else "")
        return (bounded(words, MOST_INSTRUCTIONS),) if words else ()

    def _updated_input(self) -> Mapping[str, Any] | None:
        name = "updatedInput"
        counts = self.event.rule.blocking == "deny"
        given = self._permission().get(name, self.specific.get(name))
        return self._typed(self._effective(name, given, counts), dict, name, "an object")

    def _updated_output(self) -> Any | UnsetType:
        name = "updatedToolOutput"
        counts = self.event.rule.blocking == "feedback"
        return self._effective(name, self.specific.get(name, UNSET), counts, UNSET)

    def _permission(self) -> Mapping[str, Any]:
        """The decision of a PermissionRequest hook, which is an object; empty if there is none."""
        given = self.specific.get("decision")
        return given if isinstance(given, Mapping) else {}

    def _permitted(self, answer: HookOutcome) -> HookOutcome:
        asked = self._permission()
        given = asked.get("behavior", self.specific.get("permissionDecision"))
        reason = self.text(asked, "message") or self.text(self.specific, "permissionDecisionReason") or ""
        if given in (None, "defer"):
            return answer
        if given in ("allow", "ask", "deny") and self.event.rule.blocking == "deny":
            return replace(answer, permission=HookPermission(given, reason))
        self.problems.append(f"{given!r:.60} is not a permission decision at {self.event.__name__}")
        return answer

    def _decided(self, answer: HookOutcome) -> HookOutcome:
        given = self.said.get("decision")
        if given == "block":
            return self.blocked(answer, self.text(self.said, "reason") or f"blocked by {answer.ran[0]}")
        if given == "approve" and self.event.rule.blocking == "deny" and answer.permission is None:
            reason = self.text(self.said, "reason") or ""
            return replace(answer, permission=HookPermission("allow", reason))
        if given not in (None, "approve"):
            self.problems.append(f'{given!r:.60} is not a decision; there is only "block"')
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
        said: dict[str, Any] = msgspec.json.decode(printed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        lenient = json.dumps(json.loads(printed.decode(errors="replace"), strict=False), ensure_ascii=False)
        said = msgspec.json.decode(lenient.encode(errors="replace"))
    return said


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
    failures = [*earlier, *(failure for one in answers for failure in one.failures)]
    inputs = [one for one in answers if one.updated_input is not None]
    outputs = [one for one in answers if one.updated_output is not UNSET]
    failures += [*_clash(inputs, "the input"), *_clash(outputs, "the output")]
    stops = [one.stop for one in answers if one.stop is not None]
    return HookOutcome(
        event=event,
        ran=tuple(hook for one in answers for hook in one.ran),
        blocked="\n".join(reasons) or None,
        instructions=tuple(words for one in answers for words in one.instructions),
        context=tuple(words for one in answers for words in one.context),
        permission=permission,
        updated_input=inputs[-1].updated_input if inputs and not denied else None,
        updated_output=outputs[-1].updated_output if outputs else UNSET,
        messages=tuple(words for one in answers for words in one.messages),
        stop="\n".join(filter(None, stops)) if stops else None,
        failures=tuple(failures),
    )


def _permission(answers: Sequence[HookOutcome]) -> HookPermission | None:
    given = [one.permission for one in answers if one.permission is not None]
    for verdict in _STRICTEST_FIRST:
        if agreeing := [one.reason for one in given if one.verdict == verdict]:
            return HookPermission(verdict, "\n".join(filter(None, agreeing)))
    return None


def _clash(changing: Sequence[HookOutcome], what: str) -> list[HookFailure]:
    *replaced, last = [hook for one in changing for hook in one.ran] or [""]
    return [HookFailure(one, f"its change of {what} was replaced by that of {last}") for one in replaced]
