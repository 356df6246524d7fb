"""MCP servers to test with, each a script of its own: the real SDK, or a hostile one that only knows the wire."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sevenfold.agent.mcp.config import load_config
from sevenfold.agent.mcp.servers import McpServers
from sevenfold.agent.tools.context import Context, Desk

FRIENDLY = Path(__file__).with_name("friendly_server.py")
STARTUP = 30.0
"""Seconds; only what hangs for ever takes them."""

WIRE = """
import json, os, sys, time

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def tool(name, schema=None, **more):
    return {"name": name, "inputSchema": {"type": "object"} if schema is None else schema, **more}

TOOLS = [tool("go")]

def listed():
    return TOOLS

def called(name, arguments):
    return {"content": [{"type": "text", "text": "fine"}]}

def answered(request):
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "wire", "version": "1"},
                "instructions": "Be gentle.",
            }
        case "tools/list":
            return {"tools": listed()}
        case "tools/call":
            return called(request["params"]["name"], request["params"].get("arguments"))

def serve():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answered(request)
        if result is None:
            say(id=request["id"], error={"code": -32601, "message": "no such method"})
        else:
            say(id=request["id"], result=result)
"""


def entry(script: Path, **more: Any) -> dict[str, Any]:
    """A server that is a Python script."""
    return {"command": sys.executable, "args": [str(script)], "startup_seconds": STARTUP, **more}


def hostile(folder: Path, code: str, **more: Any) -> dict[str, Any]:
    """A server that speaks by hand, with some of it done otherwise."""
    script = folder / "hostile.py"
    script.write_text(f"{WIRE}\n{textwrap.dedent(code)}\nif __name__ == '__main__':\n    serve()\n")
    return entry(script, **more)


@contextmanager
def running(folder: Path, **entries: Any) -> Iterator[McpServers]:
    """Servers by name; those that go away are started again at once."""
    found = load_config(entries, folder, {"PATH": "/usr/bin:/bin"}, files=False)
    with McpServers(found, pauses=(0.0, 0.0), wait_seconds=STARTUP) as servers:
        yield servers


def context(folder: Path) -> Context:
    return Context(workspace=folder, desk=Desk(folder))
