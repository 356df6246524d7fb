"""Real MCP servers in child processes: what they can do reaches the model, and nothing of them stays behind."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from sevenfold.agent.mcp.config import load_config
from sevenfold.agent.mcp.connection import ServerState
from sevenfold.agent.mcp.servers import McpServers
from sevenfold.agent.tools.context import Abort, Context
from sevenfold.agent.tools.tool import Toolbox
from tests.mcp_servers.serving import FRIENDLY, STARTUP, context, entry, hostile, running


@pytest.fixture(scope="module")
def friendly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServers]:
    with running(tmp_path_factory.mktemp("work"), friendly=entry(FRIENDLY)) as servers:
        servers.tools()
        yield servers


@pytest.fixture
def here(tmp_path: Path) -> Context:
    return context(tmp_path)


def box(servers: McpServers) -> Toolbox:
    return Toolbox(servers.tools())


def until(servers: McpServers, test: Callable[[ServerState], bool]) -> ServerState:
    """The only server's state, once it passes a test."""
    assert servers.wait(STARTUP, lambda states: test(states[0]))
    return servers.states()[0]


def test_the_tools_of_a_server_are_named_after_it_and_carry_its_schema(friendly: McpServers) -> None:
    made = box(friendly)
    add = made.get("mcp__friendly__add")
    assert add is not None
    assert (add.description, add.kind) == ("Adds two numbers.", "")
    assert add.schema["required"] == ["a"]
    assert friendly.taken.instructions == {"friendly": "Add before you multiply."}


def test_a_call_is_answered_for_those_who_wait_and_those_who_await(
    friendly: McpServers, here: Context
) -> None:
    made = box(friendly)
    assert made.run("mcp__friendly__add", {"a": 2, "b": 3}, here).content == "5"
    assert asyncio.run(made.run_async("mcp__friendly__add", {"a": 2}, here)).content == "3"


def test_each_kind_of_content_becomes_what_a_model_can_be_shown(
    friendly: McpServers, here: Context
) -> None:
    content = box(friendly).run("mcp__friendly__everything", {}, here).content
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["text", "image", "text", "text", "text", "text"]
    words = [block["text"] for block in content if block["type"] == "text"]
    assert words[0] == "words"
    assert "audio/wav" in words[1]
    assert "file:///notes.md" in words[2]
    assert words[3] == "[resource file:///a.txt]\ninside"
    assert "application/x-b" in words[4]


def test_an_error_of_the_tool_is_an_error_result(friendly: McpServers, here: Context) -> None:
    got = box(friendly).run("mcp__friendly__fail", {"reason": "the moon is full"}, here)
    assert got.is_error
    assert "the moon is full" in str(got.content)


def test_a_server_gets_a_small_environment(friendly: McpServers, here: Context) -> None:
    names = str(box(friendly).run("mcp__friendly__environment", {}, here).content).split()
    assert "PATH" in names
    assert not [name for name in names if "KEY" in name or "TOKEN" in name]
    assert set(names) < {*os.environ, "PATH"} | {
        name for name in names if name.startswith("SEVENFOLD_RUN_")
    }


def test_progress_is_told_while_it_comes(friendly: McpServers, here: Context) -> None:
    told: list[str] = []
    got = box(friendly).run("mcp__friendly__slowly", {}, replace(here, progress=told.append))
    assert got.content == "done"
    assert told == ["half 1/2\n"]


