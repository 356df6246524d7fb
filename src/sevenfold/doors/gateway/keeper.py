"""What the gateway sends in place of a program's requests, decided in the recorder's thread.

There, all answers that came before have been taken in. A program waits two seconds at most, or for a large request up
to ten: sent as it came, it would be read without a cache, and that takes about as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from sevenfold.doors.follower.follower import ClientCall, FollowedCall
from sevenfold.doors.follower.keeper import KeepingFollower
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.errors import SevenfoldError

LEAST_SECONDS = 2.0
MOST_SECONDS = 10.0
SUMMARY_SECONDS = 30.0
"""How long a request that would be too long waits for a summary that is under way; then code makes one."""
PING_SECONDS = 5.0
BETWEEN_LOOKS = 0.1
Ping = Callable[[], Awaitable[None]]
BYTES_A_SECOND = 50_000
"""About how much of a prompt a provider reads in a second if no cache holds it."""


def patience(size: int) -> float:
    """How many seconds the decision about a body of this size may take."""
    return min(MOST_SECONDS, max(LEAST_SECONDS, size / BYTES_A_SECOND))


class GatewayKeeper:
    """Prepares requests by a follower that keeps conversations within their windows."""

    def __init__(self, recorder: Recorder, follower: KeepingFollower) -> None:
        self._recorder = recorder
        self._follower = follower
        self.changed = 0
        """Requests that were sent in another way than the program wrote them."""

    async def prepare(self, call: ClientCall, address: str, ping: Ping) -> FollowedCall | None:
        """Take in a request to the server at ``address``; None if it is sent as it is and recorded by its passage.

        While it waits for a summary, ``ping`` is called every few seconds.
        """
        if "content-encoding" in call.headers:
            return None
        preparation = Preparation(self._follower, call, address)
        followed = await self._in_time(preparation)
        if followed is None or not followed.waits:
            return followed
        await self._summary_of(followed, ping)
        return await self._in_time(preparation)

    async def _summary_of(self, followed: FollowedCall, ping: Ping) -> None:
        """Wait for the summary that is under way in the conversation of a request."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        pinged = started
        while loop.time() < started + SUMMARY_SECONDS:
            if not await asyncio.to_thread(self._follower.has_summary_under_way, followed):
                return
            if loop.time() >= pinged + PING_SECONDS:
                await ping()
                pinged = loop.time()
            await asyncio.sleep(BETWEEN_LOOKS)

    async def _in_time(self, preparation: Preparation) -> FollowedCall | None:
        """What the recorder's thread decides about a request; None if that takes too long."""
        call = preparation.call
        loop = asyncio.get_running_loop()
        prepared: asyncio.Future[FollowedCall | None] = loop.create_future()

        def settle() -> None:
            if not prepared.done():
                prepared.set_result(preparation.followed)

        def work() -> None:
            try:
                self._prepare(preparation)
            finally:
                with suppress(RuntimeError):  # it was late, and the gateway has been stopped since
                    loop.call_soon_threadsafe(settle)

        if not self._recorder.submit(len(call.body), work):
            return None
        try:
            # What is late is finished all the same, and recorded; its answer is recorded by its passage.
            async with asyncio.timeout(patience(len(call.body))):
                return await asyncio.shield(prepared)
        except TimeoutError:
            self._recorder.submit(0, partial(self._late, preparation))
            self._recorder.say_once(
                "a request could not be prepared in time and was sent as it came; nothing is changed in its "
                "conversation until the user says something else"
            )
            return None

    def refused(self, call: FollowedCall) -> None:
        """The provider refused what was sent in place of the program's own body."""
        self.changed -= 1
        self._recorder.submit(0, partial(self._follower.refused, call))

    def answer_headers(self, call: FollowedCall) -> bytes:
        """Headers for the answer to a request that was prepared, each with its line end."""
        figures = self._follower.figures_of(call)
        kept = "changed" if call.body is not None else "unchanged"
        about = f"request={kept}, saved-usd={figures.saved_usd:.4f}, own-calls-usd={figures.own_usd:.4f}"
        return f"x-sevenfold-kept: {about}\r\n".encode()

    def _prepare(self, preparation: Preparation) -> None:
        try:
            preparation.run()
        except SevenfoldError as error:
            self._recorder.failed("a request", error)
        if preparation.is_changed:
            self.changed += 1

    def _late(self, preparation: Preparation) -> None:
        """Note that a request went out as it came; called once it was taken in all the same."""
        if preparation.is_changed:
            self.changed -= 1
        if preparation.followed is not None:
            self._follower.came_too_late(preparation.followed, preparation.call.body)


class Preparation:
    """A request that is prepared in the recorder's thread."""

    def __init__(self, follower: KeepingFollower, call: ClientCall, address: str) -> None:
        self.call = call
        self.followed: FollowedCall | None = None
        """What is to be sent; None as long as that is not known, and if it is the program's own request."""
        self._follower = follower
        self._address = address

    @property
    def is_changed(self) -> bool:
        """Whether something else is to be sent than the program wrote."""
        return self.followed is not None and self.followed.body is not None

    def run(self) -> None:
        """Take in the request, or decide about one that has waited; raises `MalformedRequest` if it cannot be read."""
        if self.followed is None:
            self.followed = self._follower.prepare(self.call, self._address, may_wait=True)
        else:
            self.followed = self._follower.decide(self.call, self.followed)
