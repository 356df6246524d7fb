"""What both clients of a server have in common: who asks, when to try again, and how events are read."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from sevenfold.errors import InputError, UserError

TOKEN_VARIABLE = "SEVENFOLD_TOKEN"
URL_VARIABLE = "SEVENFOLD_URL"
PATIENCE = 60.0
"""For how many seconds a client tries again what is only not possible now."""
SILENCE = 45.0
"""A server says every 15 seconds that it is alive."""
_PAUSE = 0.25
_LONGEST_PAUSE = 5.0
_AGAIN = (429, 503)


class ServerError(UserError):
    """The server did not carry out a request."""

    def __init__(self, status: int, kind: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        """What programs can go by, such as ``budget_spent``."""
        self.retry_after = retry_after


class StreamedEvent(Struct, frozen=True):
    """An event of a stream."""

    name: str
    data: dict[str, Any]
    id: str = ""


def headers_for(token: str | None, user: str) -> dict[str, str]:
    """The headers that say who asks, and for whom."""
    token = token or os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise InputError(f"pass the token, or set {TOKEN_VARIABLE}")
    headers = {"Authorization": f"Bearer {token}"}
    return {**headers, "Sevenfold-User": quote(user, safe="@._-")} if user else headers


def address_of(url: str | None) -> str:
    """The server's address."""
    url = url or os.environ.get(URL_VARIABLE)
    if not url:
        raise InputError(f"pass the server's address, or set {URL_VARIABLE}")
    return url.rstrip("/")


def checked(response: httpx2.Response) -> httpx2.Response:
    """The response; raises `ServerError` if the request was not carried out."""
    if response.status_code < 400:
        return response
    try:
        error = msgspec.json.decode(response.content)["error"]
        kind = str(error["type"])
        message = str(error["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        kind = "unknown"
        message = f"the server answered with status {response.status_code}"
    after = response.headers.get("retry-after", "")
    raise ServerError(response.status_code, kind, message, float(after) if after.isdecimal() else None)


def pause_after(error: Exception, attempt: int, until: float, *, repeatable: bool = True) -> float:
    """How long to wait before the next try; raises the error if there should be none.

    A request that is not ``repeatable`` may have been carried out when its connection broke.
    """
    again = (repeatable and isinstance(error, httpx2.TransportError)) or (
        isinstance(error, ServerError)
        and (error.status in _AGAIN or error.kind == "session_open_elsewhere")
    )
    asked = error.retry_after if isinstance(error, ServerError) else None
    pause = asked if asked is not None else min(_LONGEST_PAUSE, _PAUSE * 2**attempt)
    if not again or time.monotonic() + pause > until:
        raise error
    return pause


class EventParser:
    """Reads events from the lines of a stream."""

    def __init__(self) -> None:
        self._name = ""
        self._data: list[str] = []
        self._id = ""

    def take(self, line: str) -> StreamedEvent | None:
        """Take a line; returns the event that it ends."""
        if line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "event":
                    self._name = value
                case "data":
                    self._data.append(value)
                case "id":
                    self._id = value
            return None
        event = None
        if self._data:
            event = StreamedEvent(
                self._name or "message", msgspec.json.decode("\n".join(self._data)), self._id
            )
        self._name = ""
        self._data = []
        self._id = ""
        return event


class StreamPlace(Struct):
    """How far a stream has been read, across connections."""

    path: str
    after: str
    over: bool = False

    def take(self, event: StreamedEvent) -> bool:
        """Take note of an event; returns whether the reader should see it."""
        if event.id:
            self.after = event.id
        if event.name == "error":
            error = event.data.get("error", {})
            raise ServerError(200, str(error.get("type")), str(error.get("message")))
        if event.name == "status" and event.data.get("status") != "working":
            self.over = True
        return event.name not in ("closing", "status")

    @property
    def query(self) -> dict[str, str]:
        """What to ask for to go on there."""
        return {"until": "idle", "after": self.after}


def message_body(text: str, key: str | None, origin: str) -> dict[str, Any]:
    """What is sent to say something; a key makes sure that it is said once."""
    return {"text": text, "key": key or secrets.token_hex(16), "origin": origin}


def results_body(results: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent to bring results."""
    return {"results": [{"id": call, "content": content} for call, content in results.items()]}


def carried_out(waiting: list[dict[str, Any]], tools: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """What functions return for the calls that a run waits for; an error is a result, too."""
    results: list[dict[str, Any]] = []
    for call in waiting:
        function = tools.get(call["name"])
        if function is None:
            raise InputError(f"the run waits for {call['name']!r}, and no function of that name was passed")
        try:
            result = {"id": call["id"], "content": function(**call["input"])}
        except Exception as error:  # noqa: BLE001 (the model is told, and may try something else)
            result = {"id": call["id"], "content": f"{type(error).__name__}: {error}", "is_error": True}
        results.append(result)
    return {"results": results}


def end_after(
    event: StreamedEvent, ended: dict[str, Any], waiting: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """How a run ends as far as its events up to this one say; ``waiting`` are the calls without a result."""
    match event.name:
        case "ended":
            return event.data
        case "answer":
            ended = {"end": "done", "text": event.data["text"]}
        case "tool_use" if event.data["at"] == "client":
            waiting[event.data["id"]] = event.data
        case "tool_result":
            waiting.pop(event.data["id"], None)
    return ended


def end_of_run(ended: dict[str, Any], waiting: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The end of a run; where the server died before it said so, what is on record says it."""
    if ended.get("end") == "failed":
        error = ended.get("error") or {}
        raise ServerError(200, str(error.get("type")), str(error.get("message")))
    if waiting and ended.get("end") != "input_required":
        return {**ended, "end": "input_required", "waiting": list(waiting.values())}
    return ended
