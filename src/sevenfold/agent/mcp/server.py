"""What is known of an MCP server before it is connected, and how it is doing afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

STARTUP_SECONDS = 30.0
CALL_SECONDS = 600.0

Status = Literal["connecting", "ready", "failed", "closed"]


class Program(Struct, frozen=True, kw_only=True):
    """A server that is started here and spoken to over its input and output."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """What it gets beside the few variables every server gets."""
    cwd: str | None = None
    startup_seconds: float = STARTUP_SECONDS
    """How long it may take until it has said what it can do."""
    call_seconds: float = CALL_SECONDS
    """How long one call may take."""

    @property
    def where(self) -> str:
        """For people."""
        return " ".join((self.command, *self.args))


class Address(Struct, frozen=True, kw_only=True):
    """A server that runs somewhere and is spoken to over streamable HTTP."""

    name: str
    url: str
    headers: Mapping[str, str] = {}
    startup_seconds: float = STARTUP_SECONDS
    """How long it may take until it has said what it can do."""
    call_seconds: float = CALL_SECONDS
    """How long one call may take."""

    @property
    def where(self) -> str:
        """For people."""
        return self.url


Server = Program | Address


class ServerState(Struct, frozen=True, kw_only=True):
    """A server as it is now."""

    name: str
    where: str
    status: Status = "connecting"
    tools: tuple[Mapping[str, Any], ...] = ()
    """What it lists, as it came; kept while it is away, so that its tools stay where they are."""
    instructions: str = ""
    problem: str = ""
    """Why it is not there, or was not."""
    log: str = ""
    """The end of what it printed beside the conversation."""
    restarts: int = 0
    revision: int = 0
    """Grows when its tools or instructions are others."""


class Tail:
    """The end of what a server prints."""

    MOST = 4096

    def __init__(self) -> None:
        self._kept = b""

    def add(self, chunk: bytes) -> None:
        """Take more of it."""
        self._kept = (self._kept + chunk)[-self.MOST :]

    def text(self) -> str:
        """What is kept."""
        return self._kept.decode(errors="replace").strip()
