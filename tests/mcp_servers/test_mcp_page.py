"""What a user is shown of MCP servers."""

from __future__ import annotations

from rich.console import Console

from sevenfold.agent.mcp.connection import ServerState
from sevenfold.cli.chat.pages import mcp_page


def shown(states: list[ServerState], problems: tuple[str, ...] = ()) -> str:
    console = Console(width=60, color_system=None)
    with console.capture() as captured:
        console.print(mcp_page(states, problems))
    return captured.get()


def test_each_server_is_shown_with_its_state_and_a_failed_one_with_its_reason() -> None:
    ready = ServerState(name="docs", where="docs-server", status="ready", tools=({}, {}), restarts=1)
    failed = ServerState(
        name="web",
        where="https://x",
        status="failed",
        problem="it disconnected",
        log="one\ntwo\nthree\x1b[31m\nfour",
    )
    said = shown([ready, failed], (".mcp.json is ignored",))
    assert "ready, 2 tools, restarted 1 time" in " ".join(said.split())
    assert "it disconnected" in said
    assert "four" in said
    assert "one\n" not in said
    assert "\x1b" not in said
    assert ".mcp.json is ignored" in said


def test_without_servers_it_says_so() -> None:
    assert shown([]).strip() == "There are no MCP servers."
