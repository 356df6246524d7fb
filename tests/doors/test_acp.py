"""Our agent in an editor: `sevenfold acp` as a child process, spoken to with the protocol's own client."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

import sevenfold
from sevenfold.doors.acp.server import AgentSource, EditorAgent, EditorSessionRequest, OpenedAgent
from sevenfold.lab.simulator.brains import ScriptedBrain, Step, tool_use
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve

Answer = Callable[[Any, list[Any]], str]
"""Chooses an option of a permission request; empty: the user cancelled."""
TODOS = [
    {"content": "Build the pier", "status": "completed"},
    {"content": "Build the crane", "status": "in_progress"},
]


class Editor:
    """An editor that takes note of everything; ``answer`` is its user."""

    def __init__(self, answer: Answer) -> None:
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, list[Any]]] = []
        self.answer = answer

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append((tool_call, options))
        chosen = self.answer(tool_call, options)
        if not chosen:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        pass

    def said(self) -> str:
        chunks = [update for update in self.updates if update.session_update == "agent_message_chunk"]
        return "".join(chunk.content.text for chunk in chunks)

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]


def once(call: Any, options: list[Any]) -> str:
    return "once"


@asynccontextmanager
async def connected(editor: Any, home: Path, url: str, *arguments: str) -> AsyncIterator[Any]:
    """An editor's connection to the command, already greeted."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SEVENFOLD_HOME": str(home / "sevenfold"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "simulated-key",
    }
    command = ["-P", "-m", "sevenfold", "acp", *arguments]
    async with acp.spawn_agent_process(editor, sys.executable, *command, env=env, cwd=home) as (agent, _):
        greeted = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_capabilities=schema.ClientCapabilities()
        )
        assert greeted.protocol_version == acp.PROTOCOL_VERSION
        assert greeted.agent_capabilities is not None
        assert greeted.agent_capabilities.load_session
        yield agent


def in_editor(
    tmp_path: Path,
    steps: Sequence[Step],
    work: Callable[[Any, Path], Awaitable[None]],
    answer: Answer = once,
    *arguments: str,
) -> Editor:
    """Have an editor work with the command while the simulated model plays steps."""
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    editor = Editor(answer)

    async def run(url: str) -> None:
        async with connected(editor, tmp_path, url, *arguments) as agent:
            await work(agent, folder)

    with serve(Simulator(ScriptedBrain(steps))) as url:
        asyncio.run(asyncio.wait_for(run(url), 60))
    return editor


def asks(words: str) -> Callable[[Any, Path], Awaitable[None]]:
    """One session with one message."""

    async def work(agent: Any, folder: Path) -> None:
        opened = await agent.new_session(cwd=str(folder), mcp_servers=[])
        done = await agent.prompt(session_id=opened.session_id, prompt=[acp.text_block(words)])
        assert done.stop_reason == "end_turn"

    return work


@pytest.mark.spec("S32.1")
def test_a_change_is_shown_as_a_diff_before_it_is_permitted_and_after_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    pier = tmp_path / "work" / "pier.txt"
    pier.write_text("wood\nrope\n")
    before_consent = []

    def answer(call: Any, options: list[Any]) -> str:
        before_consent.append(pier.read_text())
        return "once"

    edit = tool_use("Edit", {"path": "pier.txt", "old": "wood", "new": "stone"})
    read = tool_use("Read", {"path": "pier.txt"})
    editor = in_editor(tmp_path, [[read], [edit], "It is of stone."], asks("Mend the pier."), answer)
    assert pier.read_text() == "stone\nrope\n"
    assert before_consent == ["wood\nrope\n"]
    [(asked, options)] = editor.asked
    [diff] = [part for part in asked.content if part.type == "diff"]
    assert (diff.path, diff.old_text, diff.new_text) == (str(pier), "wood\nrope\n", "stone\nrope\n")
    assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"]
    started = {update.tool_call_id: update for update in editor.of("tool_call")}
    assert [(update.kind, update.locations[0].path) for update in started.values()] == [
        ("read", str(pier)),
        ("edit", str(pier)),
    ]
    ends = {update.tool_call_id: update.status for update in editor.of("tool_call_update") if update.status}
    assert ends == dict.fromkeys(started, "completed")
    assert editor.said() == "It is of stone."


@pytest.mark.spec("S32.1")
def test_a_refused_call_is_not_carried_out_and_the_agent_goes_on(tmp_path: Path) -> None:
    write = tool_use("Write", {"path": "crane.txt", "content": "up\n"})
    editor = in_editor(tmp_path, [[write], "Then not."], asks("Build."), lambda call, options: "no")
    assert not (tmp_path / "work" / "crane.txt").exists()
    assert editor.of("tool_call_update")[-1].status == "failed"
    assert editor.said() == "Then not."


