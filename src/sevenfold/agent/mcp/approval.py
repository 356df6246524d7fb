"""Whether the user agreed to a server that a project brings.

Trust in a folder covers its ``.mcp.json``. What a server does with a call is decided elsewhere: by the program behind
the command, or by whoever runs the address. So its first use is asked about, once for each server as it was seen: its
command or address, and what it lists. If any of that changes, the user is asked again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from sevenfold.agent.mcp.config import Server
from sevenfold.agent.mcp.tools import McpTool
from sevenfold.errors import SevenfoldError
from sevenfold.stores.trust import Trust


def server_digest(server: Server, tools: Sequence[McpTool], instructions: str) -> str:
    """A digest of how a server is reached and what it lists; values of variables and headers may change."""
    identity = (
        server.command,
        server.args,
        server.url,
        server.cwd,
        sorted(server.env),
        sorted(server.headers),
        sorted(tool.identity for tool in tools),
        instructions,
    )
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16]


class ServerApproval:
    """The user's agreement to one server of a project, as it is now."""

    def __init__(self, server: Server, digest: str, trust: Trust, agreed: set[tuple[str, str]]) -> None:
        self._server = server
        self._digest = digest
        self._trust = trust
        self._agreed = agreed
        """The servers agreed to in this process, each with its digest."""

    @property
    def question(self) -> str:
        """What the user must agree to before the server is used; empty if they did."""
        name = self._server.name
        if (name, self._digest) in self._agreed:
            return ""
        agreed_digest = self._trust.server(Path(self._server.project), name)
        if agreed_digest == self._digest:
            self._agreed.add((name, self._digest))
            return ""
        occasion = "It has changed since you agreed to it" if agreed_digest else "This is its first use"
        return f"{name} is a server of this project ({self._server.where}). {occasion}."

    def grant(self) -> None:
        """Remember that the user agreed; for this process alone, where nothing may be written."""
        self._agreed.add((self._server.name, self._digest))
        with suppress(SevenfoldError):
            self._trust.agree_to(Path(self._server.project), self._server.name, self._digest)