def test_a_server_that_dies_in_a_call_is_an_error_and_there_again_for_the_next(tmp_path: Path) -> None:
    with running(tmp_path, friendly=entry(FRIENDLY)) as servers:
        made, here = box(servers), context(tmp_path)
        died = made.run("mcp__friendly__die", {}, here)
        assert died.is_error
        assert "disconnected" in str(died.content)
        assert "about to die" in str(died.content)
        assert made.run("mcp__friendly__add", {"a": 1}, here).content == "2"
        assert servers.states()[0].restarts == 1

        pid = int(str(made.run("mcp__friendly__leave_behind", {}, here).content))
        assert made.run("mcp__friendly__grow", {}, here).content == "grown"
        until(servers, lambda state: any(tool["name"] == "added" for tool in state.tools))
        assert box(servers).run("mcp__friendly__added", {}, here).content == "late but there"
    assert servers.states()[0].status == "closed"
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_a_server_over_http_is_reached_once_it_listens_and_looked_for_after_a_crash(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {"web": {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"x-test": "1"}}}
    found = load_config(given, tmp_path, os.environ, files=False)
    with McpServers(found, pauses=(0.1,) * 200, wait_seconds=0) as servers:
        assert servers.tools() == []
        with _listening(port):
            until(servers, lambda state: state.status == "ready")
            made, here = box(servers), context(tmp_path)
            assert made.run("mcp__web__add", {"a": 2}, here).content == "3"
            assert made.run("mcp__web__die", {}, here).is_error
            until(servers, lambda state: state.status == "connecting")


class _listening:  # noqa: N801 (used like a function)
    def __init__(self, port: int) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(FRIENDLY), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        # Asked to end, it would wait for us to stop listening.
        self._child.kill()
        self._child.wait()


def test_a_server_that_says_nothing_fails_and_the_others_go_on(tmp_path: Path) -> None:
    silent = {"command": "sleep", "args": ["600"], "startup_seconds": 0.2}
    missing = {"command": "there-is-no-such-program"}
    with running(tmp_path, good=hostile(tmp_path, ""), silent=silent, missing=missing) as servers:
        assert [tool.name for tool in servers.tools()] == ["mcp__good__go"]
        states = {state.name: state for state in servers.states()}
        assert "did not answer within 0.2 s" in states["silent"].problem
        assert "No such file" in states["missing"].problem


def test_a_server_that_prints_and_exits_is_told_with_what_it_printed(tmp_path: Path) -> None:
    broken = hostile(tmp_path, "print('no config file', file=sys.stderr); sys.exit(1)")
    with running(tmp_path, broken=broken) as servers:
        assert servers.tools() == []
        state = servers.states()[0]
        assert (state.status, state.log) == ("failed", "no config file")


def test_a_call_that_hangs_ends_with_its_time(tmp_path: Path) -> None:
    code = "def called(name, arguments):\n    time.sleep(600)"
    with running(tmp_path, slow=hostile(tmp_path, code, call_seconds=0.2)) as servers:
        got = box(servers).run("mcp__slow__go", {}, context(tmp_path))
        assert got.is_error
        assert "within 0.2 s" in str(got.content)


def test_a_call_that_hangs_is_left_when_the_agent_is_interrupted(tmp_path: Path) -> None:
    code = "def called(name, arguments):\n    time.sleep(600)"
    with running(tmp_path, slow=hostile(tmp_path, code)) as servers:
        made, abort = box(servers), Abort()
        abort.set()
        assert made.run("mcp__slow__go", {}, replace(context(tmp_path), abort=abort)).is_error

        async def stopped() -> None:
            task = asyncio.ensure_future(made.run_async("mcp__slow__go", {}, context(tmp_path)))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(stopped())


def test_closing_in_the_middle_of_a_call_is_an_error_result_even_when_awaited(tmp_path: Path) -> None:
    code = "def called(name, arguments):\n    print('called', file=sys.stderr, flush=True)\n    time.sleep(600)"
    with running(tmp_path, slow=hostile(tmp_path, code)) as servers:
        made = box(servers)

        async def closed() -> str:
            task = asyncio.ensure_future(made.run_async("mcp__slow__go", {}, context(tmp_path)))
            await asyncio.sleep(0)
            await asyncio.to_thread(servers.close)
            got = await task
            assert got.is_error
            return str(got.content)

        assert "disconnected" in asyncio.run(closed())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("{'content': 7}", "invalid answer"),
        ("{'content': [{'type': 'text'}]}", "invalid answer"),
        ("{'content': [{'type': 'hologram', 'data': 1}]}", "invalid answer"),
        ("os._exit(1)", "disconnected"),
        ("print('x' * (33 * 1024 * 1024), flush=True)", "disconnected"),
        ("say(id=999, result={}) or say(nonsense=1) or print('not json') or None", "no such method"),
    ],
)
def test_an_answer_of_the_wrong_shape_is_an_error_result(answer: str, says: str, tmp_path: Path) -> None:
    code = f"def called(name, arguments):\n    return {answer}"
    with running(tmp_path, bad=hostile(tmp_path, code, call_seconds=20)) as servers:
        got = box(servers).run("mcp__bad__go", {}, context(tmp_path))
        assert got.is_error
        assert says in str(got.content)


