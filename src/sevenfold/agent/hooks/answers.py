"""Reading what hooks answer: exit code and output of one hook, by the rules of its event, then of all hooks together.

Exit code 0 is success, 2 blocks with standard error as the reason, any other is a failure without effect. Standard
output is JSON if it begins with a brace. Plain text counts on success only: as context at the two events that take
it, as instructions for the summary at PreCompact. An invalid field is reported; the others still count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sevenfold.agent.programs import CommandResult
from sevenfold.conversation.hooks import HookFailure, HookInput, HookOutcome, HookPermission, HookVerdict

R = TypeVar("R")
MOST_CHARACTERS = 10_000
"""Longest text taken from a hook for the model or the user."""

MOST_INSTRUCTIONS = 2_000
"""Longest instructions a hook may give for a summary, in characters."""

BLOCK = 2
"""The exit code that blocks."""

_STRICTEST_FIRST: tuple[HookVerdict, ...] = ("deny", "ask", "allow")


class HookAnswer(Struct, frozen=True, kw_only=True):
    """One hook's answer."""

    hook: str
    blocked: str | None = None
    instructions: str | None = None
    context: tuple[str, ...] = ()
    verdict: HookVerdict | None = None
    reason: str = ""
    updated_input: Mapping[str, Any] | None = None
    updated_output: Any | UnsetType = UNSET
    message: str | None = None
    stop: str | None = None
    """Why the agent should stop, empty if no reason was given; None if it should not."""
    problems: tuple[str, ...] = ()


def read_answer(event: type[HookInput], hook: str, result: CommandResult) -> HookAnswer:
    """Read the answer of a hook of this event."""
    if result.code is None:
        return HookAnswer(hook=hook, problems=(_with_detail(result.problem, result.stderr),))
    reader = _Reader(event, result)
    answer = reader.answer(hook)
    if result.code == BLOCK:
        reason = text_of(result.stderr) or reader.text(reader.said, "reason") or f"blocked by {hook}"
        answer = _blocked(event, answer, reason, reader.problems)
    elif result.code != 0:
        reader.problems.append(_with_detail(f"it failed with exit code {result.code}", result.stderr))
    return msgspec.structs.replace(answer, problems=tuple(reader.problems))


def unread_answer(event: type[HookInput], hook: str, problem: str) -> HookAnswer:
    """The answer of a hook that could not be given its input; what it might guard is denied."""
    denied: HookVerdict | None = "deny" if event.rule.blocking == "deny" else None
    return HookAnswer(hook=hook, verdict=denied, reason=problem if denied else "", problems=(problem,))


def text_of(printed: bytes) -> str:
    """Output as text that can be stored and sent, cut to `MOST_CHARACTERS`."""
    return bounded(printed.decode(errors="replace")).strip()


def bounded(words: str, most: int = MOST_CHARACTERS) -> str:
    """The text, cut to this many characters with a note that says so."""
    words = words.replace("\0", "\ufffd")
    if len(words) <= most:
        return words
    return f"{words[:most]}\n[cut: the first {most:,} of {len(words):,} characters]"


