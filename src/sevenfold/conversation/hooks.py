"""The events at which hooks run: the input a hook receives at each, and the combined answer of an event's hooks.

One frozen class per event. Its fields are the JSON that a command reads from standard input, and its instance is the
argument of a Python hook; its `rule` says which answers have an effect there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

Blocking = Literal["none", "stop", "deny", "feedback"]
"""The effect of exit code 2 or of a decision to block. ``none``: it is only reported. ``stop``: the pending action does
not happen. ``deny``: the tool call is denied. ``feedback``: the tool has already run, so the model reads the reason."""


class HookRule(Struct, frozen=True):
    """The effects that answers of an event's hooks can have."""

    matches: str = ""
    """The field that matchers are compared with; if empty, every hook runs, whatever its matcher."""
    blocking: Blocking = "none"
    context: bool = False
    """Whether `additionalContext` reaches the model."""
    plain: bool = False
    """Whether plain standard output counts too: as context, or as instructions where those have an effect."""
    instructions: bool = False
    """Whether `additionalInstructions` steer the summary."""
    seconds: float = 600.0
    """The time limit of a hook that sets none."""


class HookInput(Struct, frozen=True, kw_only=True, tag_field="hook_event_name", tag=True):
    """The input that every hook receives."""

    rule: ClassVar[HookRule] = HookRule()

    session_id: str
    transcript_path: str
    cwd: str
    permission_mode: str | UnsetType = UNSET
    prompt_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    """Set if the event is about a sub-agent."""
    agent_type: str | UnsetType = UNSET

    @property
    def matched(self) -> str | None:
        """The value matchers are compared with; None if every hook of the event runs."""
        return str(getattr(self, self.rule.matches)) if self.rule.matches else None


class SessionStart(HookInput, frozen=True, kw_only=True):
    """A session starts or resumes, or continues after a clear, a compaction or a fork."""

    rule = HookRule(matches="source", context=True, plain=True)

    source: Literal["startup", "resume", "clear", "compact", "fork"]
    model: str | UnsetType = UNSET
    session_title: str | UnsetType = UNSET


class SessionEnd(HookInput, frozen=True, kw_only=True):
    """A session ends; its hooks get little time."""

    rule = HookRule(matches="reason", seconds=1.5)

    reason: Literal["clear", "resume", "logout", "prompt_input_exit", "other"]


class UserPromptSubmit(HookInput, frozen=True, kw_only=True):
    """The user sent a message; the model has not seen it yet."""

    rule = HookRule(blocking="stop", context=True, plain=True, seconds=30.0)

    prompt: str


class PreToolUse(HookInput, frozen=True, kw_only=True):
    """A tool is about to run."""

    rule = HookRule(matches="tool_name", blocking="deny", context=True)

    tool_name: str
    tool_input: Any
    tool_use_id: str


class PostToolUse(HookInput, frozen=True, kw_only=True):
    """A tool has run."""

    rule = HookRule(matches="tool_name", blocking="feedback", context=True)

    tool_name: str
    tool_input: Any
    tool_use_id: str
    tool_response: Any
    duration_ms: int


class PermissionRequest(HookInput, frozen=True, kw_only=True):
    """The user is about to be asked whether a tool may run; a hook can answer for them."""

    rule = HookRule(matches="tool_name", blocking="deny")

    tool_name: str
    tool_input: Any
    tool_use_id: str | UnsetType = UNSET


class PreCompact(HookInput, frozen=True, kw_only=True):
    """A compaction is about to start."""

    rule = HookRule(matches="trigger", blocking="stop", plain=True, instructions=True)

    trigger: Literal["manual", "auto"]
    custom_instructions: str = ""
    """The user's instructions for the summary; empty for an automatic compaction."""


class PostCompact(HookInput, frozen=True, kw_only=True):
    """A compaction is done."""

    rule = HookRule(matches="trigger")

    trigger: Literal["manual", "auto"]
    compact_summary: str


class Stop(HookInput, frozen=True, kw_only=True):
    """The model considers itself finished; a hook that blocks makes it continue, with the reason."""

    rule = HookRule(blocking="stop", context=True)

    stop_hook_active: bool
    """Whether the agent is still running only because such a hook blocked before."""
    last_assistant_message: str
    background_tasks: Sequence[Any] = ()
    session_crons: Sequence[Any] = ()


class SubagentStart(HookInput, frozen=True, kw_only=True):
    """A sub-agent starts."""

    rule = HookRule(matches="agent_type", context=True)

    agent_id: str
    agent_type: str


class SubagentStop(HookInput, frozen=True, kw_only=True):
    """A sub-agent considers itself finished."""

    rule = HookRule(matches="agent_type", blocking="stop", context=True)

    agent_id: str
    agent_type: str
    agent_transcript_path: str
    stop_hook_active: bool
    last_assistant_message: str
    background_tasks: Sequence[Any] = ()
    session_crons: Sequence[Any] = ()


class InstructionsLoaded(HookInput, frozen=True, kw_only=True):
    """An instruction file was read."""

    rule = HookRule(matches="load_reason")

    file_path: str
    memory_type: str
    load_reason: Literal["session_start", "nested_traversal", "path_glob_match", "include", "compact"]
    globs: Sequence[str] | UnsetType = UNSET
    trigger_file_path: str | UnsetType = UNSET
    parent_file_path: str | UnsetType = UNSET


EVENTS: Mapping[str, type[HookInput]] = MappingProxyType(
    {event.__name__: event for event in HookInput.__subclasses__()}
)
"""All events by name."""


def encoded(event: HookInput) -> bytes:
    """The event as JSON for a command; raises RecursionError if a value is nested too deeply.

    Nearly everything can be encoded, lone surrogates included: an input that could not be encoded would slip past the
    hooks that guard tools.
    """
    return json.dumps(msgspec.to_builtins(event, enc_hook=_plain, str_keys=True)).encode()


def _plain(value: Any) -> Any:
    return json.loads(bytes(value)) if isinstance(value, Raw) else str(value)


HookVerdict = Literal["allow", "ask", "deny"]
"""Whether a tool may run, from the most lenient to the strictest."""


class HookFailure(Struct, frozen=True):
    """A hook that failed; the turn continues without it."""

    hook: str
    problem: str


class HookPermission(Struct, frozen=True):
    """The hooks' decision about a tool call."""

    verdict: HookVerdict
    reason: str = ""


class HookOutcome(Struct, frozen=True, kw_only=True):
    """The combined answer of all hooks of an event."""

    event: str
    ran: tuple[str, ...] = ()
    """Labels of the hooks that ran, in order."""
    blocked: str | None = None
    """Why the prompt, the tool call, the compaction or the stop must not happen; None if it may."""
    instructions: tuple[str, ...] = ()
    """Instructions for the summary of a compaction."""
    context: tuple[str, ...] = ()
    """Texts for the model."""
    permission: HookPermission | None = None
    updated_input: Mapping[str, Any] | None = None
    """The input that replaces the tool's input."""
    updated_output: Any | UnsetType = UNSET
    """The output that the model should see instead of the tool's."""
    messages: tuple[str, ...] = ()
    """Texts to show the user."""
    stop: str | None = None
    """Why the agent should stop altogether (may be empty); None if it should not."""
    failures: tuple[HookFailure, ...] = ()
