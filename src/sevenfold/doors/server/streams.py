"""Streams: what happened and happens in a session, told to programs that each read at their own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sevenfold.doors.server import problems
from sevenfold.doors.server.events import Cursor, recorded
from sevenfold.doors.server.live import LiveSession, SessionKey, Standing, described
from sevenfold.doors.server.metrics import ServerMetrics
from sevenfold.doors.server.problems import Problem
from sevenfold.doors.server.sessions import Sessions
from sevenfold.errors import SevenfoldError

STREAM_TYPE = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
"""After which a silent stream says that it is alive."""
ELSEWHERE_SECONDS = 1.0
"""Between two looks at the log of a session that is not open here."""
ELSEWHERE_STATE_SECONDS = 3.0
"""Between two checks of such a session's status, while no events come."""
STREAM_END_SECONDS = 5.0
"""In which a program has to read the rest of a stream when the server stops."""


class Streams:
    """The streams of a server."""

    def __init__(self, sessions: Sessions, metrics: ServerMetrics) -> None:
        self.stopping = asyncio.Event()
        """Set when all streams are to end."""
        self._sessions = sessions
        self._limits = sessions.options.limits
        self._open = 0
        metrics.gauge("streams_open", "Streams that are open", lambda: self._open)

    async def end(self) -> None:
        """Let all streams tell the rest, and end."""
        self.stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(STREAM_END_SECONDS):
                while self._open:
                    await asyncio.sleep(0.01)

    def open(self, request: Request, key: SessionKey, position: Cursor, *, until_idle: bool) -> Response:
        """A stream of what happens behind a place; raises `Problem` if there are too many."""
        if self._open >= self._limits.streams:
            raise problems.busy("server_busy", "as many streams are open as this server takes", status=503)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._events(request, key, position, until_idle=until_idle),
            media_type=STREAM_TYPE,
            headers=headers,
        )

    async def _events(
        self, request: Request, key: SessionKey, position: Cursor, *, until_idle: bool
    ) -> AsyncIterator[bytes]:
        self._open += 1
        loop = asyncio.get_running_loop()
        reported = ""
        looked = 0.0
        state: Standing | None = None
        live: LiveSession | None = None
        try:
            while True:
                # Before the events are read, so that those reported until the server stops are not lost.
                stopping = self.stopping.is_set()
                told, position, live = await self._news(key, position, live)
                for raw in told:
                    yield raw
                if stopping or await request.is_disconnected():
                    yield b"event: closing\ndata: {}\n\n"
                    return
                if told:
                    state = None
                    continue
                # Where the session is not open here, its log has to be read for that.
                is_open = live is not None and not live.feed.closed
                if state is None or is_open or loop.time() - looked > ELSEWHERE_STATE_SECONDS:
                    state = await self._state(key, live)
                    looked = loop.time()
                    if state.status != "working":
                        # The run may have ended since the events were read; then its end is reported first.
                        told, position, live = await self._news(key, position, live)
                        for raw in told:
                            yield raw
                        if told:
                            continue
                    status = msgspec.json.encode(described(state)).decode()
                    if status != reported:
                        reported = status
                        yield f"event: status\ndata: {status}\n\n".encode()
                if until_idle and state.status != "working":
                    return
                if not await self._wait(live, position):
                    yield b": alive\n\n"
        except SevenfoldError as error:
            yield b"event: error\ndata: %s\n\n" % problems.of(error).body()
        except Problem as problem:
            yield b"event: error\ndata: %s\n\n" % problem.body()
        finally:
            self._open -= 1

    async def _news(
        self, key: SessionKey, position: Cursor, before: LiveSession | None
    ) -> tuple[list[bytes], Cursor, LiveSession | None]:
        """The events behind a place: from the feed if the session is open here, else those that last from the log."""
        live = self._sessions.open.live(key)
        if before is not None and before is not live:
            # It was closed meanwhile; what it told last is not lost.
            rest = before.feed.after(position)
            if rest is not None and rest[0]:
                return [*rest[0]], rest[1], before
        fed = None if live is None else live.feed.after(position)
        if fed is not None:
            return [*fed[0]], fed[1], live

        def from_log() -> tuple[list[bytes], Cursor]:
            definition = self._sessions.stored.definition_of(key)
            log = self._sessions.stored.log_of(key)
            behind = Cursor(position.position, position.skip)
            raw: list[bytes] = []
            for event in () if log is None else recorded(log, behind, definition.client_tools):
                raw.append(event.encoded())
                behind = event.after
                if len(raw) >= 500:
                    break
            return raw, behind

        told, position = await self._sessions.in_thread(from_log)
        return told, position, live

    async def _state(self, key: SessionKey, live: LiveSession | None) -> Standing:
        if live is not None and not live.feed.closed:
            return await self._sessions.in_thread(live.standing)
        return await self._sessions.in_thread(partial(self._sessions.stored.recorded_standing, key))

    async def _wait(self, live: LiveSession | None, position: Cursor) -> bool:
        """Wait for news; False if there were none for so long that the stream says that it is alive."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if live is None or live.feed.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(ELSEWHERE_SECONDS):
                    await self.stopping.wait()
            return True
        stopping = asyncio.create_task(self.stopping.wait())
        news = asyncio.create_task(live.feed.wait(position, HEARTBEAT_SECONDS))
        try:
            await asyncio.wait((stopping, news), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, news):
                task.cancel()
            await asyncio.gather(stopping, news, return_exceptions=True)
        return loop.time() - began < HEARTBEAT_SECONDS