class _Reader:
    """Reads one hook's output and collects its problems."""

    def __init__(self, event: type[HookInput], result: CommandResult) -> None:
        self.event, self.problems = event, list[str]()
        self.plain = ""
        self.said: Mapping[str, Any] = {}
        if result.stdout.lstrip().startswith(b"{"):
            self.said = self._json(result)
        elif event.rule.plain and result.code == 0:
            self.plain = text_of(result.stdout)
        self.specific = self._specific()

    def answer(self, hook: str) -> HookAnswer:
        """Everything but the effect of the exit code."""
        stops = self._flag("continue") is False
        answer = HookAnswer(
            hook=hook,
            instructions=self._instructions(),
            context=self._context(),
            updated_input=self._updated_input(),
            updated_output=self._updated_output(),
            message=self.text(self.said, "systemMessage"),
            stop=(self.text(self.said, "stopReason") or "") if stops else None,
        )
        return self._decided(self._permitted(answer))

    def text(self, fields: Mapping[str, Any], name: str) -> str | None:
        """A text field; None if it is missing, empty or not text."""
        value = self._typed(fields.get(name), str, name, "text")
        return bounded(value).strip() or None if value else None

    def _typed(self, value: Any, kind: type[R], name: str, what: str) -> R | None:
        """A field of this type; None if it is missing, or of another, which is a problem."""
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

    def _flag(self, name: str) -> bool | None:
        return self._typed(self.said.get(name), bool, name, "true or false")

    def _has_effect(self, name: str, effective: bool) -> bool:
        if not effective:
            self.problems.append(f"{name} has no effect at {self.event.__name__}")
        return effective

    def _context(self) -> tuple[str, ...]:
        given = self.text(self.specific, "additionalContext")
        if given and not self._has_effect("additionalContext", self.event.rule.context):
            given = None
        plain = self.plain if self.event.rule.context else ""
        return tuple(words for words in (plain, given) if words)

    def _instructions(self) -> str | None:
        name = "additionalInstructions"
        given = self.text(self.specific, name) or self.text(self.said, name)
        if given and not self._has_effect(name, self.event.rule.instructions):
            given = None
        if self.event.rule.instructions:
            given = given or self.plain
        return bounded(given, MOST_INSTRUCTIONS) if given else None

    def _updated_input(self) -> Mapping[str, Any] | None:
        given = self._permission().get("updatedInput", self.specific.get("updatedInput"))
        if given is None or not self._has_effect("updatedInput", self.event.rule.blocking == "deny"):
            return None
        return self._typed(given, dict, "updatedInput", "an object")

    def _updated_output(self) -> Any | UnsetType:
        given = self.specific.get("updatedToolOutput", UNSET)
        if given is UNSET or self._has_effect("updatedToolOutput", self.event.rule.blocking == "feedback"):
            return given
        return UNSET

    def _permission(self) -> Mapping[str, Any]:
        """The decision of a PermissionRequest hook, which is an object."""
        given = self.specific.get("decision")
        return given if isinstance(given, Mapping) else {}

    def _permitted(self, answer: HookAnswer) -> HookAnswer:
        asked = self._permission()
        given = asked.get("behavior", self.specific.get("permissionDecision"))
        reason = self.text(asked, "message") or self.text(self.specific, "permissionDecisionReason") or ""
        if given in (None, "defer"):
            return answer
        if given in ("allow", "ask", "deny") and self.event.rule.blocking == "deny":
            return msgspec.structs.replace(answer, verdict=given, reason=reason)
        self.problems.append(f"{given!r:.60} is not a permission decision at {self.event.__name__}")
        return answer

    def _decided(self, answer: HookAnswer) -> HookAnswer:
        given = self.said.get("decision")
        if given == "block":
            reason = self.text(self.said, "reason") or f"blocked by {answer.hook}"
            return _blocked(self.event, answer, reason, self.problems)
        if given == "approve" and self.event.rule.blocking == "deny" and answer.verdict is None:
            reason = self.text(self.said, "reason") or ""
            return msgspec.structs.replace(answer, verdict="allow", reason=reason)
        if given not in (None, "approve"):
            self.problems.append(f'{given!r:.60} is not a decision; there is only "block"')
        return answer


def _blocked(event: type[HookInput], answer: HookAnswer, reason: str, problems: list[str]) -> HookAnswer:
    """The answer with the effect blocking has at this event."""
    match event.rule.blocking:
        case "stop":
            return msgspec.structs.replace(answer, blocked=reason)
        case "deny":
            return msgspec.structs.replace(answer, verdict="deny", reason=reason)
        case "feedback":
            return msgspec.structs.replace(answer, context=(*answer.context, reason))
        case "none":
            problems.append(f"{event.__name__} cannot be blocked; it wanted to because: {reason}")
            return answer


def _decoded(printed: bytes) -> Mapping[str, Any]:
    """Decode a JSON object leniently: strings may contain line ends, invalid bytes and lone surrogates.

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


def combine(event: str, answers: Sequence[HookAnswer], earlier: Sequence[HookFailure] = ()) -> HookOutcome:
    """Combine all answers; ``earlier`` are failures of background hooks that ended meanwhile."""
    permission = _permission(answers)
    denied = permission is not None and permission.verdict == "deny"
    reasons = [answer.blocked for answer in answers if answer.blocked]
    if permission and denied:
        reasons.append(permission.reason or "denied by a hook")
    failures = [*earlier, *(HookFailure(one.hook, problem) for one in answers for problem in one.problems)]
    inputs = [one for one in answers if one.updated_input is not None]
    outputs = [one for one in answers if one.updated_output is not UNSET]
    failures += [*_clash(inputs, "the input"), *_clash(outputs, "the output")]
    stops = [one.stop for one in answers if one.stop is not None]
    return HookOutcome(
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


def _permission(answers: Sequence[HookAnswer]) -> HookPermission | None:
    for verdict in _STRICTEST_FIRST:
        agreeing = [one for one in answers if one.verdict == verdict]
        if agreeing:
            return HookPermission(verdict, "\n".join(one.reason for one in agreeing if one.reason))
    return None


def _clash(changing: Sequence[HookAnswer], what: str) -> list[HookFailure]:
    last = changing[-1].hook if changing else ""
    return [
        HookFailure(one.hook, f"its change of {what} was replaced by that of {last}")
        for one in changing[:-1]
    ]
