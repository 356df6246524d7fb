"""What the gateway sends in place of a program's requests, decided in the recorder's thread.

There, all answers that came before have been taken in. A program waits for two seconds at most: then its own request is
sent.
"""

from __future__ import annotations

import asyncio
from functools import partial

from sevenfold.doors.follower.follower import ClientCall, FollowedCall
from sevenfold.doors.follower.keeper import KeepingFollower
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.errors import SevenfoldError

MOST_SECONDS = 2.0


class GatewayKeeper:
    """Prepares requests by a follower that keeps conversations within their windows."""

    def __init__(self, recorder: Recorder, follower: KeepingFollower) -> None:
        self._recorder = recorder
        self._follower = follower
        self.changed = 0
        """Requests that were sent in another way than the program wrote them."""

    async def prepare(self, call: ClientCall, address: str) -> FollowedCall | None:
        """Take in a request to the server at ``address``; None if it is sent as it is and recorded by its passage."""
        if "content-encoding" in call.headers:
            return None
        loop = asyncio.get_running_loop()
        prepared: asyncio.Future[FollowedCall | None] = loop.create_future()
        if not self._recorder.submit(len(call.body), partial(self._prepare, call, address, loop, prepared)):
            return None
        try:
            # What is late is finished all the same, and recorded; its answer is recorded by its passage.
            async with asyncio.timeout(MOST_SECONDS):
                return await asyncio.shield(prepared)
        except TimeoutError:
            self._recorder.failed("a request in time", f"it was sent as it came after {MOST_SECONDS:.0f} s")
            return None

    def refused(self, call: FollowedCall) -> None:
        """The provider refused what was sent in place of the program's own body."""
        self.changed -= 1
        self._recorder.submit(0, partial(self._follower.refused, call))

    def _prepare(
        self,
        call: ClientCall,
        address: str,
        loop: asyncio.AbstractEventLoop,
        prepared: asyncio.Future[FollowedCall | None],
    ) -> None:
        followed: FollowedCall | None = None
        try:
            followed = self._follower.prepare(call, address)
        except SevenfoldError as error:
            self._recorder.failed("a request", error)
        finally:
            if followed is not None and followed.body is not None:
                self.changed += 1
            loop.call_soon_threadsafe(_settle, prepared, followed)


def _settle(prepared: asyncio.Future[FollowedCall | None], followed: FollowedCall | None) -> None:
    if not prepared.done():
        prepared.set_result(followed)
