"""Configuration of MCP servers: from code, from a project's ``.mcp.json``, and from the user's ``mcp.json``.

The files have the usual form, ``{"mcpServers": {"name": {"command": …}}}`` or ``{"url": …}``, with environment
variables expanded. A project's servers are used only if the user trusts its folder. A server that cannot be used is
reported, and the others are used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.mcp.tools import server_key
from sevenfold.errors import InputError, SettingError
from sevenfold.stores.trust import Trust, user_folder

PROJECT_FILE = ".mcp.json"
USER_FILE = "mcp.json"
LARGEST = 1024 * 1024
"""The largest file that is read, in bytes."""
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_HTTP = ("http", "streamable-http", "streamable_http")


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The configuration of a server: a program to start, or a URL."""

    name: str = ""
    type: str = ""
    command: str = ""
    """The program to start, with stdio as transport."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """Environment variables in addition to the few that every server gets."""
    cwd: str | None = None
    url: str = ""
    """The URL, with streamable HTTP as transport."""
    headers: Mapping[str, str] = {}
    disabled: bool = False
    startup_seconds: float = 30.0
    """How long it may take to start and list its tools."""
    call_seconds: float = 600.0
    """How long one call may take."""

    project: str = ""
    """The folder whose file configures it; empty for a server of the user's. A file cannot set this."""

    @property
    def where(self) -> str:
        """The URL or command line, for display."""
        return self.url or " ".join((self.command, *self.args))


class McpConfig(Struct, frozen=True):
    """The servers that can be used, and the problems with others."""

    servers: tuple[Server, ...] = ()
    problems: tuple[str, ...] = ()

    def __add__(self, other: McpConfig) -> McpConfig:
        """Combine both; if two servers have the same name, keep the first."""
        mine = {server.name for server in self.servers}
        further = tuple(server for server in other.servers if server.name not in mine)
        return McpConfig(self.servers + further, self.problems + other.problems)


def load_config(
    in_code: Mapping[str, Any] | None, folder: Path, environ: Mapping[str, str], *, files: bool = True
) -> McpConfig:
    """Return the servers of a session in this folder; ``in_code`` maps names to the servers configured in code.

    Raises `InputError` for any problem in ``in_code``.
    """
    configured = _read(in_code or {}, "mcp=", environ, folder)
    if configured.problems:
        raise InputError("; ".join(configured.problems))
    if not files:
        return configured
    user = user_folder(environ)
    return configured + _project(folder, user, environ) + _file(user / USER_FILE, environ, folder)


def _read(entries: Any, source: str, environ: Mapping[str, str], folder: Path) -> McpConfig:
    """Return the servers of a mapping."""
    if not isinstance(entries, Mapping):
        return McpConfig(problems=(f'{source}: "mcpServers" must map names to servers',))
    servers: dict[str, Server] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        try:
            server = _server(str(name), entry, environ, folder)
            if server is not None and server.name in servers:
                raise InputError(f"its name counts as {server.name!r}, which is taken")
        except (InputError, msgspec.ValidationError) as error:
            problems.append(f"{source}: the MCP server {str(name)[:80]!r} is left out: {error}")
        else:
            if server is not None:
                servers[server.name] = server
    return McpConfig(tuple(servers.values()), tuple(problems))


def _project(folder: Path, user: Path, environ: Mapping[str, str]) -> McpConfig:
    path = folder / PROJECT_FILE
    if not path.exists():
        return McpConfig()
    if not Trust(user).covers(folder):
        return McpConfig(
            problems=(
                f"{path} is ignored, because its folder is not trusted; "
                f"to use it, run: sevenfold trust {folder}",
            )
        )
    config = _file(path, environ, folder)
    return replace(config, servers=tuple(replace(server, project=str(folder)) for server in config.servers))


def _file(path: Path, environ: Mapping[str, str], folder: Path) -> McpConfig:
    """Return the servers of a file; if the file cannot be used, that is listed as a problem and not raised."""
    try:
        if not path.exists():
            return McpConfig()
        if not path.is_file():
            raise SettingError("it is not a regular file")
        if path.stat().st_size > LARGEST:
            raise SettingError(f"it has more than {LARGEST:,} bytes")
        content = msgspec.json.decode(path.read_bytes())
        entries = content.get("mcpServers", {}) if isinstance(content, dict) else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, SettingError) as error:
        return McpConfig(problems=(f"{path}: cannot be used: {error}",))
    return _read(entries, str(path), environ, folder)


def _server(name: str, entry: Any, environ: Mapping[str, str], folder: Path) -> Server | None:
    """Check and complete one server; return None if it is disabled. Raises `InputError` for an invalid one."""
    server = msgspec.convert(_filled(entry, environ), Server)
    if server.disabled:
        return None
    if server.startup_seconds <= 0 or server.call_seconds <= 0:
        raise InputError("startup_seconds and call_seconds must be above 0")
    if bool(server.command) == bool(server.url):
        raise InputError("it needs either a command or a url")
    if server.command and server.type not in ("", "stdio"):
        raise InputError(f"type {server.type!r} does not go with a command; leave it out")
    if server.url and server.type not in ("", *_HTTP):
        raise InputError(
            f"type {server.type!r} is not supported; servers are spoken to over streamable HTTP"
        )
    if server.url and not server.url.startswith(("http://", "https://")):
        raise InputError(f"{server.url!r} is not an address; it begins with https:// or http://")
    return replace(server, name=server_key(name), cwd=str(folder / (server.cwd or "")), project="")


def _filled(value: Any, environ: Mapping[str, str]) -> Any:
    """Return the value with environment variables expanded; raises `InputError` if one has no value and no default."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _variable(match, environ), value)
    if isinstance(value, Mapping):
        return {key: _filled(inner, environ) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(inner, environ) for inner in value]
    return value


def _variable(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name = match[1]
    default = match[2]
    if name in environ:
        return environ[name]
    if default is None:
        raise InputError(f"the variable {name} is not set; set it, or write ${{{name}:-instead}}")
    return default
