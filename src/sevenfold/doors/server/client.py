"""A client for a server of ours: sessions, streams that resume by themselves, tools as functions.

    with ServerClient("http://127.0.0.1:7777", token) as server:
        session = server.create(model="claude-sonnet-5-5", tools=[schema])
        for event in session.say("How warm is it in Rome?"):
            if event.name == "tool_use" and event.data["at"] == "client":
                ...
        session.results({"call id": "21 degrees"})

A connection that breaks in the middle of a stream is made anew, and the stream goes on where it was. A message is sent
under a key, so one whose answer was lost is not said twice. `AsyncServerClient` is the same, awaited.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Self
from urllib.parse import quote

import httpx2
import msgspec

from sevenfold.doors.server.client_protocol import (
    PATIENCE,
    SILENCE,
    EventParser,
    ServerError,
    StreamedEvent,
    StreamPlace,
    address_of,
    carried_out,
    checked,
    end_after,
    end_of_run,
    headers_for,
    message_body,
    pause_after,
    results_body,
)

__all__ = ["ServedSession", "ServerClient", "ServerError", "StreamedEvent"]


class ServerClient:
    """A server, on behalf of one user; use it as a context manager."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        user: str = "",
        patience: float = PATIENCE,
    ) -> None:
        """Without ``url`` and ``token``, the variables SEVENFOLD_URL and SEVENFOLD_TOKEN say where and who."""
        self._patience = patience
        self._http = httpx2.Client(
            base_url=address_of(url), headers=headers_for(token, user), timeout=httpx2.Timeout(SILENCE)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def create(self, name: str = "", **definition: Any) -> ServedSession:
        """Make a session, or find the one of this name; see docs/server.md for what it is made of."""
        made = self.request("POST", "/v1/sessions", {"id": name or secrets.token_hex(12), **definition})
        return ServedSession(self, made.json()["id"])

    def session(self, name: str) -> ServedSession:
        """A session that is there."""
        return ServedSession(self, name)

    def sessions(self, **query: Any) -> list[dict[str, Any]]:
        """The user's sessions, newest first."""
        listed: list[dict[str, Any]] = self.request("GET", "/v1/sessions", query=query).json()["sessions"]
        return listed

    def memory(self) -> list[str]:
        """The names of what is remembered of the user."""
        listed: list[str] = self.request("GET", "/v1/memory").json()["memory"]
        return listed

    def remembered(self, name: str) -> str:
        """A part of what is remembered."""
        return self.request("GET", f"/v1/memory/{quote(name)}").text

    def forget(self, name: str) -> None:
        """Remove a part of what is remembered."""
        self.request("DELETE", f"/v1/memory/{quote(name)}", repeatable=False)

    def usage(self) -> list[dict[str, Any]]:
        """What was spent of the budgets."""
        listed: list[dict[str, Any]] = self.request("GET", "/v1/usage").json()["usage"]
        return listed

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        *,
        repeatable: bool = True,
    ) -> httpx2.Response:
        """Send a request, again if it could not be carried out now; raises `ServerError`."""
        content = None if body is None else msgspec.json.encode(body)
        until = time.monotonic() + self._patience
        attempt = 0
        while True:
            try:
                # What is sent twice is carried out once: messages have keys, and results the ids of their calls.
                return checked(self._http.request(method, path, content=content, params=query))
            except (httpx2.TransportError, ServerError) as error:
                time.sleep(pause_after(error, attempt, until, repeatable=repeatable))
                attempt += 1

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """The lines of a stream, until it ends or breaks."""
        with self._http.stream("GET", path, params=query) as response:
            if response.status_code >= 400:
                response.read()
                checked(response)
            yield from response.iter_lines()

    def events(self, path: str, after: str) -> Generator[StreamedEvent, None, None]:
        """The events of a session from a place on, until it works no more."""
        stream = StreamPlace(path, after)
        until = time.monotonic() + self._patience
        attempt = 0
        while not stream.over:
            parser = EventParser()
            try:
                for line in self.lines(path, stream.query):
                    event = parser.take(line)
                    if event is not None:
                        until = time.monotonic() + self._patience
                        attempt = 0
                        if stream.take(event):
                            yield event
            except (httpx2.TransportError, ServerError) as error:
                time.sleep(pause_after(error, attempt, until))
                attempt += 1


