"""A client for a server of ours, blocking or awaited: sessions, streams that resume by themselves, tools as functions.

    with ServerClient("http://127.0.0.1:7777", token) as server:
        session = server.create(model="claude-sonnet-5-5", tools=[schema])
        for event in session.say("How warm is it in Rome?"):
            if event.name == "tool_use" and event.data["at"] == "client":
                ...
        session.results({"call id": "21 degrees"})

A connection that breaks in the middle of a stream is made anew, and the stream goes on where it was. A message is sent
under a key, so one whose answer was lost is not said twice.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from typing import Any, Self
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from sevenfold.errors import InputError, UserError

TOKEN_VARIABLE = "SEVENFOLD_TOKEN"
URL_VARIABLE = "SEVENFOLD_URL"
PATIENCE = 60.0
"""For how many seconds a client tries again what is only not possible now."""
_SILENCE = 45.0
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


def _headers(token: str | None, user: str) -> dict[str, str]:
    token = token or os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise InputError(f"pass the token, or set {TOKEN_VARIABLE}")
    headers = {"Authorization": f"Bearer {token}"}
    return {**headers, "Sevenfold-User": quote(user, safe="@._-")} if user else headers


def _address(url: str | None) -> str:
    url = url or os.environ.get(URL_VARIABLE)
    if not url:
        raise InputError(f"pass the server's address, or set {URL_VARIABLE}")
    return url.rstrip("/")


def _checked(response: httpx2.Response) -> httpx2.Response:
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


def _pause(error: Exception, attempt: int, until: float, *, repeatable: bool = True) -> float:
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


class _Parser:
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


class _Stream(Struct):
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
        return {"until": "idle", "after": self.after}


def _work_body(text: str, key: str | None, origin: str) -> dict[str, Any]:
    return {"text": text, "key": key or secrets.token_hex(16), "origin": origin}


def _result_list(results: Mapping[str, Any]) -> dict[str, Any]:
    return {"results": [{"id": call, "content": content} for call, content in results.items()]}


def _tool_results(waiting: list[dict[str, Any]], tools: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
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
            base_url=_address(url), headers=_headers(token, user), timeout=httpx2.Timeout(_SILENCE)
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
                return _checked(self._http.request(method, path, content=content, params=query))
            except (httpx2.TransportError, ServerError) as error:
                time.sleep(_pause(error, attempt, until, repeatable=repeatable))
                attempt += 1

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """The lines of a stream, until it ends or breaks."""
        with self._http.stream("GET", path, params=query) as response:
            if response.status_code >= 400:
                response.read()
                _checked(response)
            yield from response.iter_lines()

    def events(self, path: str, after: str) -> Generator[StreamedEvent, None, None]:
        """The events of a session from a place on, until it works no more."""
        stream = _Stream(path, after)
        until = time.monotonic() + self._patience
        attempt = 0
        while not stream.over:
            parser = _Parser()
            try:
                for line in self.lines(path, stream.query):
                    event = parser.take(line)
                    if event is not None:
                        until = time.monotonic() + self._patience
                        attempt = 0
                        if stream.take(event):
                            yield event
            except (httpx2.TransportError, ServerError) as error:
                time.sleep(_pause(error, attempt, until))
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
        return self._work("say", _work_body(text, key, origin))

    def results(self, results: Mapping[str, Any]) -> Generator[StreamedEvent, None, None]:
        """Bring results by the ids of their calls; yields what happens then."""
        return self._work("results", _result_list(results))

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
            ended = _end_of(self._work("results", _tool_results(ended["waiting"], tools or {})))
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
        ended = _seen(event, ended, waiting)
    return _ended(ended, waiting)


def _seen(
    event: StreamedEvent, ended: dict[str, Any], waiting: dict[str, dict[str, Any]]
) -> dict[str, Any]:
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


def _ended(ended: dict[str, Any], waiting: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The end of a run; where the server died before it said so, what is on record says it."""
    if ended.get("end") == "failed":
        error = ended.get("error") or {}
        raise ServerError(200, str(error.get("type")), str(error.get("message")))
    if waiting and ended.get("end") != "input_required":
        return {**ended, "end": "input_required", "waiting": list(waiting.values())}
    return ended


