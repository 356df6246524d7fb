"""The client for a server of ours, awaited; see `client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
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

Answered = TypeVar("Answered")


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
        """See `ServerClient`."""
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
        return AsyncServedSession(self, await self.call(client_calls.create_session(name, definition)))

    def session(self, name: str) -> AsyncServedSession:
        """See `ServerClient.session`."""
        return AsyncServedSession(self, name)

    async def sessions(self, **query: Any) -> list[dict[str, Any]]:
        """See `ServerClient.sessions`."""
        return await self.call(client_calls.list_sessions(query))

    async def memory(self) -> list[str]:
        """See `ServerClient.memory`."""
        return await self.call(client_calls.list_memory())

    async def remembered(self, name: str) -> str:
        """See `ServerClient.remembered`."""
        return await self.call(client_calls.read_memory(name))

    async def forget(self, name: str) -> None:
        """See `ServerClient.forget`."""
        await self.call(client_calls.forget_memory(name))

    async def usage(self) -> list[dict[str, Any]]:
        """See `ServerClient.usage`."""
        return await self.call(client_calls.usage())

    async def call(self, call: ApiCall[Answered]) -> Answered:
        """See `ServerClient.call`."""
        return call.read(
            await self.request(call.method, call.path, call.body, call.query, repeatable=call.repeatable)
        )

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
        retries = ClientRetries(self._patience)
        while True:
            try:
                return checked(await self._http.request(method, path, content=content, params=query))
            except (httpx2.TransportError, ServerError) as error:
                await asyncio.sleep(retries.pause_after(error, repeatable=repeatable))

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
        stream = StreamReader(after, self._patience)
        while not stream.over:
            try:
                async for line in self.lines(path, stream.connect()):
                    if (event := stream.take(line)) is not None:
                        yield event
            except (httpx2.TransportError, ServerError) as error:
                await asyncio.sleep(stream.retries.pause_after(error))


class AsyncServedSession:
    """`ServedSession`, awaited."""

    def __init__(self, server: AsyncServerClient, name: str) -> None:
        self.server = server
        self.name = name
        self._calls = SessionCalls(name)

    async def describe(self) -> dict[str, Any]:
        """See `ServedSession.describe`."""
        return await self.server.call(self._calls.describe())

    def say(
        self, text: str, *, key: str | None = None, origin: str = "typed"
    ) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.say`; it is sent when the first event is wanted."""
        return self._run(self._calls.say(text, key, origin))

    def results(self, results: Mapping[str, Any]) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.results`."""
        return self._run(self._calls.results(results))

    def go_on(self) -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.go_on`."""
        return self._run(self._calls.continue_run())

    async def _run(self, call: ApiCall[str]) -> AsyncGenerator[StreamedEvent, None]:
        after = await self.server.call(call)
        async for event in self.events(after):
            yield event

    async def ask(
        self, text: str, tools: Mapping[str, Callable[..., Any]] | None = None, *, key: str | None = None
    ) -> str:
        """See `ServedSession.ask`; the functions are plain ones, and run in a thread."""
        end = await _end_of(self.say(text, key=key))
        while end.get("end") == "input_required":
            results = await asyncio.to_thread(carry_out, end["waiting"], tools or {})
            end = await _end_of(self._run(self._calls.result_list(results)))
        return str(end.get("text", ""))

    def events(self, after: str = "0") -> AsyncGenerator[StreamedEvent, None]:
        """See `ServedSession.events`."""
        return self.server.events(self._calls.events_path, after)

    async def interrupt(self) -> bool:
        """See `ServedSession.interrupt`."""
        return await self.server.call(self._calls.interrupt())

    async def compact(self, instructions: str = "") -> dict[str, Any]:
        """See `ServedSession.compact`."""
        return await self.server.call(self._calls.compact(instructions))

    async def undo(self, decision: str = "") -> str:
        """See `ServedSession.undo`."""
        return await self.server.call(self._calls.undo(decision))

    async def recall(self, query: str, most: int = 10) -> list[dict[str, Any]]:
        """See `ServedSession.recall`."""
        return await self.server.call(self._calls.recall(query, most))

    async def export(self) -> bytes:
        """See `ServedSession.export`."""
        return await self.server.call(self._calls.export())

    async def erase(self) -> None:
        """See `ServedSession.erase`."""
        await self.server.call(self._calls.erase())


async def _end_of(events: AsyncGenerator[StreamedEvent, None]) -> dict[str, Any]:
    run = RunFollower()
    async for event in events:
        run.take(event)
    return run.end()
