"""Reads a model's answer to the request for a summary: a draft, or the reason why there is none.

The analysis that the instruction asks for is removed, the tags around the summary become a heading, and runs of empty
lines shrink to one. An answer that calls a tool, was cut off, reports an error, refuses or is empty is a failure, never
a summary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from sevenfold.layers.compact.extract import outline
from sevenfold.layers.compact.extract.patterns import pattern
from sevenfold.record.blocks import Block, Compaction, Text

Reason = Literal["prompt_too_long", "no_summary", "api_error"]

_HEADING = "Summary:"
_SHORT = 1_000
_ANALYSIS = re.compile(r"<analysis>.*?</analysis>", re.DOTALL | re.IGNORECASE)
_OPEN_ANALYSIS = re.compile(r"<analysis>.*?(?=<summary>|\Z)", re.DOTALL | re.IGNORECASE)
_SUMMARY = re.compile(r"<summary>(.*)</summary>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?summary>", re.IGNORECASE)
_LASTING = re.compile(r"<lasting>(.*?)(?:</lasting>|\Z)", re.DOTALL | re.IGNORECASE)
_EMPTY_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")
_CUT = frozenset({"max_tokens", "length", "model_context_window_exceeded"})


class Draft(Struct, frozen=True):
    """The cleaned text of a model's summary, and the text of each of its nine sections."""

    text: str
    sections: Mapping[int, str]
    lasting: tuple[str, ...] = ()
    """The lines in which the model named what lasts of the user's messages, unchecked."""
    names: bool = False
    """Whether the answer has a section for those lines, even an empty one."""


class Failure(Struct, frozen=True):
    """Why there is no summary: a name for the reason, and a sentence."""

    reason: Reason
    detail: str


def read_draft(answer: Sequence[Block] | str, stop_reason: str | None = None) -> Draft | Failure:
    """Read the draft in an answer, given as blocks or as plain text."""
    if isinstance(answer, str):
        whole = answer
    elif any(block.kind in ("tool_use", "server_tool_use") for block in answer):
        return Failure("no_summary", "the model called a tool instead of writing a summary")
    else:
        whole = "\n".join(filter(None, map(words_of, answer)))
    if len(whole) < _SHORT and pattern("error_text").match(whole):
        line = " ".join(whole.split())[:200]
        if pattern("too_long").search(whole):
            return Failure("prompt_too_long", f"the answer says the request was too long: {line}")
        return Failure("api_error", f"the answer is an error text: {line}")
    if stop_reason in _CUT and "</summary>" not in whole.lower():
        too_long = stop_reason == "model_context_window_exceeded"
        cut_off = f"the answer was cut off ({stop_reason}) before the summary was complete"
        return Failure("prompt_too_long" if too_long else "no_summary", cut_off)
    text = _clean(whole)
    if not text:
        empty = f"is empty (stop reason {stop_reason or 'unknown'})"
        is_none = "holds an analysis and no summary" if whole.strip() else empty
        return Failure("no_summary", f"the answer {is_none}")
    sections = _sections(text)
    refused = stop_reason == "refusal" or (sections.keys() <= {1} and pattern("refusal").match(text))
    if refused and not _SUMMARY.search(whole):
        return Failure("no_summary", f"the model refused: {' '.join(text.split())[:200]}")
    named = lines_that_name(whole)
    return Draft(f"{_HEADING}\n{text}", sections, named or (), names=named is not None)


def words_of(block: Block) -> str:
    """The text of a text block or of a provider's readable compaction block; empty for any other."""
    match block.body():
        case Text(text=text):
            return text
        case Compaction(content=str() as text):
            return text
        case _:
            return ""


def _clean(whole: str) -> str:
    bare = _LASTING.sub("", _OPEN_ANALYSIS.sub("", _ANALYSIS.sub("", whole)))
    inside = _SUMMARY.search(bare)
    text = _TAG.sub("", inside[1] if inside else bare)
    return _EMPTY_LINES.sub("\n\n", text).strip()


def lines_that_name(whole: str) -> tuple[str, ...] | None:
    """The lines of an answer that name what lasts; the analysis may have tried some. None if no section is for them."""
    bare = _OPEN_ANALYSIS.sub("", _ANALYSIS.sub("", whole))
    sections = _LASTING.findall(bare)
    if not sections:
        return None
    lines = "\n".join(sections).splitlines()
    return tuple(filter(None, map(str.strip, lines)))


def _sections(text: str) -> Mapping[int, str]:
    """Split a text at its headings; text before the first heading goes into section 1."""
    sections = outline.split(text)
    opening = sections.pop(0, "")
    if opening and opening.rstrip(":# ").lower() != "summary":
        sections[1] = "\n\n".join(filter(None, (opening, sections.get(1, ""))))
    return sections
