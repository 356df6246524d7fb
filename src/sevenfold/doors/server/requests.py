"""Reads requests: the caller, the body and the parameters."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from functools import partial
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request

from sevenfold.doors.server import problems
from sevenfold.doors.server.accounts import Caller
from sevenfold.doors.server.problems import Problem
from sevenfold.doors.server.sessions import Sessions

USER_HEADER = "sevenfold-user"
BODY_SECONDS = 30.0
"""In which the body of a request has to arrive."""
_BEARER = re.compile(r"[Bb]earer ([\x21-\x7e]{1,400})")


class RequestReader:
    """Reads requests, and counts those of each tenant that are being answered."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._limits = sessions.options.limits
        self._requests_of: Counter[str] = Counter()

    async def caller(self, request: Request) -> Caller:
        """Who sent a request; raises `Problem` if the caller is not known."""
        authorization = request.headers.getlist("authorization")
        matched = _BEARER.fullmatch(authorization[0]) if len(authorization) == 1 else None
        if matched is None:
            raise _unauthorized("send a token: Authorization: Bearer svf_…")
        users = request.headers.getlist(USER_HEADER)
        try:
            user = unquote(users[0], errors="strict") if len(users) == 1 else ""
        except UnicodeDecodeError:
            user = "\x00"
        if (
            len(users) > 1
            or len(user) > 200
            or any(character < " " or character == "\x7f" for character in user)
        ):
            raise Problem(
                400,
                "invalid_user",
                "the header Sevenfold-User has to be one name of at most 200 characters, in UTF-8 and "
                "percent-encoded",
            )
        caller = await self._sessions.in_thread(partial(self._sessions.accounts.caller, matched[1], user))
        if caller is None:
            raise _unauthorized("this token is wrong or revoked, or is not good for this user")
        self._count(request, caller.tenant.name)
        return caller

    def _count(self, request: Request, tenant: str) -> None:
        """Count a request that is being answered; raises `Problem` if its tenant has too many of them."""
        most = max(1, self._limits.requests // 2)
        if self._requests_of[tenant] >= most:
            raise problems.busy(
                "tenant_busy", f"{most} requests of this tenant are being answered; send fewer at a time"
            )
        self._requests_of[tenant] += 1
        request.state.tenant = tenant

    def answered(self, request: Request) -> None:
        """A request has been answered, and counts no more."""
        tenant = getattr(request.state, "tenant", None)
        if tenant is not None:
            self._requests_of[tenant] -= 1
            if not self._requests_of[tenant]:
                del self._requests_of[tenant]

    async def body(self, request: Request) -> bytes:
        """The body of a request; raises `Problem` if it is too long or takes too long."""
        most = self._limits.body_bytes
        too_long = Problem(
            413,
            "body_too_large",
            f"the body has more than {most:,} bytes, which is the limit of this server",
        )
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:18]) > most:
            raise too_long
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.stream():
                    size += len(piece)
                    if size > most:
                        raise too_long
                    pieces.append(piece)
        except TimeoutError:
            raise Problem(
                408, "body_too_slow", f"the body did not arrive within {BODY_SECONDS:.0f} seconds"
            ) from None
        except ClientDisconnect:
            raise Problem(400, "body_broken_off", "the body broke off") from None
        return b"".join(pieces)


def whole_number(request: Request, name: str, otherwise: int, maximum: int) -> int:
    """A number of the query; raises `Problem` if it is none."""
    text = request.query_params.get(name)
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and int(text) <= maximum):
        raise Problem(
            400, "invalid_query", f"{name} has to be a whole number up to {maximum}, got {text!r:.40}"
        )
    return int(text)


def _unauthorized(message: str) -> Problem:
    return Problem(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