@pytest.mark.spec("S32.1")
def test_what_is_allowed_for_the_session_is_not_asked_again(tmp_path: Path) -> None:
    writes = [[tool_use("Write", {"path": f"{name}.txt", "content": "x\n"})] for name in "ab"]
    editor = in_editor(tmp_path, [*writes, "Both."], asks("Build."), lambda call, options: "always")
    assert len(editor.asked) == 1
    assert (tmp_path / "work" / "b.txt").exists()


@pytest.mark.spec("S32.2")
def test_the_to_do_list_is_the_editors_plan(tmp_path: Path) -> None:
    editor = in_editor(tmp_path, [[tool_use("Todo", {"todos": TODOS})], "Noted."], asks("Plan it."))
    [plan] = editor.of("plan")
    assert [(entry.content, entry.status) for entry in plan.entries] == [
        ("Build the pier", "completed"),
        ("Build the crane", "in_progress"),
    ]


@pytest.mark.spec("S32.2")
def test_a_plan_is_approved_by_the_user_who_chooses_the_mode(tmp_path: Path) -> None:
    async def work(agent: Any, folder: Path) -> None:
        opened = await agent.new_session(cwd=str(folder), mcp_servers=[])
        assert opened.modes.current_mode_id == "ask"
        await agent.set_session_mode(session_id=opened.session_id, mode_id="plan")
        await agent.prompt(session_id=opened.session_id, prompt=[acp.text_block("Plan a pier.")])

    ready = tool_use("PlanReady", {"plan": "# The pier\n1. Drive the piles."})
    write = tool_use("Write", {"path": "pile.txt", "content": "1\n"})

    def answer(call: Any, options: list[Any]) -> str:
        shown = "".join(part.content.text for part in call.content if part.type == "content")
        assert "Drive the piles" in shown
        return "accept_edits"

    editor = in_editor(tmp_path, [[ready], [write], "Driven."], work, answer)
    assert [update.current_mode_id for update in editor.of("current_mode_update")] == ["accept_edits"]
    assert len(editor.asked) == 1
    assert (tmp_path / "work" / "pile.txt").exists()


@pytest.mark.spec("S32.3")
def test_cancelling_stops_a_running_tool_and_the_session_goes_on(tmp_path: Path) -> None:
    async def work(agent: Any, folder: Path) -> None:
        opened = await agent.new_session(cwd=str(folder), mcp_servers=[])
        running = asyncio.ensure_future(
            agent.prompt(session_id=opened.session_id, prompt=[acp.text_block("Wait for the tide.")])
        )
        while not (folder / "started").exists():
            await asyncio.sleep(0.02)
        await agent.cancel(session_id=opened.session_id)
        assert (await running).stop_reason == "cancelled"
        done = await agent.prompt(session_id=opened.session_id, prompt=[acp.text_block("And now?")])
        assert done.stop_reason == "end_turn"

    shell = tool_use("Shell", {"command": "touch started; sleep 300"})
    editor = in_editor(tmp_path, [[shell], "High tide."], work)
    assert editor.of("tool_call_update")[-1].status == "failed"
    assert editor.said() == "High tide."


@pytest.mark.spec("S32.3")
def test_cancelling_instead_of_answering_a_question_ends_the_turn(tmp_path: Path) -> None:
    async def work(agent: Any, folder: Path) -> None:
        opened = await agent.new_session(cwd=str(folder), mcp_servers=[])
        done = await agent.prompt(session_id=opened.session_id, prompt=[acp.text_block("Build.")])
        assert done.stop_reason == "cancelled"

    write = tool_use("Write", {"path": "crane.txt", "content": "up\n"})
    in_editor(tmp_path, [[write]], work, lambda call, options: "")
    assert not (tmp_path / "work" / "crane.txt").exists()


@pytest.mark.spec("S32.3")
def test_an_editor_that_goes_away_leaves_a_session_that_can_be_loaded(tmp_path: Path) -> None:
    sessions = []

    async def leave(agent: Any, folder: Path) -> None:
        opened = await agent.new_session(cwd=str(folder), mcp_servers=[])
        sessions.append(opened.session_id)
        asyncio.ensure_future(  # noqa: RUF006
            agent.prompt(session_id=opened.session_id, prompt=[acp.text_block("Wait for the tide.")])
        )
        while not (folder / "started").exists():
            await asyncio.sleep(0.02)

    in_editor(tmp_path, [[tool_use("Shell", {"command": "touch started; sleep 300"})]], leave)

    async def load(agent: Any, folder: Path) -> None:
        await agent.load_session(cwd=str(folder), session_id=sessions[0], mcp_servers=[])
        done = await agent.prompt(session_id=sessions[0], prompt=[acp.text_block("And now?")])
        assert done.stop_reason == "end_turn"

    assert in_editor(tmp_path, ["High tide."], load).said() == "High tide."


