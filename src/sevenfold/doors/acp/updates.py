"""What an agent does, in the words of the Agent Client Protocol: messages, thoughts, tool calls, diffs and plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import acp
from acp import schema
from msgspec import Struct

from sevenfold.agent.agent_events import Finished
from sevenfold.agent.executor import Asked
from sevenfold.agent.loop import calls_of
from sevenfold.agent.tools.edit import replaced
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.archive.profile.labels import label_of
from sevenfold.conversation.request import ToolCall
from sevenfold.errors import Refused
from sevenfold.record import blocks
from sevenfold.record.authorship import UserPrompt, users_words
from sevenfold.record.blocks import ToolResult
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer

KINDS: Mapping[str, schema.ToolKind] = {
    "Read": "read",
    "Edit": "edit",
    "Write": "edit",
    "Grep": "search",
    "Glob": "search",
    "Recall": "search",
    "Shell": "execute",
    "ShellOutput": "execute",
    "ShellStop": "execute",
    "WebFetch": "fetch",
    "PlanStart": "switch_mode",
    "PlanReady": "switch_mode",
}
"""What kind of work each of our tools does; any other tool is of the kind ``other``."""
PLAN_READY = "PlanReady"
MODES: Mapping[str, tuple[str, str]] = {
    "ask": ("Ask", "Ask before changing files, running commands and opening addresses"),
    "accept_edits": ("Accept edits", "Change files in the folder without asking"),
    "plan": ("Plan", "Read and plan; change nothing"),
    "autonomous": ("Autonomous", "Work in the folder without asking"),
}
"""The permission modes with their names and descriptions."""
STOP_REASONS: Mapping[str, schema.StopReason] = {
    "done": "end_turn",
    "interrupted": "cancelled",
    "input_required": "end_turn",
    "max_turns": "max_turn_requests",
    "budget": "max_turn_requests",
    "refused": "refusal",
    "blocked": "refusal",
    "cut": "max_tokens",
}
LARGEST_DIFF = 2_000_000
"""Bytes of the largest file whose change is shown whole."""
LONGEST_RESULT = 20_000
"""Characters of a result that are shown."""

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.CurrentModeUpdate
)
PromptBlock = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class ShownChange(Struct, frozen=True):
    """What a call would change in a file."""

    path: str
    before: str | None
    """None for a file that does not exist."""
    after: str


def modes_of(current: str) -> schema.SessionModeState:
    """The modes an editor can choose from."""
    modes = [
        schema.SessionMode(id=mode, name=name, description=about) for mode, (name, about) in MODES.items()
    ]
    return schema.SessionModeState(current_mode_id=current, available_modes=modes)


# -- what the user says ----------------------------------------------------------------------


def prompt_of(content: Sequence[PromptBlock], folder: Path) -> UserPrompt:
    """A message of the user; what the editor attached counts as pasted, and files are mentioned as ``@path``."""
    typed: list[str] = []
    attached: list[str] = []
    for block in content:
        match block:
            case schema.TextContentBlock(text=text):
                typed.append(text)
            case schema.ResourceContentBlock(uri=uri):
                typed.append(_mention(uri, folder))
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as resource):
                attached.append(f"{resource.uri}:\n{_fenced(resource.text)}")
            case _:
                kind = block.type
                raise Refused(
                    f"content of the type {kind!r} is not accepted; the capabilities say which is"
                )
    message = "".join(typed)
    if not attached:
        return UserPrompt(message)
    return UserPrompt("\n\n".join([message, *attached]), "pasted", message)


def _mention(uri: str, folder: Path) -> str:
    if not uri.startswith("file://"):
        return uri
    from urllib.parse import unquote, urlsplit

    path = PurePath(unquote(urlsplit(uri).path))
    return f"@{path.relative_to(folder) if path.is_relative_to(folder) else path}"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"


# -- tool calls ------------------------------------------------------------------------------


def call_fields(call: ToolCall, folder: Path) -> dict[str, Any]:
    """What an editor shows of a call: title, kind, place, and the change it makes to a file."""
    label = label_of(call.name, call.input)
    change = change_of(call, folder)
    path = change.path if change else (str(folder / label.path) if label.path else "")
    title = f"{call.name} {_relative(label.what, folder)}".rstrip()
    return {
        "tool_call_id": call.id,
        "title": title,
        "kind": KINDS.get(call.name, "other"),
        "content": [acp.tool_diff_content(change.path, change.after, change.before)] if change else None,
        "locations": [schema.ToolCallLocation(path=path)] if path else None,
        "raw_input": call.input,
    }


def change_of(call: ToolCall, folder: Path) -> ShownChange | None:
    """What a call of Edit or Write would change; None for other calls, and for changes that would fail."""
    arguments = call.input if isinstance(call.input, dict) else {}
    if call.name not in ("Edit", "Write") or not isinstance(arguments.get("path"), str):
        return None
    path = folder / str(arguments["path"])
    try:
        content_before = _content(path)
        if call.name == "Write":
            text_after = str(arguments.get("content", ""))
        else:
            old_text = str(arguments.get("old", "")).encode(errors="replace")
            new_text = str(arguments.get("new", "")).encode(errors="replace")
            replace_all = bool(arguments.get("replace_all"))
            changed = replaced(
                content_before or b"", old_text, new_text, replace_all=replace_all, path=str(path)
            )
            text_after = changed.decode(errors="replace")
    except (OSError, Refused):
        return None
    text_before = None if content_before is None else content_before.decode(errors="replace")
    return ShownChange(str(path), text_before, text_after)


def _content(path: Path) -> bytes | None:
    if not path.exists():
        return None
    if not path.is_file() or path.stat().st_size > LARGEST_DIFF:
        raise Refused("its change is not shown")
    return path.read_bytes()


def _relative(text: str, folder: Path) -> str:
    path = PurePath(text)
    return str(path.relative_to(folder)) if text.startswith("/") and path.is_relative_to(folder) else text


def begun(call: ToolCall, folder: Path, status: schema.ToolCallStatus = "pending") -> schema.ToolCallStart:
    """A call that the editor has not seen yet."""
    return schema.ToolCallStart(session_update="tool_call", status=status, **call_fields(call, folder))


def ended(call: ToolCall, output: ToolOutput, change: ShownChange | None = None) -> schema.ToolCallProgress:
    """The end of a call: the change it made, or the text of its result."""
    if change is not None and not output.is_error:
        content: Any = acp.tool_diff_content(change.path, change.after, change.before)
    else:
        content = acp.tool_content(acp.text_block(output.text[:LONGEST_RESULT]))
    return acp.update_tool_call(
        call.id, status="failed" if output.is_error else "completed", content=[content]
    )


def plan_of(call: ToolCall) -> schema.AgentPlanUpdate | None:
    """The plan that a call of Todo sets; None for any other input."""
    todos = call.input.get("todos") if isinstance(call.input, dict) else None
    if not isinstance(todos, list):
        return None
    entries = [
        acp.plan_entry(str(todo.get("content", "")), status=todo.get("status", "pending"))
        for todo in todos
        if isinstance(todo, dict)
    ]
    return acp.update_plan(entries)


# -- permissions -----------------------------------------------------------------------------


def permission_options(question: Asked) -> list[schema.PermissionOption]:
    """What the user can answer: once, for the rest of the session, or no."""
    if question.call.name == PLAN_READY:
        return [
            _option("ask", "Carry it out, and ask before each change", "allow_once"),
            _option("accept_edits", "Carry it out, and change files here without asking", "allow_always"),
            _option("no", "Keep planning", "reject_once"),
        ]
    options = [_option("once", "Allow once", "allow_once")]
    if question.decision.would_allow:
        rules = ", ".join(question.decision.would_allow)
        options.append(_option("always", f"Allow in this session: {rules}", "allow_always"))
    return [*options, _option("no", "Do not allow", "reject_once")]


def _option(option: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
    return schema.PermissionOption(option_id=option, name=name, kind=kind)


def permission_call(question: Asked, folder: Path) -> schema.ToolCallUpdate:
    """The call that the user is asked about, with the reason for asking, or the plan to approve."""
    fields = call_fields(question.call, folder)
    text = question.decision.reason
    if question.call.name == PLAN_READY and isinstance(question.call.input, dict):
        text = str(question.call.input.get("plan", ""))
    if question.agent:
        text = f"Agent {question.agent}: {text}"
    content = [*(fields["content"] or []), acp.tool_content(acp.text_block(text))]
    return schema.ToolCallUpdate(status="pending", **{**fields, "content": content})


# -- a session that is loaded ----------------------------------------------------------------


def replayed(items: Sequence[Item], folder: Path) -> Iterator[Update]:
    """A recorded conversation, as it was shown when it took place."""
    waiting: dict[str, ToolCall] = {}
    for item in items:
        message = item.record
        if message.summary:
            continue
        if typed_text := users_words(message):
            yield acp.update_user_message_text(typed_text)
        for block in message.blocks:
            if message.role == "assistant" and block.kind == "text":
                yield acp.update_agent_message_text(blocks.words_of(block))
            elif block.kind == "tool_result" and block.id in waiting:
                body = block.body()
                failed = isinstance(body, ToolResult) and bool(body.is_error)
                call = waiting.pop(block.id)
                yield begun(call, folder)
                yield ended(call, ToolOutput(blocks.words_of(block), is_error=failed))
        if message.role == "assistant":
            waiting |= {call.id: call for call in calls_of(Answer("", "", message.blocks))}


def stop_reason(finished: Finished) -> schema.StopReason:
    """Why a run ended, in the protocol's words."""
    return STOP_REASONS[finished.end]
