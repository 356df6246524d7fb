"""The moments at which hooks run: what each tells its hooks, and what those may do about it.

One frozen class for each event. Its fields are the JSON a command finds on its standard input, and what a
Python function gets as its argument. Its `rule` is what an answer can bring about there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

Blocking = Literal["none", "stop", "deny", "feedback"]
"""What comes of exit code 2 or a decision to block: nothing but a report; what was about to happen does not;
the tool call is denied; the reason is told to the model, because the tool has already run."""


class Rule(Struct, frozen=True):
    """What the hooks of one event may do."""

    matches: str = ""
    """The field a matcher is held against; empty: matchers are ignored and every hook runs."""
    blocking: Blocking = "none"
    context: bool = False
    """Whether `additionalContext` reaches the model…"""
    plain: bool = False
    """…and plain standard output too."""
    instructions: bool = False
    """Whether `additionalInstructions` steer what follows."""
    seconds: float = 600.0
    """How long a hook may take that does not say."""


class HookInput(Struct, frozen=True, kw_only=True, tag_field="hook_event_name", tag=True):
    """What every hook is told."""

    rule: ClassVar[Rule] = Rule()

    session_id: str
    transcript_path: str
    cwd: str
    permission_mode: str | UnsetType = UNSET
    prompt_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    """Set where a sub-agent is meant."""
    agent_type: str | UnsetType = UNSET

    @property
    def matched(self) -> str | None:
        """What a matcher is held against; None where there is nothing to match."""
        return str(getattr(self, self.rule.matches)) if self.rule.matches else None


class SessionStart(HookInput, frozen=True, kw_only=True):
    """A session begins or goes on."""

    rule = Rule(matches="source", context=True, plain=True)

    source: Literal["startup", "resume", "clear", "compact", "fork"]
    model: str | UnsetType = UNSET
    session_title: str | UnsetType = UNSET


class SessionEnd(HookInput, frozen=True, kw_only=True):
    """A session ends; nobody waits long for its hooks."""

    rule = Rule(matches="reason", seconds=1.5)

    reason: Literal["clear", "resume", "logout", "prompt_input_exit", "other"]


class UserPromptSubmit(HookInput, frozen=True, kw_only=True):
    """The user sent a message that the model has not seen yet."""

    rule = Rule(blocking="stop", context=True, plain=True, seconds=30.0)

    prompt: str


class PreToolUse(HookInput, frozen=True, kw_only=True):
    """A tool is about to run."""

    rule = Rule(matches="tool_name", blocking="deny", context=True)

    tool_name: str
    tool_input: Any
    tool_use_id: str


class PostToolUse(HookInput, frozen=True, kw_only=True):
    """A tool has run."""

    rule = Rule(matches="tool_name", blocking="feedback", context=True)

    tool_name: str
    tool_input: Any
    tool_use_id: str
    tool_response: Any
    duration_ms: int


class PermissionRequest(HookInput, frozen=True, kw_only=True):
    """The user is about to be asked whether a tool may run; a hook can answer for them."""

    rule = Rule(matches="tool_name", blocking="deny")

    tool_name: str
    tool_input: Any
    tool_use_id: str | UnsetType = UNSET


class PreCompact(HookInput, frozen=True, kw_only=True):
    """A compaction is about to begin."""

    rule = Rule(matches="trigger", blocking="stop", instructions=True)

    trigger: Literal["manual", "auto"]
    custom_instructions: str = ""
    """What the user asked of the summary; empty for an automatic compaction."""


class PostCompact(HookInput, frozen=True, kw_only=True):
    """A compaction is done."""

    rule = Rule(matches="trigger")

    trigger: Literal["manual", "auto"]
    compact_summary: str


class Stop(HookInput, frozen=True, kw_only=True):
    """The model considers itself finished; a hook that blocks lets it go on, with the reason."""

    rule = Rule(blocking="stop", context=True)

    stop_hook_active: bool
    """Whether it is only running still because such a hook blocked before."""
    last_assistant_message: str
    background_tasks: Sequence[Any] = ()
    session_crons: Sequence[Any] = ()


class SubagentStart(HookInput, frozen=True, kw_only=True):
    """A sub-agent begins."""

    rule = Rule(matches="agent_type", context=True)

    agent_id: str
    agent_type: str


class SubagentStop(HookInput, frozen=True, kw_only=True):
    """A sub-agent considers itself finished."""

    rule = Rule(matches="agent_type", blocking="stop", context=True)

    agent_id: str
    agent_type: str
    agent_transcript_path: str
    stop_hook_active: bool
    last_assistant_message: str
    background_tasks: Sequence[Any] = ()
    session_crons: Sequence[Any] = ()


class InstructionsLoaded(HookInput, frozen=True, kw_only=True):
    """An instruction file was read."""

    rule = Rule(matches="load_reason")

    file_path: str
    memory_type: str
    load_reason: Literal["session_start", "nested_traversal", "path_glob_match", "include", "compact"]
    globs: Sequence[str] | UnsetType = UNSET
    trigger_file_path: str | UnsetType = UNSET
    parent_file_path: str | UnsetType = UNSET


EVENTS: Mapping[str, type[HookInput]] = MappingProxyType(
    {
        event.__name__: event
        for event in (
            SessionStart,
            SessionEnd,
            UserPromptSubmit,
            PreToolUse,
            PostToolUse,
            PermissionRequest,
            PreCompact,
            PostCompact,
            Stop,
            SubagentStart,
            SubagentStop,
            InstructionsLoaded,
        )
    }
)
"""Every event by its name."""


def encoded(event: HookInput) -> bytes:
    """The event as a command reads it; raises RecursionError where values are nested without measure.

    Nearly everything can be written this way, halves of surrogate pairs included: an input that could not
    be would slip past the hooks that guard tools.
    """
    return json.dumps(msgspec.to_builtins(event, enc_hook=_plain, str_keys=True)).encode()


def _plain(value: Any) -> Any:
    return json.loads(bytes(value)) if isinstance(value, Raw) else str(value)
