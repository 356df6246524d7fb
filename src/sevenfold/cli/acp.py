"""`sevenfold acp`: our agent in editors that speak the Agent Client Protocol."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from msgspec.structs import replace

from sevenfold.agent.permissions.engine import Mode
from sevenfold.cli.text import not_installed
from sevenfold.errors import Refused

if TYPE_CHECKING:
    from sevenfold.agent.executor import ConsentFunction
    from sevenfold.cli.chat.start import ChatOptions
    from sevenfold.doors.acp.server import EditorSessionRequest, ListedSession, OpenedAgent


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("--model", default="", metavar="NAME")
    command.add_argument("--mode", choices=get_args(Mode))


def run(options: argparse.Namespace) -> int:
    """Serve until the editor goes away; returns the exit code."""
    try:
        from sevenfold.doors.acp.server import AgentSource, serve
    except ModuleNotFoundError as error:
        raise not_installed("acp", "acp", error) from error

    def open_agent(request: EditorSessionRequest, consent: ConsentFunction) -> OpenedAgent:
        return _open(request, consent, options)

    serve(AgentSource(open_agent, _stored))
    return 0


def _open(
    request: EditorSessionRequest, consent: ConsentFunction, options: argparse.Namespace
) -> OpenedAgent:
    """Open the agent of a session; raises `Refused` if there is no such session or no key."""
    from sevenfold.agent.agent import Agent
    from sevenfold.cli.chat import start
    from sevenfold.doors.acp.server import OpenedAgent

    chosen = _chosen(request, options)
    chosen.require_key()
    agent_settings = start.agent_options(chosen)
    agent_settings["consent"] = consent
    with start.explained_lock(chosen):
        agent = Agent(chosen.model, **agent_settings)

    def close() -> None:
        agent.close()
        agent_settings["client"].close()
        start.forget_if_empty(chosen)

    return OpenedAgent(agent, chosen.name, close)


def _chosen(request: EditorSessionRequest, options: argparse.Namespace) -> ChatOptions:
    """The options of a new session, or of a stored one with the model and effort it had last."""
    from sevenfold.cli.chat import start
    from sevenfold.cli.chat.history import new_name, sessions
    from sevenfold.profiles import full_name

    model = full_name(options.model)
    fresh = start.ChatOptions(
        folder=request.folder,
        name=new_name(),
        model=model or start.DEFAULT_MODEL,
        mode=options.mode,
        roots=request.roots,
        servers=request.servers or None,
    )
    if not request.name:
        return fresh
    session = next((stored for stored in sessions(request.folder) if stored.name == request.name), None)
    if session is None:
        raise Refused(f"there is no session {request.name} in {request.folder}")
    recorded = start.recorded_file(session.path, session.name, "")
    effort, thinking = start.last_controls(recorded)
    return replace(
        fresh,
        name=session.name,
        model=model or start.last_model(recorded) or fresh.model,
        effort=effort,
        thinking=thinking,
        resumed=True,
    )


def _stored(folder: Path) -> list[ListedSession]:
    from sevenfold.cli.chat.history import sessions
    from sevenfold.doors.acp.server import ListedSession

    return [
        ListedSession(
            session.name, session.title, datetime.fromtimestamp(session.modified, UTC).isoformat()
        )
        for session in sessions(folder)
    ]
