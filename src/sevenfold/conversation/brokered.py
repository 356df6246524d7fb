"""What a broker between a conversation and its provider has to know, so that no answer is paid for twice.

A process may be killed between a request and its answer. Whoever opens the session next finds the request without an
answer. If its own first request has the same bytes, it is the same call, and a broker may still have the answer.
"""

from __future__ import annotations

from sevenfold.conversation.history import own_requests
from sevenfold.conversation.resume import read
from sevenfold.ports import Log
from sevenfold.record.decisions import Request
from sevenfold.record.entries import Said


class BrokeredCalls:
    """The names of a conversation's calls."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._looked = False
        self._unanswered: Request | None = None
        self.recorded = ""
        """The name of the last call whose answer this process recorded."""

    def again(self, sha256: str) -> str:
        """The name of the unanswered call with these bytes; empty if there is none."""
        if not self._looked:
            self._looked = True
            self._unanswered = unanswered_request(self._log)
        earlier = self._unanswered
        return name_of(earlier) if earlier is not None and earlier.sha256 == sha256 else ""

    def sent(self, request: Request) -> None:
        """Take note of a request that was recorded and is sent now."""
        self._unanswered = request

    def answered(self) -> None:
        """Take note that the answer to the last request is in the log."""
        if self._unanswered is not None:
            self.recorded = name_of(self._unanswered)
            self._unanswered = None


def name_of(request: Request) -> str:
    """How a request is named to a broker."""
    return request.again or request.id


def unanswered_request(log: Log) -> Request | None:
    """The newest request of the conversation itself, if no answer of the model follows it in the log."""
    for position, request in own_requests(log):
        for _, entry in read(log, position):
            if isinstance(entry, Said) and entry.role == "assistant" and not entry.sidechain:
                return None
        return request
    return None
