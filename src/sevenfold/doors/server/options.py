"""What a server is made of, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from sevenfold.ports import Client


class ServerLimits(Struct, frozen=True):
    """The limits of a server."""

    runs: int = 64
    """Runs at the same time."""
    tenant_runs: int = 32
    """Runs of one tenant at the same time."""
    waiting: int = 128
    """Runs that wait until another one has ended."""
    sessions: int = 1_000
    """Open sessions, including idle ones."""
    streams: int = 1_000
    """Streams at the same time."""
    requests: int = 500
    """Other requests at the same time."""
    body_bytes: int = 8 << 20
    """Bytes of a request's body."""
    idle_seconds: float = 600.0
    """How long an unused session stays open."""
    drain_seconds: float = 30.0
    """How long runs may continue when the server stops."""


class ServerOptions(Struct, frozen=True):
    """What a server is made of."""

    store: Path | str
    """A folder, or the URL of a database."""
    models: tuple[str, ...]
    """The models that sessions may use, the default first; empty allows any."""
    workspace: Path
    """An empty folder: the working folder of all agents."""
    tools: Mapping[str, Any] = {}
    """The tools that run in the server, by name."""
    make_client: Callable[[str], Client] | None = None
    """Makes the client for a model; by default, clients are configured by the environment."""
    limits: ServerLimits = ServerLimits()