class AsyncServerClient:
    """`ServerClient`, awaited."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        user: str = "",
        patience: float = PATIENCE,
    ) -> None:
        self._patience = patience
        self._http = httpx2.AsyncClient(
            base_url=_address(url), headers=_headers(token, user), timeout=httpx2.Timeout(_SILENCE)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def create(self, name: str = "", **definition: Any) -> AsyncServedSession:
        """See `ServerClient.create`."""
        made = await self.request(
            "POST", "/v1/sessions", {"id": name or secrets.token_hex(12), **definition}
        )
        return AsyncServedSession(self, made.json()["id"])

    def session(self, name: str) -> AsyncServedSession:
        """A session that is there."""
        return AsyncServedSession(self, name)

    async def sessions(self, **query: Any) -> list[dict[str, Any]]:
        """See `ServerClient.sessions`."""
        listed: list[dict[str, Any]] = (await self.request("GET", "/v1/sessions", query=query)).json()[
            "sessions"
        ]
        return listed

    async def memory(self) -> list[str]:
        """See `ServerClient.memory`."""
        listed: list[str] = (await self.request("GET", "/v1/memory")).json()["memory"]
        return listed

    async def remembered(self, name: str) -> str:
        """See `ServerClient.remembered`."""
        return (await self.request("GET", f"/v1/memory/{quote(name)}")).text

    async def forget(self, name: str) -> None:
        """See `ServerClient.forget`."""
        await self.request("DELETE", f"/v1/memory/{quote(name)}", repeatable=False)

    async def usage(self) -> list[dict[str, Any]]:
        """See `ServerClient.usage`."""
        listed: list[dict[str, Any]] = (await self.request("GET", "/v1/usage")).json()["usage"]
        return listed

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        *,
        repeatable: bool = True,
    ) -> httpx2.Response:
        """See `ServerClient.request`."""
        content = None if body is None else msgspec.json.encode(body)
        until = time.monotonic() + self._patience
        attempt = 0
        while True:
            try:
                return _checked(await self._http.request(method, path, content=content, params=query))
            except (httpx2.TransportError, ServerError) as error:
                await asyncio.sleep(_pause(error, attempt, until, repeatable=repeatable))
                attempt += 1

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[str, None]:
        """See `ServerClient.lines`."""
        async with self._http.stream("GET", path, params=query) as response:
            if response.status_code >= 400:
                await response.aread()
                _checked(response)
            async for line in response.aiter_lines():
                yield line

    async def events(self, path: str, after: str) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServerClient.events`."""
        stream = _Stream(path, after)
        until = time.monotonic() + self._patience
        attempt = 0
        while not stream.over:
            parser = _Parser()
            try:
                async for line in self.lines(path, stream.query):
                    event = parser.take(line)
                    if event is not None:
                        until = time.monotonic() + self._patience
                        attempt = 0
                        if stream.take(event):
                            yield event
            except (httpx2.TransportError, ServerError) as error:
                await asyncio.sleep(_pause(error, attempt, until))
                attempt += 1


class AsyncServedSession:
    """`ServedSession`, awaited."""

    def __init__(self, server: AsyncServerClient, name: str) -> None:
        self.server = server
        self.name = name
        self._path = f"/v1/sessions/{quote(name, safe='')}"

    async def describe(self) -> dict[str, Any]:
        """See `ServedSession.describe`."""
        described: dict[str, Any] = (await self.server.request("GET", self._path)).json()
        return described

    def say(
        self, text: str, *, key: str | None = None, origin: str = "typed"
    ) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.say`; it is sent when the first event is wanted."""
        return self._work("say", _work_body(text, key, origin))

    def results(self, results: Mapping[str, Any]) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.results`."""
        return self._work("results", _result_list(results))

    def go_on(self) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.go_on`."""
        return self._work("continue", {})

    async def _work(self, what: str, body: Any) -> AsyncGenerator[StreamedEvent, None]:
        begun = (await self.server.request("POST", f"{self._path}/{what}", body)).json()
        async for event in self.server.events(f"{self._path}/events", begun["after"]):
            yield event

    async def ask(
        self, text: str, tools: Mapping[str, Callable[..., Any]] | None = None, *, key: str | None = None
    ) -> str:
        """See `ServedSession.ask`; the functions are plain ones."""
        ended = await _end_of_async(self.say(text, key=key))
        while ended.get("end") == "input_required":
            body = await asyncio.to_thread(_tool_results, ended["waiting"], tools or {})
            ended = await _end_of_async(self._work("results", body))
        return str(ended.get("text", ""))

    def events(self, after: str = "0") -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.events`."""
        return self.server.events(f"{self._path}/events", after)

    async def interrupt(self) -> bool:
        """See `ServedSession.interrupt`."""
        answer = await self.server.request("POST", f"{self._path}/interrupt", {})
        return bool(answer.json()["interrupted"])

    async def compact(self, instructions: str = "") -> dict[str, Any]:
        """See `ServedSession.compact`."""
        answer = await self.server.request(
            "POST", f"{self._path}/compact", {"instructions": instructions}, repeatable=False
        )
        compacted: dict[str, Any] = answer.json()
        return compacted

    async def undo(self, decision: str = "") -> str:
        """See `ServedSession.undo`."""
        answer = await self.server.request(
            "POST", f"{self._path}/undo", {"decision": decision}, repeatable=False
        )
        return str(answer.json()["undone"])

    async def recall(self, query: str, most: int = 10) -> list[dict[str, Any]]:
        """See `ServedSession.recall`."""
        asked = {"query": query, "most": most}
        answer = await self.server.request("GET", f"{self._path}/recall", query=asked)
        hits: list[dict[str, Any]] = answer.json()["hits"]
        return hits

    async def export(self) -> bytes:
        """See `ServedSession.export`."""
        return (await self.server.request("GET", f"{self._path}/export")).content

    async def erase(self) -> None:
        """See `ServedSession.erase`."""
        await self.server.request("DELETE", self._path, repeatable=False)


async def _end_of_async(events: AsyncGenerator[StreamedEvent, None]) -> dict[str, Any]:
    ended: dict[str, Any] = {}
    waiting: dict[str, dict[str, Any]] = {}
    async for event in events:
        ended = _seen(event, ended, waiting)
    return _ended(ended, waiting)
