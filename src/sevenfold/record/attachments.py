"""What other tools' attachments say to the model.

Our own attachments are stored as the message they are sent as. Others store only the facts (a file that
changed, a reminder, a prompt typed while the agent was busy) and render them when they send; how, they
do not write down. So their text is put together here from the fields that carry it, the same way every
time: near enough to weigh and to read, and said to be a reconstruction wherever it is shown.
"""

from __future__ import annotations

from typing import Any

import msgspec

_NOT_SENT = frozenset(
    {"command_permissions", "hook_system_message", "hook_cancelled", "async_hook_response"}
)
_LABELS = ("filename", "path", "hookName", "newDate", "planFilePath", "condition")
_TEXTS = ("content", "snippet", "addedLines", "addedBlocks", "removedNames", "stderr", "files")
USERS_WORDS = "queued_command"


def read(raw: msgspec.Raw) -> tuple[str, str | None]:
    """The attachment's kind and the text it brings into the context, None when it brings nothing."""
    fields = msgspec.json.decode(raw)
    if not isinstance(fields, dict):
        return "unknown", None
    kind = str(fields.get("type") or "unknown")
    if kind == USERS_WORDS:
        return kind, _words(fields.get("prompt")) or None
    if kind in _NOT_SENT or (kind == "hook_success" and not fields.get("content")):
        return kind, None
    said = "\n".join(filter(None, (_words(fields.get(name)) for name in _TEXTS)))
    labels = " ".join(str(fields[name]) for name in _LABELS if isinstance(fields.get(name), str))
    if not said and not labels:
        return kind, None
    return kind, f"<reminder kind={kind!r}>\n{labels}\n{said}\n</reminder>"


def _words(value: Any) -> str:
    match value:
        case str():
            return value
        case list():
            return "\n".join(filter(None, map(_words, value)))
        case {"type": "text", "text": str() as said}:
            return said
        case {"file": dict() as file}:
            return _words(file.get("content"))
        case {"content": inner}:
            return _words(inner)
        case dict():
            return msgspec.json.encode(value).decode()
        case _:
            return ""
