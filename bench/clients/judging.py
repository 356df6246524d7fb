"""What captured requests of a program show about the conversation that was kept for it.

Only what the provider got counts: the requests in their order, as they came in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import Any

from msgspec import Struct

from bench.clients import conversation
from sevenfold.lab.simulator.provider import Received

LEAST_REQUESTS = 50
LEAST_COMPACTIONS = 3
MODEL_PATHS = ("/messages", "/chat/completions", "/responses")
OURS = "and a <summary>"
"""Near the end of our own requests for a summary."""
BOUNDARY = "<continued-session>"
TAG = re.compile(r"</?[a-z][a-z_-]*>")
MOST_TURNS = 200
_MARKER = re.compile(r', "cache_control": \{[^}]*\}')
_BILLING = "x-anthropic-billing-header"
"""A line in Claude Code's system prompt that changes by itself."""


class Judgement(Struct, frozen=True):
    """What the requests of one conversation show."""

    requests: int
    compactions: int
    missing_after: tuple[str, ...]
    """Codewords of the first, middle or newest message that are missing behind one of the first three compactions."""
    missing: tuple[str, ...]
    """Sentences of the user that are not in the last request."""
    head_same: bool
    """Whether system prompt and tools of the last request are those of the first, in the same roles."""
    tags: tuple[str, ...]
    """Tags among the user's words."""
    changed: int
    """Requests with a summary of ours."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing or added, and the head is as it was."""
        return self.head_same and not (self.missing or self.missing_after or self.tags)

    @property
    def is_long(self) -> bool:
        """Whether there was enough to judge."""
        return self.requests >= LEAST_REQUESTS and self.compactions >= LEAST_COMPACTIONS


def judge(own: Sequence[Received], *, left_out: Collection[int] = ()) -> Judgement:
    """Judge the requests of one conversation; nothing is expected of the turns that the user took back."""
    last = texts_of(own[-1])
    behind = compactions(own)
    missing_after: list[str] = []
    for request in behind[:LEAST_COMPACTIONS]:
        turns = [turn for turn in range(newest_turn(request) + 1) if turn not in left_out]
        expected = {turns[0], turns[len(turns) // 2], turns[-1]}
        shown = texts_of(request)
        codewords = map(conversation.codeword, sorted(expected))
        missing_after += [codeword for codeword in codewords if codeword not in shown]
    said: list[str] = []
    for turn in range(newest_turn(own[-1]) + 1):
        if turn not in left_out:
            said += conversation.sentences(turn)
    return Judgement(
        requests=len(own),
        compactions=len(behind),
        missing_after=tuple(missing_after),
        missing=tuple(sentence for sentence in said if sentence not in last),
        head_same=head_of(own[0]) == head_of(own[-1]),
        tags=tuple(sorted(set(TAG.findall(user_words(last))))),
        changed=sum(BOUNDARY in texts_of(request) for request in own),
    )


def is_own(request: Received) -> bool:
    """Whether a request is one of the program's conversation, and not for a summary of ours."""
    if not request.path.endswith(MODEL_PATHS):
        return False
    return bool(request.body.get("tools")) and OURS.encode() not in request.raw[-2_000:]


def compactions(own: Sequence[Received]) -> list[Received]:
    """The first request behind each compaction: the summary in it is another one than before."""
    behind: list[Received] = []
    before = ""
    for request in own:
        shown = texts_of(request)
        start = shown.find(BOUNDARY)
        summary = shown[start : shown.find("</user-words>", start)] if start >= 0 else before
        if summary != before:
            behind.append(request)
        before = summary
    return behind


def user_words(shown: str) -> str:
    """The user's words in the block of a summary; empty if there is none."""
    if BOUNDARY not in shown:
        return ""
    return shown.rpartition("<user-words>")[2].partition("</user-words>")[0]


def texts_of(request: Received) -> str:
    """All text of a request's conversation."""
    body = request.body
    parts: list[str] = []
    _collect(body.get("messages") or body.get("input") or [], parts)
    return "\n".join(parts)


def _collect(value: Any, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(value)
    elif isinstance(value, dict):
        for each in value.values():
            _collect(each, parts)
    elif isinstance(value, list):
        for each in value:
            _collect(each, parts)


def newest_turn(request: Received) -> int:
    """The newest message of the user that a request has."""
    shown = texts_of(request)
    return max((turn for turn in range(MOST_TURNS) if conversation.sentences(turn)[0] in shown), default=0)


def head_of(request: Received) -> str:
    """What precedes the conversation: the system prompt in its role, and the tools, without cache markers."""
    body = request.body
    system = body.get("system")
    if isinstance(system, list):
        system = [block for block in system if _BILLING not in str(block)[:120]]
    listed = body.get("messages") or body.get("input") or []
    leading = list(takewhile(lambda message: message.get("role") in ("system", "developer"), listed))
    raw = json.dumps([system, body.get("instructions"), leading, body.get("tools")])
    return _MARKER.sub("", raw)
