"""Mending single blocks: empty words, blocks said by the wrong role, fields that are not allowed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sevenfold.record.rules.base import Json, blocks_of, kind_of, wrong_role
from sevenfold.record.rules.cache import LIFETIMES, UNMARKABLE

Mend = tuple[int, str]
"""The index of a block and what was done to it."""


def clean_blocks(message: Json, orphan: str) -> tuple[list[Json], list[Mend]]:
    """The blocks of a message that may stay, mended, and what was done; ``orphan`` replaces lost words."""
    role = str(message.get("role"))
    passing = message.get("clear_at") == "next_user_message"
    kept: list[Json] = []
    done: list[Mend] = []
    blocks = blocks_of(message)
    blank = _only_blanks(blocks)
    for index, block in enumerate(blocks):
        text = block.get("text")
        if kind_of(block) == "text" and (text == "" or (blank and not str(text).strip())):
            done.append((index, "text without words dropped"))
        elif wrong_role(kind_of(block), role):
            done.append((index, f"{kind_of(block)} said by {role} taken out"))
            if kind_of(block) == "tool_result":
                kept.append({"type": "text", "text": words_of(block) or orphan})
        else:
            mended, what = _clean_fields(block, role, passing)
            kept.append(mended)
            done += [(index, what)] if what else []
    return kept, done


def words_of(block: Json) -> str:
    """The plain words of a tool result; empty when it has none worth sending."""
    content = block.get("content")
    if isinstance(content, list):
        content = "\n".join(str(inner.get("text", "")) for inner in content if isinstance(inner, dict))
    return content if isinstance(content, str) and content.strip() else ""


def _only_blanks(blocks: Sequence[Json]) -> bool:
    texts = [str(block.get("text", "")) for block in blocks if kind_of(block) == "text"]
    return bool(texts) and not any(text.strip() for text in texts)


def _clean_fields(block: Json, role: str, passing: bool) -> tuple[Json, str]:
    fields: dict[str, Any] = dict(block)
    what = []
    if "cache_control" in fields and (passing or not _marker_fits(block)):
        del fields["cache_control"]
        what.append("cache marker taken off")
    if role == "user" and kind_of(block) == "text" and fields.get("citations"):
        del fields["citations"]
        what.append("citations taken off")
    content = fields.get("content")
    if kind_of(block) == "tool_result" and isinstance(content, list):
        full = [inner for inner in content if not (isinstance(inner, dict) and inner.get("text") == "")]
        if len(full) < len(content):
            fields["content"] = full
            what.append("empty text taken out of the result")
    return (fields, ", ".join(what)) if what else (block, "")


def _marker_fits(block: Json) -> bool:
    control = block.get("cache_control")
    if control is None:
        return True
    well_formed = isinstance(control, dict) and control.get("type") == "ephemeral"
    return well_formed and kind_of(block) not in UNMARKABLE and control.get("ttl") in (None, *LIFETIMES)
