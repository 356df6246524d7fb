"""Histories that the simulated provider holds: stored responses, and message threads, which expire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from msgspec import Struct

from sevenfold.lab.rules.base import without_markers
from sevenfold.lab.simulator.brains import Json
from sevenfold.lab.simulator.clock import SimulatorClock
from sevenfold.lab.simulator.errors import ApiError, extra, invalid

BETA = "message-threads-2026-08-12"
THREAD_SECONDS = 300.0
"""How long a message thread is held after its last request."""
CREATE_ONLY = ("system", "tools")
"""Fields that only the request has which begins a message thread."""
MOST_HELD = 200
"""How many histories are held at most; the oldest go first."""


class HeldHistory(Struct):
    """A history up to an answer."""

    at: float
    items: Sequence[Json]
    """The messages or items, the answer included."""
    fields: Mapping[str, Any] = {}
    """The create-only fields of a message thread."""
    continued: bool = False


class HeldHistories:
    """The histories that are held, by the id of their newest answer."""

    def __init__(self, clock: SimulatorClock) -> None:
        self._clock = clock
        self._held: dict[str, HeldHistory] = {}
        self._lock = Lock()

    def forget(self) -> None:
        """Forget all of them, as a provider may at any time."""
        with self._lock:
            self._held.clear()

    def _keep(self, answer: str, history: HeldHistory) -> None:
        with self._lock:
            self._held[answer] = history
            while len(self._held) > MOST_HELD:
                del self._held[next(iter(self._held))]

    # -- stored responses ------------------------------------------------------------------------

    def stored(self, response: str) -> Sequence[Json]:
        """The items up to a stored response; raises if there is none."""
        with self._lock:
            held = self._held.get(response)
        if held is None:
            message = f"Previous response with id '{response}' not found."
            raise invalid(message, param="previous_response_id", code="previous_response_not_found")
        return held.items

    def store(self, response: Json, items: Sequence[Json]) -> None:
        """Store a response with the items that it answered."""
        self._keep(response["id"], HeldHistory(self._clock.now(), [*items, *response["output"]]))

    # -- message threads -------------------------------------------------------------------------

    def whole(self, body: Json, betas: frozenset[str]) -> Json:
        """The request with all that its thread holds; raises if the thread cannot be continued."""
        thread = body.get("thread")
        if thread is None:
            return body
        if BETA not in betas:
            raise extra("thread")
        sent = {name: value for name, value in body.items() if name != "thread"}
        if thread.get("type") == "create":
            return sent
        if thread.get("type") != "continue":
            raise invalid("thread.type: Input should be 'create' or 'continue'")
        for name in CREATE_ONLY:
            if name in body:
                raise invalid(f"{name}: only the request that creates a thread may have it")
        held = self._continued(str(thread.get("previous_message_id")))
        return {**held.fields, **sent, "messages": [*held.items, *body["messages"]]}

    def _continued(self, answer: str) -> HeldHistory:
        with self._lock:
            held = self._held.get(answer)
            if held is None or self._clock.now() - held.at > THREAD_SECONDS:
                message = f"thread: the thread of message {answer} was not found."
                raise ApiError(404, "not_found_error", message, code="thread_not_found")
            if held.continued:
                message = f"thread: message {answer} has been continued already."
                raise invalid(message, code="thread_already_continued")
            held.continued = True
        return held

    def hold(self, body: Json, whole: Json, message: Json) -> None:
        """Hold the thread of a request up to its answer, if it has one."""
        if body.get("thread") is None:
            return
        fields = {name: whole[name] for name in CREATE_ONLY if name in whole}
        answer = {"role": "assistant", "content": message["content"]}
        # Only the markers of the request under way count, so those of earlier ones must not return with the thread.
        held = [*map(without_markers, whole["messages"]), answer]
        self._keep(message["id"], HeldHistory(self._clock.now(), held, fields))
