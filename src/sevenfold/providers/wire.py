"""How a request is put for the API it goes to.

The engine's requests have the shape of the Messages API. Whoever sends one, a client of ours or the caller's own,
gets it put for its API here, so that both send the same.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from sevenfold import profiles
from sevenfold.providers.openai.chat import chat_request
from sevenfold.providers.openai.responses import compact_request, responses_request
from sevenfold.providers.partial_block import NULL

Api = Literal["messages", "chat", "responses"]
CHAT, RESPONSES, COMPACT = "/chat/completions", "/responses", "/responses/compact"
OFFICIAL = "api.openai.com"


class _Wish(Struct):
    compaction: Raw = NULL


_wish = msgspec.json.Decoder(_Wish)


class Phrasing(Struct, frozen=True):
    """How requests are put for one server."""

    api: Api = "messages"
    room: str = "max_tokens"
    """The server's name for the most tokens an answer may have."""
    reasoning: str | None = None
    """The field in which it takes back what a model thought; None where it takes none."""

    def put(self, body: bytes, *, stream: bool = False) -> tuple[str, bytes]:
        """Where a request goes, behind the server's address, and its bytes."""
        if self.api == "messages":
            return "/v1/messages", body
        if self.api == "chat":
            return CHAT, chat_request(body, stream=stream, room=self.room, reasoning=self.reasoning)
        if bytes(_wish.decode(body).compaction) != b"null":
            return COMPACT, compact_request(body)
        return RESPONSES, responses_request(body, stream=stream)


def at_openai(model: str, url: str, api: Api | None = None, reasoning: str | None = None) -> Phrasing:
    """How requests are put for OpenAI or a server like it; the model's profile decides the API if nobody does."""
    spoken = api or profiles.find(model).wire
    # Local servers know the older name only, OpenAI's newer models refuse it.
    room = "max_completion_tokens" if urlsplit(url).hostname == OFFICIAL else "max_tokens"
    return Phrasing("responses" if spoken == "responses" else "chat", room, reasoning)
