"""`sevenfold serve`: serves sessions with agents over HTTP."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sevenfold.cli.text import not_installed, number, write
from sevenfold.errors import InputError
from sevenfold.plugins import TOOLS, plugins
from sevenfold.providers.registry import is_offline
from sevenfold.stores.files import private_folder
from sevenfold.stores.home import user_home

if TYPE_CHECKING:
    from sevenfold.doors.server.server import SessionServer

USUAL_PORT = 7777


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    whole = partial(number, int, 1, "a whole number from 1")
    seconds = number(float, 0, "a number of seconds, 0 or more")
    command.add_argument("--store", metavar="STORE")
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument(
        "--port", type=number(int, 1, "a whole number from 1 to 65535", high=65_536), default=USUAL_PORT
    )
    command.add_argument("--name", action="append", default=[], metavar="HOST")
    command.add_argument("--model", action="append", default=[])
    command.add_argument("--tool", action="append", default=[], metavar="NAME")
    command.add_argument("--runs", type=whole(), default=64)
    command.add_argument("--tenant-runs", type=whole(), default=32)
    command.add_argument("--streams", type=whole(), default=1_000)
    command.add_argument("--sessions", type=whole(), default=1_000)
    command.add_argument("--body-mb", type=whole(), default=8)
    command.add_argument("--idle-seconds", type=seconds, default=600.0)
    command.add_argument("--drain-seconds", type=seconds, default=30.0)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal asks to end."""
    try:
        # The server needs packages of an extra.
        import jsonschema  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise not_installed("server", "server", error) from error
    from sevenfold.doors.server.account_databases import open_accounts
    from sevenfold.doors.server.options import ServerLimits, ServerOptions
    from sevenfold.doors.server.server import SessionServer

    store = store_of(options)
    workspace = user_home().root / "server" / "workspace"
    private_folder(workspace)
    limits = ServerLimits(
        runs=options.runs,
        tenant_runs=min(options.tenant_runs, options.runs),
        streams=options.streams,
        sessions=options.sessions,
        body_bytes=options.body_mb << 20,
        idle_seconds=options.idle_seconds,
        drain_seconds=options.drain_seconds,
    )
    server_options = ServerOptions(
        store, tuple(options.model), workspace, _tools(options.tool), limits=limits
    )
    accounts = open_accounts(store)
    try:
        tenants = len(accounts.tenants())
        server = SessionServer(
            server_options, accounts, host=options.host, port=options.port, names=tuple(options.name)
        )
    except BaseException:
        accounts.close()
        raise
    server.run(lambda: _began(server, options, tenants))
    if server.left:
        runs = "1 run was" if server.left == 1 else f"{server.left} runs were"
        write(f"{runs} not done after {options.drain_seconds:g} s; the next server goes on with it.\n")
        sys.stdout.flush()
        # Their threads wait for models. What they have done is in the log, and nothing else of them is to be kept.
        os._exit(0)
    return 0


def store_of(options: argparse.Namespace) -> Path | str:
    """Where a server keeps its sessions and accounts."""
    url: str | None = options.store
    if url is None:
        return user_home().root / "server"
    return url if "://" in url else Path(url).expanduser().absolute()


def _tools(names: list[str]) -> dict[str, Any]:
    """The tools that the server carries out, from installed packages."""
    from sevenfold.agent.standard_tools import as_tools

    tools: dict[str, Any] = {}
    for name in names:
        loaded = next(filter(None, (plugin.load() for plugin in plugins(TOOLS, name))), None)
        if loaded is None:
            there = ", ".join(sorted({plugin.name for plugin in plugins(TOOLS)})) or "none"
            raise InputError(
                f"no installed package has a tool {name!r} among its entry points of the group {TOOLS}; there "
                f"are: {there}"
            )
        (tool,) = as_tools([loaded])
        tools[tool.name] = tool
    return tools


def _began(server: SessionServer, options: argparse.Namespace, tenants: int) -> None:
    lines = [f"Sessions are served at {server.url}, described at {server.url}/openapi.json"]
    offline = filter(is_offline, options.model)
    lines += [
        f"{model} has no key and no address here: the offline model answers in its place"
        for model in offline
    ]
    if not tenants:
        store = f" --store {options.store}" if options.store else ""
        lines.append("Nobody may use it yet. Add somebody, and make a token:")
        lines += [f"  sevenfold tenants {action} NAME{store}" for action in ("add", "token")]
    lines.append("Ctrl-C or SIGTERM stops it: runs under way may end, new ones are refused.")
    write("\n".join(lines) + "\n")
    sys.stdout.flush()
    # A service manager ends it with this signal, and a second one must not cut short what drains.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