@pytest.mark.spec("S32.4")
def test_a_session_is_listed_loaded_and_shown_again(tmp_path: Path) -> None:
    async def first(agent: Any, folder: Path) -> None:
        (folder / "log.txt").write_text("calm\n")
        opened = await agent.new_session(cwd=str(folder), mcp_servers=[])
        await agent.prompt(session_id=opened.session_id, prompt=[acp.text_block("How is the sea?")])

    read = tool_use("Read", {"path": "log.txt"})
    in_editor(tmp_path, [[read], "The sea is calm."], first)
    asked_again: list[str] = []

    async def second(agent: Any, folder: Path) -> None:
        listed = await agent.list_sessions(cwd=str(folder))
        [stored] = listed.sessions
        assert stored.title == "How is the sea?"
        await agent.load_session(cwd=str(folder), session_id=stored.session_id, mcp_servers=[])
        asked_again.extend(update.session_update for update in editor_updates())
        done = await agent.prompt(session_id=stored.session_id, prompt=[acp.text_block("Still?")])
        assert done.stop_reason == "end_turn"

    editor = Editor(once)

    def editor_updates() -> list[Any]:
        return editor.updates

    async def run(url: str) -> None:
        async with connected(editor, tmp_path, url) as agent:
            await second(agent, tmp_path / "work")

    with serve(simulator := Simulator(ScriptedBrain(["Yes, still."]))) as url:
        asyncio.run(asyncio.wait_for(run(url), 60))
    assert asked_again == [
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "agent_message_chunk",
    ]
    assert b"The sea is calm." in simulator.requests[-1].raw
    assert editor.said() == "The sea is calm.Yes, still."


@pytest.mark.spec("S32.4")
def test_what_cannot_be_done_is_refused_with_the_reason(tmp_path: Path) -> None:
    reasons: list[str] = []

    async def work(agent: Any, folder: Path) -> None:
        async def refused(request: Awaitable[Any]) -> None:
            with pytest.raises(acp.RequestError) as error:
                await request
            reasons.append(f"{error.value} {error.value.data or ''}")

        await refused(agent.new_session(cwd="here", mcp_servers=[]))
        await refused(agent.load_session(cwd=str(folder), session_id="../../etc/passwd", mcp_servers=[]))
        await refused(agent.prompt(session_id="nobody", prompt=[acp.text_block("Hello.")]))
        opened = await agent.new_session(cwd=str(folder), mcp_servers=[])
        await refused(agent.set_session_mode(session_id=opened.session_id, mode_id="yolo"))
        picture = acp.image_block("eA==", "image/png")
        await refused(agent.prompt(session_id=opened.session_id, prompt=[picture]))

    in_editor(tmp_path, [], work)
    expected = ["absolute path", "no session ../../etc/passwd", "nobody", "no mode 'yolo'", "'image'"]
    assert len(reasons) == len(expected)
    for reason, part in zip(reasons, expected, strict=True):
        assert part in reason


@pytest.mark.spec("S32.4")
def test_files_and_texts_that_the_editor_attaches_reach_the_model(tmp_path: Path) -> None:
    async def work(agent: Any, folder: Path) -> None:
        (folder / "tide.txt").write_text("tide-table-7719\n")
        opened = await agent.new_session(cwd=str(folder), mcp_servers=[])
        said = [
            acp.text_block("What do these say? "),
            acp.resource_link_block("tide.txt", (folder / "tide.txt").as_uri()),
            acp.resource_block(acp.embedded_text_resource("file:///unsaved.txt", "unsaved-5512")),
        ]
        await agent.prompt(session_id=opened.session_id, prompt=said)

    seen: list[str] = []

    def model(prompt: Any) -> str:
        seen.append(str(prompt.messages))
        return "Both."

    in_editor(tmp_path, [model], work)
    assert "tide-table-7719" in seen[0]
    assert "unsaved-5512" in seen[0]


@pytest.mark.spec("S32.5")
def test_sessions_that_are_opened_at_the_same_time_cannot_exceed_the_limit_together(tmp_path: Path) -> None:
    names = iter(("first", "second", "third"))

    def opened(request: EditorSessionRequest, consent: Any) -> OpenedAgent:
        name = next(names)
        agent = sevenfold.Agent("offline", name=name, store=tmp_path, folder=tmp_path, consent=consent)
        return OpenedAgent(agent, name, agent.close)

    async def three_at_once() -> list[Any]:
        agent = EditorAgent(AgentSource(opened, lambda folder: ()), max_sessions=2)
        editor: Any = Editor(once)
        agent.on_connect(editor)
        folder = str(tmp_path)
        outcomes = await asyncio.gather(
            *(agent.new_session(folder) for _ in range(3)), return_exceptions=True
        )
        await agent.close()
        return list(outcomes)

    outcomes = asyncio.run(three_at_once())
    refusals = [outcome for outcome in outcomes if isinstance(outcome, acp.RequestError)]
    reason = "2 sessions are open, which is the limit; restart the agent to close them"
    assert [refusal.data for refusal in refusals] == [{"reason": reason}]
