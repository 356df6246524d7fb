"""Streams: what happened and happens in a session, told to programs that each read at their own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec
from msgspec import Struct
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
"""Seconds between two reads of the log of a session that is not open here."""
ELSEWHERE_STATE_SECONDS = 3.0
"""Seconds between two checks of such a session's status, while no events come."""
STREAM_END_SECONDS = 5.0
"""Seconds in which a program has to read the rest of a stream when the server stops."""
MOST_AT_ONCE = 500
"""How many events are read from a log at once."""


class _News(Struct, frozen=True):
    """What has happened since a stream last looked."""

    events: list[bytes]
    position: Cursor
    """The position after these events."""
    live: LiveSession | None
    """The session, if it is open here."""

    @property
    def is_open_here(self) -> bool:
        return self.live is not None and not self.live.feed.closed


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
        """Let all streams send what is left, and end."""
        self.stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(STREAM_END_SECONDS):
                while self._open:
                    await asyncio.sleep(0.01)

    def open(self, request: Request, key: SessionKey, position: Cursor, *, until_idle: bool) -> Response:
        """A stream of what happens after a position; raises `Problem` if there are too many."""
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
        checked_at = 0.0
        state: Standing | None = None
        """The session's status; None if it has to be checked."""
        news = _News([], position, None)
        try:
            while True:
                # Before the events are read, so that those reported until the server stops are not lost.
                stopping = self.stopping.is_set()
                news = await self._news(key, news)
                for raw in news.events:
                    yield raw
                if stopping or await request.is_disconnected():
                    yield b"event: closing\ndata: {}\n\n"
                    return
                if news.events:
                    state = None
                    continue
                # For a session that is not open here, the status takes a read of its log, so it is checked less often.
                is_due = loop.time() - checked_at > ELSEWHERE_STATE_SECONDS
                if state is None or news.is_open_here or is_due:
                    state = await self._state(key, news)
                    checked_at = loop.time()
                    if state.status != "working":
                        # The run may have ended since the events were read; then its end is reported first.
                        news = await self._news(key, news)
                        for raw in news.events:
                            yield raw
                        if news.events:
                            continue
                    status = msgspec.json.encode(described(state)).decode()
                    if status != reported:
                        reported = status
                        yield f"event: status\ndata: {status}\n\n".encode()
                if until_idle and state.status != "working":
                    return
                if not await self._wait(news):
                    yield b": alive\n\n"
        except SevenfoldError as error:
            yield b"event: error\ndata: %s\n\n" % problems.of(error).body()
        except Problem as problem:
            yield b"event: error\ndata: %s\n\n" % problem.body()
        finally:
            self._open -= 1

    async def _news(self, key: SessionKey, seen: _News) -> _News:
        """The events after those seen: from the feed if the session is open here, else lasting ones from the log."""
        position = seen.position
        live = self._sessions.open.live(key)
        if seen.live is not None and seen.live is not live:
            # It was closed meanwhile; its last events are still in the feed.
            last = seen.live.feed.after(position)
            if last is not None and last[0]:
                return _News([*last[0]], last[1], seen.live)
        fed = None if live is None else live.feed.after(position)
        if fed is not None:
            return _News([*fed[0]], fed[1], live)
        return await self._sessions.in_thread(partial(self._from_log, key, position, live))

    def _from_log(self, key: SessionKey, position: Cursor, live: LiveSession | None) -> _News:
        """The lasting events after a position; may block."""
        definition = self._sessions.stored.definition_of(key)
        log = self._sessions.stored.log_of(key)
        reached = Cursor(position.position, position.skip)
        if log is None:
            return _News([], reached, live)
        events: list[bytes] = []
        for event in islice(recorded(log, reached, definition.client_tools), MOST_AT_ONCE):
            events.append(event.encoded())
            reached = event.after
        return _News(events, reached, live)

    async def _state(self, key: SessionKey, news: _News) -> Standing:
        if news.live is not None and not news.live.feed.closed:
            return await self._sessions.in_thread(news.live.standing)
        return await self._sessions.in_thread(partial(self._sessions.stored.recorded_standing, key))

    async def _wait(self, seen: _News) -> bool:
        """Wait for news; False if there were none for so long that the stream has to send a sign of life."""
        live = seen.live
        loop = asyncio.get_running_loop()
        began = loop.time()
        if live is None or live.feed.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(ELSEWHERE_SECONDS):
                    await self.stopping.wait()
            return True
        stopping = asyncio.create_task(self.stopping.wait())
        news = asyncio.create_task(live.feed.wait(seen.position, HEARTBEAT_SECONDS))
        try:
            await asyncio.wait((stopping, news), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, news):
                task.cancel()
            await asyncio.gather(stopping, news, return_exceptions=True)
        return loop.time() - began < HEARTBEAT_SECONDS
