"""How MCP servers are doing, from values to things rich prints."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sevenfold.agent.mcp.server import ServerState
from sevenfold.cli.chat.pages import pairs
from sevenfold.cli.chat.words import clean, one_line
from sevenfold.cli.phrases import plural

LOG_LINES = 3
"""Of what a server that is not there printed last."""


def mcp_page(states: Sequence[ServerState], problems: Sequence[str]) -> RenderableType:
    """Each server with its state; for one that is not there, why; and what cannot be used."""
    if not states and not problems:
        return Text("There are no MCP servers.", style="dim")
    parts: list[RenderableType] = []
    for state in states:
        parts.append(pairs([(state.name, _doing(state), one_line(state.where, 80))]))
        if state.status != "ready" and state.problem:
            parts.append(Padding(Text(clean(state.problem), style="yellow"), (0, 0, 0, 2)))
        if state.status == "failed" and state.log:
            last = "\n".join(state.log.splitlines()[-LOG_LINES:])
            parts.append(Padding(Text(clean(last), style="dim"), (0, 0, 0, 2)))
    parts += [Text(f"skipped: {one_line(problem)}", style="yellow") for problem in problems]
    return Group(*parts)


def _doing(state: ServerState) -> str:
    again = f", started again {plural(state.restarts, 'time')}" if state.restarts else ""
    if state.status == "ready":
        return f"ready, {plural(len(state.tools), 'tool')}{again}"
    return f"{state.status}{again}"
