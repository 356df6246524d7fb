"""`sevenfold mcp`: an MCP server over recorded sessions, for other programs' agents."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sevenfold.cli.text import add_folder, not_installed, number, write
from sevenfold.stores import token_file

TOKEN_FILE = "mcp-token"


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_folder(command)
    command.add_argument("--store", metavar="URL")
    command.add_argument("--http", action="store_true")
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument(
        "--port", type=number(int, 1, "a whole number from 1 to 65535", high=65_536), default=8765
    )
    command.add_argument("--token-file", type=Path, metavar="FILE")


def run(options: argparse.Namespace) -> int:
    """Serve until the input ends, or until interrupted; returns the exit code."""
    # What takes long to load is loaded for the way that is served, because the agent's program waits for it.
    if not options.http:
        from sevenfold.doors.mcp_server import stdio

        stdio.serve(options.folder, options.store)
        return 0
    try:
        from sevenfold.doors.mcp_server import http
    except ModuleNotFoundError as error:
        raise not_installed("mcp --http", "mcp", error) from error
    host = http.loopback(options.host)
    file = options.token_file or _token_file()
    secret = token_file.token(file)
    name = f"[{host}]" if ":" in host else host
    write(
        f"Serving http://{name}:{options.port}{http.PATH} to this machine. Requests need the header\n"
        f"  Authorization: Bearer TOKEN, with the token in {file}\n"
        "Ctrl-C stops it.\n"
    )
    sys.stdout.flush()
    http.serve(options.folder, host, options.port, secret, options.store)
    return 0


def _token_file() -> Path:
    root = Path(os.environ.get("SEVENFOLD_HOME") or "~/.sevenfold").expanduser()
    return root / TOKEN_FILE
