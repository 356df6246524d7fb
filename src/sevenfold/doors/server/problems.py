"""Errors as answers: a status, a name that programs can go by, and a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sevenfold.doors.server.accounts import BudgetSpent
from sevenfold.errors import (
    ContextFull,
    ModelError,
    NotAuthenticated,
    SevenfoldError,
    TranscriptError,
    TranscriptFull,
    TranscriptLocked,
    TranscriptMissing,
    TranscriptOvertaken,
    TranscriptTooNew,
    UserError,
)
from sevenfold.errors import Refused as NotNow

STORE_AWAY_SECONDS = 2


class Problem(Exception):
    """A request that is not carried out."""

    def __init__(
        self, status: int, kind: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        """What programs can go by; it does not change between versions."""
        self.message = message
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The answer's body."""
        return msgspec.json.encode({"error": {"type": self.kind, "message": self.message}})


def busy(kind: str, message: str, *, status: int = 429, seconds: int = 1) -> Problem:
    """A problem that passes: the request may be sent again after some seconds."""
    return Problem(status, kind, message, headers={"Retry-After": str(seconds)})


def no_session(name: str) -> Problem:
    """There is no such session, or it is not the caller's, which looks the same."""
    return Problem(
        404, "session_not_found", f"there is no session {name!r}; make it with POST /v1/sessions"
    )


def of(error: Exception) -> Problem:
    """The answer to a request that failed with this error."""
    match error:
        case Problem():
            return error
        case BudgetSpent():
            return Problem(402, "budget_spent", str(error))
        case TranscriptLocked() | TranscriptOvertaken():
            return busy(
                "session_open_elsewhere",
                "the session is open on another server, which closes it when it has been idle; send the request "
                "there, or again later",
                status=409,
            )
        case TranscriptMissing():
            return Problem(404, "not_found", str(error))
        case TranscriptFull():
            return Problem(507, "store_full", str(error))
        case TranscriptTooNew():
            return Problem(409, "session_too_new", str(error))
        case TranscriptError():
            return busy("store_unavailable", str(error), status=503, seconds=STORE_AWAY_SECONDS)
        case ContextFull():
            return Problem(409, "context_full", str(error))
        case NotNow():
            return Problem(409, "not_now", str(error))
        case UserError():
            return Problem(400, "invalid_request", str(error))
        case NotAuthenticated():
            return Problem(
                502,
                "provider_refused",
                "the model's provider does not accept the key of this server; tell whoever runs it",
            )
        case ModelError(retryable=True):
            return busy("provider_unavailable", str(error), status=503, seconds=STORE_AWAY_SECONDS)
        case ModelError():
            return Problem(502, "provider_refused", str(error))
        case SevenfoldError():
            return Problem(500, "internal", str(error))
    return Problem(500, "internal", "the server failed; its log says why")
