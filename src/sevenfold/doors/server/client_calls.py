"""The requests that a client can send to a server, as data: both clients send them, one waits and one is awaited."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx2
from msgspec import Struct

Answered = TypeVar("Answered")


class ApiCall(Struct, Generic[Answered], frozen=True):
    """A request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[httpx2.Response], Answered]
    body: Any = None
    query: Mapping[str, Any] | None = None
    repeatable: bool = True
    """Whether carrying it out twice is the same as once, so that it may be sent again after a broken connection."""


def _field(name: str) -> Callable[[httpx2.Response], Any]:
    return lambda response: response.json()[name]


def _nothing(response: httpx2.Response) -> None:
    return None


def create_session(name: str, definition: Mapping[str, Any]) -> ApiCall[str]:
    """Create a session, or find the one with this name; returns its name."""
    body = {"id": name or secrets.token_hex(12), **definition}
    return ApiCall("POST", "/v1/sessions", _field("id"), body)


def list_sessions(query: Mapping[str, Any]) -> ApiCall[list[dict[str, Any]]]:
    """The user's sessions, newest first."""
    return ApiCall("GET", "/v1/sessions", _field("sessions"), query=query)


def list_memory() -> ApiCall[list[str]]:
    """The names of what is remembered of the user."""
    return ApiCall("GET", "/v1/memory", _field("memory"))


def read_memory(name: str) -> ApiCall[str]:
    """A part of what is remembered."""
    return ApiCall("GET", f"/v1/memory/{quote(name)}", lambda response: response.text)


def forget_memory(name: str) -> ApiCall[None]:
    """Remove a part of what is remembered."""
    return ApiCall("DELETE", f"/v1/memory/{quote(name)}", _nothing, repeatable=False)


def usage() -> ApiCall[list[dict[str, Any]]]:
    """What was spent of the budgets."""
    return ApiCall("GET", "/v1/usage", _field("usage"))


class SessionCalls:
    """The requests about one session."""

    def __init__(self, name: str) -> None:
        self._path = f"/v1/sessions/{quote(name, safe='')}"
        self.events_path = f"{self._path}/events"
        """The path of the session's stream."""

    def describe(self) -> ApiCall[dict[str, Any]]:
        """What defines it, and its status."""
        return ApiCall("GET", self._path, httpx2.Response.json)

    def say(self, text: str, key: str | None, origin: str) -> ApiCall[str]:
        """Say something and start a run; the key ensures that a message that is sent twice is said once."""
        return self._run("say", {"text": text, "key": key or secrets.token_hex(16), "origin": origin})

    def results(self, results: Mapping[str, Any]) -> ApiCall[str]:
        """Send results by the ids of their calls, and start a run."""
        return self.result_list([{"id": call, "content": content} for call, content in results.items()])

    def result_list(self, results: list[dict[str, Any]]) -> ApiCall[str]:
        """Send results in the form of the API, and start a run."""
        return self._run("results", {"results": results})

    def continue_run(self) -> ApiCall[str]:
        """Continue a run that ended too early."""
        return self._run("continue", {})

    def interrupt(self) -> ApiCall[bool]:
        """Stop the run; False if there was none."""
        return ApiCall("POST", f"{self._path}/interrupt", _field("interrupted"), {})

    def compact(self, instructions: str) -> ApiCall[dict[str, Any]]:
        """Summarise the conversation."""
        body = {"instructions": instructions}
        return ApiCall("POST", f"{self._path}/compact", httpx2.Response.json, body, repeatable=False)

    def undo(self, decision: str) -> ApiCall[str]:
        """Undo a decision of the layers, or the newest; returns its id."""
        body = {"decision": decision}
        return ApiCall("POST", f"{self._path}/undo", _field("undone"), body, repeatable=False)

    def recall(self, query: str, most: int) -> ApiCall[list[dict[str, Any]]]:
        """Search the whole session."""
        return ApiCall("GET", f"{self._path}/recall", _field("hits"), query={"query": query, "most": most})

    def export(self) -> ApiCall[bytes]:
        """The whole log."""
        return ApiCall("GET", f"{self._path}/export", lambda response: response.content)

    def erase(self) -> ApiCall[None]:
        """Delete the session permanently."""
        return ApiCall("DELETE", self._path, _nothing, repeatable=False)

    def _run(self, action: str, body: Any) -> ApiCall[str]:
        """A request that starts a run; returns the position after which the stream has its events."""
        return ApiCall("POST", f"{self._path}/{action}", _field("after"), body)
