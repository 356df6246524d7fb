"""A well-behaved MCP server, over its input and output or, with a port, over HTTP."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import warnings
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
app = MCPServer("friendly", instructions="Add before you multiply.")


@app.tool()
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@app.tool()
def fail(reason: str) -> str:
    """Fails."""
    raise ToolError(reason)


@app.tool()
def everything() -> list[Any]:
    """One of each kind of content."""
    return [
        TextContent(text="words"),
        ImageContent(data=PIXEL, mime_type="image/png"),
        AudioContent(data="AAAA", mime_type="audio/wav"),
        ResourceLink(name="notes", uri="file:///notes.md"),
        EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="inside")),
        EmbeddedResource(
            resource=BlobResourceContents(uri="file:///b.bin", blob="AAAA", mime_type="application/x-b")
        ),
    ]


@app.tool()
def die() -> str:
    """Ends the server in the middle of the call."""
    print("about to die", file=sys.stderr, flush=True)
    os._exit(3)


@app.tool()
def environment() -> str:
    """The names of the variables the server sees."""
    return " ".join(sorted(os.environ))


@app.tool()
def leave_behind() -> int:
    """Starts something that would outlive the server."""
    return subprocess.Popen(["sleep", "600"]).pid


@app.tool()
async def grow(ctx: Context) -> str:
    """Gets the server another tool."""

    def added() -> str:
        """Came later."""
        return "late but there"

    app.add_tool(added)
    await ctx.notify_tools_changed()
    return "grown"


@app.tool()
async def slowly(ctx: Context) -> str:
    """Tells of its progress."""
    await ctx.report_progress(1, 2, "half")
    return "done"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        app.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        app.run("stdio")
