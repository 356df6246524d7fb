"""What both clients of a server have in common: credentials, when to try again, and how streams are read."""

from __future__ import annotations

import os
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
"""For how many seconds a client repeats what the server refuses for the moment, or what a broken connection lost."""
SILENCE = 45.0
"""Seconds without a byte after which a connection counts as broken: a server sends a sign of life every 15."""
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
    """The headers with the token, and with the user for whom the program asks."""
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


class ClientRetries:
    """When a request or a stream that failed is tried again, and after how long."""

    def __init__(self, patience: float) -> None:
        """``patience`` is the number of seconds after which a failure is final."""
        self._patience = patience
        self.restart()

    def restart(self) -> None:
        """Start counting from zero again, after a success."""
        self._until = time.monotonic() + self._patience
        self._attempt = 0

    def pause_after(self, error: Exception, *, repeatable: bool = True) -> float:
        """The seconds to wait before the next try; raises the error if there should be none.

        A request that is not ``repeatable`` may have been carried out when its connection broke.
        """
        is_refused_for_now = isinstance(error, ServerError) and (
            error.status in _AGAIN or error.kind == "session_open_elsewhere"
        )
        is_lost = isinstance(error, httpx2.TransportError)
        asked = error.retry_after if isinstance(error, ServerError) else None
        pause = asked if asked is not None else min(_LONGEST_PAUSE, _PAUSE * 2**self._attempt)
        may_repeat = is_refused_for_now or (is_lost and repeatable)
        if not may_repeat or time.monotonic() + pause > self._until:
            raise error
        self._attempt += 1
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


class StreamReader:
    """Reads a stream across connections: each one continues where the one before broke."""

    def __init__(self, after: str, patience: float) -> None:
        self.over = False
        """Whether the session is no longer working, so that nothing more will come."""
        self.retries = ClientRetries(patience)
        self._after = after
        """The position up to which events were read."""
        self._parser = EventParser()

    def connect(self) -> dict[str, str]:
        """Begin with a new connection; returns the query that continues at this position."""
        self._parser = EventParser()
        return {"until": "idle", "after": self._after}

    def take(self, line: str) -> StreamedEvent | None:
        """Read a line; returns the event that it ends, if it is one for the program."""
        event = self._parser.take(line)
        if event is None:
            return None
        self.retries.restart()
        if event.id:
            self._after = event.id
        if event.name == "error":
            error = event.data.get("error", {})
            raise ServerError(200, str(error.get("type")), str(error.get("message")))
        if event.name == "status" and event.data.get("status") != "working":
            self.over = True
        return None if event.name in ("closing", "status") else event


class RunFollower:
    """Follows the events of a run, to know how it ended."""

    def __init__(self) -> None:
        self._end: dict[str, Any] = {}
        self._waiting: dict[str, dict[str, Any]] = {}
        """The calls of the program's tools that have no result yet."""

    def take(self, event: StreamedEvent) -> None:
        """Note an event."""
        match event.name:
            case "ended":
                self._end = event.data
            case "answer":
                self._end = {"end": "done", "text": event.data["text"]}
            case "tool_use" if event.data["at"] == "client":
                self._waiting[event.data["id"]] = event.data
            case "tool_result":
                self._waiting.pop(event.data["id"], None)

    def end(self) -> dict[str, Any]:
        """How the run ended; raises `ServerError` if it failed."""
        if self._end.get("end") == "failed":
            error = self._end.get("error") or {}
            raise ServerError(200, str(error.get("type")), str(error.get("message")))
        # A server that died told no end. The calls that are on record then say that the run waits for them.
        if self._waiting and self._end.get("end") != "input_required":
            return {**self._end, "end": "input_required", "waiting": list(self._waiting.values())}
        return self._end


def carry_out(
    waiting: list[dict[str, Any]], tools: Mapping[str, Callable[..., Any]]
) -> list[dict[str, Any]]:
    """Call the functions that a run waits for; returns their results, and their errors as results."""
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
    return results