class ServedSession:
    """A session of a server."""

    def __init__(self, server: ServerClient, name: str) -> None:
        self.server = server
        self.name = name
        self._path = f"/v1/sessions/{quote(name, safe='')}"

    def describe(self) -> dict[str, Any]:
        """What it is made of and what it is doing."""
        described: dict[str, Any] = self.server.request("GET", self._path).json()
        return described

    def say(
        self, text: str, *, key: str | None = None, origin: str = "typed"
    ) -> Generator[StreamedEvent, None, None]:
        """Say something; yields what happens until the run ends, or waits for results."""
        return self._work("say", message_body(text, key, origin))

    def results(self, results: Mapping[str, Any]) -> Generator[StreamedEvent, None, None]:
        """Bring results by the ids of their calls; yields what happens then."""
        return self._work("results", results_body(results))

    def go_on(self) -> Generator[StreamedEvent, None, None]:
        """Go on with a run that ended too early."""
        return self._work("continue", {})

    def _work(self, what: str, body: Any) -> Generator[StreamedEvent, None, None]:
        # Sent now, and not when the first event is wanted.
        begun = self.server.request("POST", f"{self._path}/{what}", body).json()
        return self.server.events(f"{self._path}/events", begun["after"])

    def ask(
        self, text: str, tools: Mapping[str, Callable[..., Any]] | None = None, *, key: str | None = None
    ) -> str:
        """Say something, carry out tools with these functions, and return the last answer's text.

        Raises `ServerError` if the run failed.
        """
        ended = _end_of(self.say(text, key=key))
        while ended.get("end") == "input_required":
            ended = _end_of(self._work("results", carried_out(ended["waiting"], tools or {})))
        return str(ended.get("text", ""))

    def events(self, after: str = "0") -> Generator[StreamedEvent, None, None]:
        """What happened from a place on, until the session works no more."""
        return self.server.events(f"{self._path}/events", after)

    def interrupt(self) -> bool:
        """Stop the run; False if there was none."""
        return bool(self.server.request("POST", f"{self._path}/interrupt", {}).json()["interrupted"])

    def compact(self, instructions: str = "") -> dict[str, Any]:
        """Summarise the conversation."""
        body = {"instructions": instructions}
        compacted: dict[str, Any] = self.server.request(
            "POST", f"{self._path}/compact", body, repeatable=False
        ).json()
        return compacted

    def undo(self, decision: str = "") -> str:
        """Undo a decision of the layers; returns its id."""
        return str(
            self.server.request("POST", f"{self._path}/undo", {"decision": decision}).json()["undone"]
        )

    def recall(self, query: str, most: int = 10) -> list[dict[str, Any]]:
        """Search everything that was said."""
        asked = {"query": query, "most": most}
        hits: list[dict[str, Any]] = self.server.request("GET", f"{self._path}/recall", query=asked).json()[
            "hits"
        ]
        return hits

    def export(self) -> bytes:
        """The whole log."""
        return self.server.request("GET", f"{self._path}/export").content

    def erase(self) -> None:
        """Remove the session for good."""
        self.server.request("DELETE", self._path, repeatable=False)


def _end_of(events: Iterator[StreamedEvent]) -> dict[str, Any]:
    """How a run ended; raises `ServerError` if it failed."""
    ended: dict[str, Any] = {}
    waiting: dict[str, dict[str, Any]] = {}
    for event in events:
        ended = end_after(event, ended, waiting)
    return end_of_run(ended, waiting)
