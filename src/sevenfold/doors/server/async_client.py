"""The client for a server of ours, awaited; see `client`."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
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
            base_url=address_of(url), headers=headers_for(token, user), timeout=httpx2.Timeout(SILENCE)
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
                return checked(await self._http.request(method, path, content=content, params=query))
            except (httpx2.TransportError, ServerError) as error:
                await asyncio.sleep(pause_after(error, attempt, until, repeatable=repeatable))
                attempt += 1

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[str, None]:
        """See `ServerClient.lines`."""
        async with self._http.stream("GET", path, params=query) as response:
            if response.status_code >= 400:
                await response.aread()
                checked(response)
            async for line in response.aiter_lines():
                yield line

    async def events(self, path: str, after: str) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServerClient.events`."""
        stream = StreamPlace(path, after)
        until = time.monotonic() + self._patience
        attempt = 0
        while not stream.over:
            parser = EventParser()
            try:
                async for line in self.lines(path, stream.query):
                    event = parser.take(line)
                    if event is not None:
                        until = time.monotonic() + self._patience
                        attempt = 0
                        if stream.take(event):
                            yield event
            except (httpx2.TransportError, ServerError) as error:
                await asyncio.sleep(pause_after(error, attempt, until))
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
        return self._work("say", message_body(text, key, origin))

    def results(self, results: Mapping[str, Any]) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.results`."""
        return self._work("results", results_body(results))

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
            body = await asyncio.to_thread(carried_out, ended["waiting"], tools or {})
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
        ended = end_after(event, ended, waiting)
    return end_of_run(ended, waiting)
