"""A client for a server of ours: sessions, streams that resume by themselves, tools as functions.

    with ServerClient("http://127.0.0.1:7777", token) as server:
        session = server.create(model="claude-sonnet-5-5", tools=[schema])
        for event in session.say("How warm is it in Rome?"):
            if event.name == "tool_use" and event.data["at"] == "client":
                ...
        session.results({"call id": "21 degrees"})

If a connection breaks in the middle of a stream, the client connects again and the stream continues where it broke. A
message is sent under a key, so one whose answer was lost is not said twice. `AsyncServerClient` is the same, awaited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Self, TypeVar

import httpx2
import msgspec

from sevenfold.doors.server import client_calls
from sevenfold.doors.server.client_calls import ApiCall, SessionCalls
from sevenfold.doors.server.client_protocol import (
    PATIENCE,
    SILENCE,
    ClientRetries,
    RunFollower,
    ServerError,
    StreamedEvent,
    StreamReader,
    address_of,
    carry_out,
    checked,
    headers_for,
)

__all__ = ["ServedSession", "ServerClient", "ServerError", "StreamedEvent"]

Answered = TypeVar("Answered")


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
        """Without ``url`` and ``token``, the variables SEVENFOLD_URL and SEVENFOLD_TOKEN have them."""
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
        """Create a session, or find the one with this name; docs/server.md lists what can define it."""
        return ServedSession(self, self.call(client_calls.create_session(name, definition)))

    def session(self, name: str) -> ServedSession:
        """A session that exists; no request is sent yet."""
        return ServedSession(self, name)

    def sessions(self, **query: Any) -> list[dict[str, Any]]:
        """The user's sessions, newest first."""
        return self.call(client_calls.list_sessions(query))

    def memory(self) -> list[str]:
        """The names of what is remembered of the user."""
        return self.call(client_calls.list_memory())

    def remembered(self, name: str) -> str:
        """A part of what is remembered."""
        return self.call(client_calls.read_memory(name))

    def forget(self, name: str) -> None:
        """Remove a part of what is remembered."""
        self.call(client_calls.forget_memory(name))

    def usage(self) -> list[dict[str, Any]]:
        """What was spent of the budgets."""
        return self.call(client_calls.usage())

    def call(self, call: ApiCall[Answered]) -> Answered:
        """Send a request, again if it could not be carried out now; raises `ServerError`."""
        return call.read(
            self.request(call.method, call.path, call.body, call.query, repeatable=call.repeatable)
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        *,
        repeatable: bool = True,
    ) -> httpx2.Response:
        """Send any request, again if it could not be carried out now; raises `ServerError`."""
        content = None if body is None else msgspec.json.encode(body)
        retries = ClientRetries(self._patience)
        while True:
            try:
                # What is sent twice is carried out once: messages have keys, and results the ids of their calls.
                return checked(self._http.request(method, path, content=content, params=query))
            except (httpx2.TransportError, ServerError) as error:
                time.sleep(retries.pause_after(error, repeatable=repeatable))

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """The lines of a stream, until it ends or breaks."""
        with self._http.stream("GET", path, params=query) as response:
            if response.status_code >= 400:
                response.read()
                checked(response)
            yield from response.iter_lines()

    def events(self, path: str, after: str) -> Generator[StreamedEvent, None, None]:
        """The events of a session after a position, until it is no longer working."""
        stream = StreamReader(after, self._patience)
        while not stream.over:
            try:
                for line in self.lines(path, stream.connect()):
                    if (event := stream.take(line)) is not None:
                        yield event
            except (httpx2.TransportError, ServerError) as error:
                time.sleep(stream.retries.pause_after(error))


class ServedSession:
    """A session of a server."""

    def __init__(self, server: ServerClient, name: str) -> None:
        self.server = server
        self.name = name
        self._calls = SessionCalls(name)

    def describe(self) -> dict[str, Any]:
        """What defines it, and its status."""
        return self.server.call(self._calls.describe())

    def say(
        self, text: str, *, key: str | None = None, origin: str = "typed"
    ) -> Generator[StreamedEvent, None, None]:
        """Say something; yields what happens until the run ends, or waits for results."""
        return self._run(self._calls.say(text, key, origin))

    def results(self, results: Mapping[str, Any]) -> Generator[StreamedEvent, None, None]:
        """Send results by the ids of their calls; yields what happens then."""
        return self._run(self._calls.results(results))

    def go_on(self) -> Generator[StreamedEvent, None, None]:
        """Continue a run that ended too early."""
        return self._run(self._calls.continue_run())

    def _run(self, call: ApiCall[str]) -> Generator[StreamedEvent, None, None]:
        # Sent now, not when the first event is wanted: a program may not be interested in the events at all.
        return self.events(self.server.call(call))

    def ask(
        self, text: str, tools: Mapping[str, Callable[..., Any]] | None = None, *, key: str | None = None
    ) -> str:
        """Say something, carry out tools with these functions, and return the last answer's text.

        Raises `ServerError` if the run failed.
        """
        end = _end_of(self.say(text, key=key))
        while end.get("end") == "input_required":
            results = carry_out(end["waiting"], tools or {})
            end = _end_of(self._run(self._calls.result_list(results)))
        return str(end.get("text", ""))

    def events(self, after: str = "0") -> Generator[StreamedEvent, None, None]:
        """What happened after a position, until the session is no longer working."""
        return self.server.events(self._calls.events_path, after)

    def interrupt(self) -> bool:
        """Stop the run; False if there was none."""
        return self.server.call(self._calls.interrupt())

    def compact(self, instructions: str = "") -> dict[str, Any]:
        """Summarise the conversation."""
        return self.server.call(self._calls.compact(instructions))

    def undo(self, decision: str = "") -> str:
        """Undo a decision of the layers, or the newest; returns its id."""
        return self.server.call(self._calls.undo(decision))

    def recall(self, query: str, most: int = 10) -> list[dict[str, Any]]:
        """Search the whole session."""
        return self.server.call(self._calls.recall(query, most))

    def export(self) -> bytes:
        """The whole log."""
        return self.server.call(self._calls.export())

    def erase(self) -> None:
        """Delete the session permanently."""
        self.server.call(self._calls.erase())


def _end_of(events: Iterator[StreamedEvent]) -> dict[str, Any]:
    run = RunFollower()
    for event in events:
        run.take(event)
    return run.end()
