"""Which conversation a request belongs to, what it is for, and whose it is.

Programs name their conversations in their own ways: a header, a field, a key for the provider's cache. A name alone is
not trusted, since anyone can send it: it is scoped by a hash of the credential that came with it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Struct

from sevenfold.record.blocks import words_of
from sevenfold.record.decoding import NOT_JSON
from sevenfold.wire.client_request import Api, ClientRequest, read_message
from sevenfold.wire.reader import string_value

Purpose = Literal["turn", "compaction", "side"]

SESSION = "x-sevenfold-session"
"""Our own header, for programs that name their conversations in no other way."""
CREDENTIALS = ("authorization", "x-api-key", "api-key", "cookie")
TEXT_ONLY = "CRITICAL: Respond with TEXT ONLY"
"""How Claude Code's request for a summary begins its last message."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")
_PATHS: Mapping[str, Api] = {
    "/messages": "messages",
    "/chat/completions": "chat",
    "/responses": "responses",
    "/responses/compact": "responses",
}
"""How the paths of requests to models end."""


class CallIdentity(Struct, frozen=True):
    """Whose conversation a request belongs to, as far as the request says so."""

    principal: str
    """A keyed hash of the credential; empty if there was none."""
    client: str = ""
    """claude-code, codex, or empty."""
    session: str = ""
    """The program's own name for the conversation; empty if it gives none."""
    agent: str = ""
    """The sub-agent, if a sub-agent sent it."""
    purpose: Purpose = "turn"


class _TurnMetadata(Struct, frozen=True):
    request_kind: str = ""
    thread_id: str = ""


class _ClientMetadata(Struct, frozen=True):
    turn: str = msgspec.field(default="", name="x-codex-turn-metadata")


_client_metadata = msgspec.json.Decoder(_ClientMetadata)
_turn_metadata = msgspec.json.Decoder(_TurnMetadata)


def api_of(method: str, path: str) -> Api | None:
    """The API of a request to a model; None for any other request, such as a list of models."""
    if method != "POST":
        return None
    plain = path.partition("?")[0].rstrip("/")
    for ending, api in _PATHS.items():
        if plain.endswith(ending):
            return api
    return None


def identify(path: str, headers: Mapping[str, str], request: ClientRequest, secret: bytes) -> CallIdentity:
    """Whose a request is, and what it is for; ``headers`` have names in lower case."""
    principal = principal_of(headers, secret)
    client = ""
    agent = ""
    session = _plain(headers.get(SESSION, ""))
    if "x-claude-code-session-id" in headers:
        client = "claude-code"
        session = session or _plain(headers["x-claude-code-session-id"])
        agent = _plain(headers.get("x-claude-code-agent-id", ""))
    elif "x-codex-window-id" in headers or "thread-id" in headers:
        client = "codex"
        thread = headers.get("thread-id") or headers.get("x-codex-window-id", "").partition(":")[0]
        session = session or _plain(thread)
    if not session:
        session = _plain(string_value(request.fields.get("prompt_cache_key", msgspec.Raw(b"null"))))
    return CallIdentity(principal, client, session, agent, _purpose(path, request))


def principal_of(headers: Mapping[str, str], secret: bytes) -> str:
    """A keyed hash of the credentials that came with a request; empty if none came."""
    credentials = [f"{name}:{headers[name]}" for name in CREDENTIALS if headers.get(name)]
    if not credentials:
        return ""
    return hmac.new(secret, "\n".join(credentials).encode(), sha256).hexdigest()[:24]


def _purpose(path: str, request: ClientRequest) -> Purpose:
    """What a request is for, judged by what the programs put into it."""
    if path.partition("?")[0].rstrip("/").endswith("/compact") or "compaction" in request.fields:
        return "compaction"
    if _codex_kind(request) == "compaction":
        return "compaction"
    messages = request.raw_messages()
    if not messages or request.is_held_by_provider:
        # What the provider holds cannot be compared with what is recorded here.
        return "side"
    last = messages[-1]
    if b'"compaction_trigger"' in last[:200]:
        return "compaction"
    if TEXT_ONLY.encode() in last and _ends_in_text_only(last, request.api):
        return "compaction"
    answered = any(b'"assistant"' in message or b'"function_call' in message for message in messages[:-1])
    return "turn" if request.tools() or answered else "side"


def _ends_in_text_only(message: bytes, api: Api) -> bool:
    parts = read_message(message, api).blocks
    return bool(parts) and words_of(parts[-1]).lstrip().startswith(TEXT_ONLY)


def _codex_kind(request: ClientRequest) -> str:
    """What Codex says that its request is for; empty for other programs."""
    raw = request.fields.get("client_metadata")
    if raw is None:
        return ""
    try:
        return _turn_metadata.decode(_client_metadata.decode(raw).turn or "{}").request_kind
    except NOT_JSON:
        return ""


def _plain(name: str) -> str:
    """A name that can be part of a session's name; a hash of it if it has other characters."""
    if not name or _NAME.fullmatch(name):
        return name
    return sha256(name.encode(errors="replace")).hexdigest()[:32]
