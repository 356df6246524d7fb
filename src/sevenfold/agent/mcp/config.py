"""Which MCP servers there are: those named in code, in a project's ``.mcp.json``, and in the user's ``mcp.json``.

The files have the form people know: ``{"mcpServers": {"name": {"command": …}}}`` or ``{"url": …}``, with variables of
the environment filled in. A project's servers count only in a folder the user trusts. A server that cannot be used is
told of, and the others go on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.agent.mcp.server import CALL_SECONDS, STARTUP_SECONDS, Address, Program, Server
from sevenfold.agent.mcp.tools import server_key
from sevenfold.errors import InputError, SettingError
from sevenfold.stores.trust import Trust, user_folder

PROJECT_FILE = ".mcp.json"
USER_FILE = "mcp.json"
LARGEST = 1024 * 1024
"""Bytes of a file that is still read."""
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_HTTP = ("http", "streamable-http", "streamable_http")


class Entry(Struct, frozen=True, forbid_unknown_fields=False):
    """One server as files and callers write it."""

    type: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = {}
    disabled: bool = False
    startup_seconds: float = STARTUP_SECONDS
    call_seconds: float = CALL_SECONDS


class Configured(Struct, frozen=True):
    """The servers there are, and what is wrong with others."""

    servers: tuple[Server, ...] = ()
    problems: tuple[str, ...] = ()

    def __add__(self, other: Configured) -> Configured:
        """Both; of two servers with one name the first."""
        mine = {server.name for server in self.servers}
        further = tuple(server for server in other.servers if server.name not in mine)
        return Configured(self.servers + further, self.problems + other.problems)


def configured(
    given: Mapping[str, Any] | None, folder: Path, environ: Mapping[str, str], *, files: bool = True
) -> Configured:
    """The servers of a session in this folder; ``given`` is what code names, under the servers' names."""
    found = read(given or {}, "mcp=", environ, folder)
    if found.problems:
        raise InputError("; ".join(found.problems))
    if not files:
        return found
    user = user_folder(environ)
    return found + _project(folder, user, environ) + _file(user / USER_FILE, environ, folder)


def read(entries: Any, source: str, environ: Mapping[str, str], folder: Path) -> Configured:
    """The servers a mapping names."""
    if not isinstance(entries, Mapping):
        return Configured(problems=(f"{source}: servers stand under their names",))
    servers: dict[str, Server] = {}
    problems: list[str] = []
    for name, one in entries.items():
        try:
            server = _server(str(name), one, environ, folder)
            if server is not None and server.name in servers:
                raise InputError(f"its name counts as {server.name!r}, which is taken")
        except (InputError, msgspec.ValidationError) as error:
            problems.append(f"{source}: the MCP server {str(name)[:80]!r} is left out: {error}")
        else:
            if server is not None:
                servers[server.name] = server
    return Configured(tuple(servers.values()), tuple(problems))


def _project(folder: Path, user: Path, environ: Mapping[str, str]) -> Configured:
    path = folder / PROJECT_FILE
    if not path.exists():
        return Configured()
    if not Trust(user).covers(folder):
        return Configured(
            problems=(
                f"{path} is ignored, because its folder is not trusted; "
                f"to use it, run: sevenfold trust {folder}",
            )
        )
    return _file(path, environ, folder)


def _file(path: Path, environ: Mapping[str, str], folder: Path) -> Configured:
    """What a file names; a file that cannot be used is a problem, not an end."""
    try:
        if not path.exists():
            return Configured()
        if not path.is_file():
            raise SettingError("it is not a regular file")
        if path.stat().st_size > LARGEST:
            raise SettingError(f"it has more than {LARGEST:,} bytes")
        held = msgspec.json.decode(path.read_bytes())
        entries = held.get("mcpServers", {}) if isinstance(held, dict) else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, SettingError) as error:
        return Configured(problems=(f"{path}: cannot be used: {error}",))
    return read(entries, str(path), environ, folder)


def _server(name: str, one: Any, environ: Mapping[str, str], folder: Path) -> Server | None:
    entry = msgspec.convert(_filled(one, environ), Entry)
    if entry.disabled:
        return None
    if entry.startup_seconds <= 0 or entry.call_seconds <= 0:
        raise InputError("startup_seconds and call_seconds must be above 0")
    if bool(entry.command) == bool(entry.url):
        raise InputError("it needs either a command or a url")
    if entry.command:
        if entry.type not in ("", "stdio"):
            raise InputError(f"type {entry.type!r} does not go with a command; leave it out")
        return Program(
            name=server_key(name),
            command=entry.command,
            args=entry.args,
            env=entry.env,
            cwd=str(folder / entry.cwd) if entry.cwd else str(folder),
            startup_seconds=entry.startup_seconds,
            call_seconds=entry.call_seconds,
        )
    if entry.type not in ("", *_HTTP):
        raise InputError(
            f"type {entry.type!r} is not supported; servers are spoken to over streamable HTTP"
        )
    if not entry.url.startswith(("http://", "https://")):
        raise InputError(f"{entry.url!r} is no address; it begins with https:// or http://")
    return Address(
        name=server_key(name),
        url=entry.url,
        headers=entry.headers,
        startup_seconds=entry.startup_seconds,
        call_seconds=entry.call_seconds,
    )


def _filled(value: Any, environ: Mapping[str, str]) -> Any:
    """The value with variables of the environment filled in; one that is not set is an error."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found, environ), value)
    if isinstance(value, Mapping):
        return {key: _filled(one, environ) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(one, environ) for one in value]
    return value


def _variable(found: re.Match[str], environ: Mapping[str, str]) -> str:
    name, instead = found[1], found[2]
    if name in environ:
        return environ[name]
    if instead is None:
        raise InputError(f"the variable {name} is not set; set it, or write ${{{name}:-instead}}")
    return instead
