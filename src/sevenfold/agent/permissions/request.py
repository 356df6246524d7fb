"""What a tool call is about to do, as permissions look at it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Deed = Literal["none", "read", "write", "run", "fetch", "call"]
"""Nothing anybody need be asked about; reading or writing a path; running a command line; fetching an address;
or something only the tool itself knows."""


class Wish(Struct, frozen=True):
    """One deed and what it is done to."""

    tool: str
    deed: Deed = "none"
    subject: str = ""
    """The path with symbolic links resolved, the command line, or the address."""
    named: str = ""
    """The path as it was named, links and all, where that is another one."""
    outside: tuple[str, ...] = ()
    """Of a command line: words that lead out of the workspace."""
    paths: tuple[str, ...] = ()
    """Of a command line: the files its words name, as they are named and with links resolved."""
    writes: tuple[str, ...] = ()
    """Of a command line: the files it is seen to write, likewise."""