def test_an_answer_that_is_no_message_is_waited_for_only_as_long_as_a_call_may_take(tmp_path: Path) -> None:
    code = "def called(name, arguments):\n    return 'fine'"
    with running(tmp_path, bad=hostile(tmp_path, code, call_seconds=0.2)) as servers:
        assert "did not answer" in str(box(servers).run("mcp__bad__go", {}, context(tmp_path)).content)
        assert '"result": "fine"' in servers.states()[0].log


def test_a_server_that_lists_nonsense_offers_what_makes_sense(tmp_path: Path) -> None:
    code = """
    TOOLS = [
        tool("good", {"type": "object", "properties": {"n": {"type": "integer"}}}),
        tool("good"),
        tool("bad name/../x"),
        tool(""),
        tool("huge", {"type": "object", "description": "y" * 20_000}),
        tool("pattern", {"type": "object", "properties": {"s": {"type": "string", "pattern": "(a+)+$"}}}),
        tool("odd", {"type": "object", "properties": {"x": {"type": 7, "enum": 3}}}),
    ]
    """
    with running(tmp_path, odd=hostile(tmp_path, code)) as servers:
        made = box(servers)
        assert [tool.name for tool in made] == [
            "mcp__odd__bad_name_x",
            "mcp__odd__good",
            "mcp__odd__odd",
            "mcp__odd__pattern",
        ]
        assert len(servers.problems) == 3
        assert made.run("mcp__odd__odd", {"x": 1}, context(tmp_path)).content == "fine"
        tried = made.run("mcp__odd__pattern", {"s": "a" * 60 + "!"}, context(tmp_path))
        assert tried.content == "fine"


def test_a_server_that_lists_wrong_types_fails_alone(tmp_path: Path) -> None:
    with running(tmp_path, bad=hostile(tmp_path, "TOOLS = [{'name': 7, 'inputSchema': []}]")) as servers:
        assert servers.tools() == []
        assert servers.states()[0].status == "failed"


def test_a_server_that_keeps_dying_is_left_alone_and_can_be_started_anew(tmp_path: Path) -> None:
    flag = tmp_path / "calm"
    code = f"""
    def listed():
        if not os.path.exists({str(flag)!r}):
            import threading
            threading.Timer(0.05, os._exit, (1,)).start()
        return TOOLS
    """
    with running(tmp_path, frail=hostile(tmp_path, code)) as servers:
        state = until(servers, lambda state: state.status == "failed")
        assert (state.restarts, state.problem) == (2, "it disconnected")
        got = box(servers).run("mcp__frail__go", {}, context(tmp_path))
        assert got.is_error
        assert "is not available" in str(got.content)
        flag.touch()
        servers.restart("frail")
        assert box(servers).run("mcp__frail__go", {}, context(tmp_path)).content == "fine"


def test_a_server_can_be_restarted_as_soon_as_it_is_opened(tmp_path: Path) -> None:
    for _ in range(5):
        with running(tmp_path, calm=hostile(tmp_path, "")) as servers:
            servers.restart("calm")
            assert until(servers, lambda state: state.status != "connecting").status == "ready"


def test_a_program_that_forgets_to_close_leaves_no_server_behind(tmp_path: Path) -> None:
    code = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), file=open("pid", "w"))

    def serve_on():
        while True:
            time.sleep(60)

    inner = serve

    def serve():
        inner()
        serve_on()
    """
    given = hostile(tmp_path, code)
    script = f"""
from pathlib import Path
from sevenfold.agent.mcp.servers import McpServers
servers = McpServers.of({{"stubborn": {given!r}}}, Path({str(tmp_path)!r}), files=False)
assert servers.tools({STARTUP})
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert not _alive(int((tmp_path / "pid").read_text()))
