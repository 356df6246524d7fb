"""How a chat begins: which session, which model, how free the agent is.

Opening an agent for a chat: its hooks, its client, whom it asks; and what has to be settled before that.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.agent.agent import Agent
from sevenfold.agent.assembly import AgentOptions
from sevenfold.agent.hooks.registry import Hooks
from sevenfold.agent.hooks.settings import load
from sevenfold.agent.mcp.config import PROJECT_FILE, USER_FILE
from sevenfold.agent.permissions.engine import Mode
from sevenfold.cli.chat.history import title
from sevenfold.cli.chat.questions import Choice, Question
from sevenfold.errors import TranscriptLocked
from sevenfold.ports import Call, Client, Reply, Watcher
from sevenfold.providers.models import Lister
from sevenfold.providers.registry import address_for, client_for, provider_for
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.trust import Trust, user_folder

if TYPE_CHECKING:
    from sevenfold.agent.mcp.servers import McpServers
    from sevenfold.cli.chat.chat import Chat


# -- start


DEFAULT_MODEL = "claude-sonnet-5-5"
"""Whom a chat asks if nobody says otherwise and no session is continued."""


class Start(Struct, frozen=True, kw_only=True):
    """What an agent is opened with."""

    folder: Path
    name: str
    """Of the session."""
    model: str
    mode: Mode | None = None
    """None: as it was, or asking."""
    max_turns: int | None = None
    max_usd: float | None = None
    rules: dict[str, list[str]] = {}
    resumed: bool = False

    @property
    def offline(self) -> bool:
        """Does the offline model answer, because nothing is configured?"""
        return not provider_for(self.model).configured(os.environ)

    def no_key(self) -> str:
        """What to tell a user whom the offline model will answer."""
        missing = provider_for(self.model).unconfigured()
        return f"{missing}, so the offline model answers: it only repeats what you say."


# -- open


HOOKS_FILE = "hooks.json"
PROJECT_HOOKS = Path(".sevenfold") / HOOKS_FILE
MCP_SECONDS = 0.5
"""How long a chat waits for MCP servers before it can be typed into; others are announced when they are there."""
_NOT_TRUSTED = "chat-not-trusted"


class Later:
    """A client that is made when somebody is first asked, because loading an SDK takes longer than all else."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._client: Client | None = None
        self._lock = threading.Lock()

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Send the request, wait for the whole answer."""
        return self._made().ask(call, watch)

    @property
    def address(self) -> str:
        """Where the server is."""
        return address_for(self._model)

    def listing(self, model: str, seconds: float) -> bytes:
        """What the server says of a model, if it says anything."""
        made = self._made()
        return made.listing(model, seconds) if isinstance(made, Lister) else b"[]"

    def _made(self) -> Client:
        with self._lock:
            if self._client is None:
                self._client = client_for(self._model)
            return self._client

    def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            self._client.close()


def open_agent(start: Start, chat: Chat) -> Agent:
    """The agent a chat talks to, which asks that chat's user."""
    options = agent_options(start)
    options["consent"], options["ask"], options["listen"] = chat.consent, chat.answer, (chat.listen,)
    return Agent(start.model, **options)


def agent_options(start: Start) -> AgentOptions:
    """What an agent is made with, whoever is asked."""
    options: AgentOptions = {
        "name": start.name,
        "folder": start.folder,
        "rules": start.rules,
        "hooks": hooks_of(start.folder),
        "max_turns": start.max_turns,
        "max_usd": start.max_usd,
        "client": Later(start.model),
        "mentions": True,
    }
    if start.mode is not None:
        options["mode"] = start.mode
    if (servers := servers_of(start.folder)) is not None:
        options["mcp"] = servers
    return options


def servers_of(folder: Path) -> McpServers | None:
    """The MCP servers of the user, and of the folder if it is trusted; None if there are none to speak of."""
    if not any(path.is_file() for path in (folder / PROJECT_FILE, user_folder(os.environ) / USER_FILE)):
        return None
    from sevenfold.agent.mcp.servers import McpServers

    servers = McpServers.of(None, folder)
    servers.wait_seconds = MCP_SECONDS
    return servers


def hooks_of(folder: Path) -> Hooks:
    """The user's hooks, and those of the folder if it is trusted."""
    loaded = load(
        user=[user_folder(os.environ) / HOOKS_FILE],
        project=[folder / PROJECT_HOOKS],
        trusted=trust().covers(folder),
    )
    return Hooks(loaded, project_dir=str(folder))


# -- trust -----------------------------------------------------------------------------------


def trust() -> Trust:
    """The folders the user trusts."""
    return Trust(user_folder(os.environ))


TRUST = Question(
    "Do you trust this folder?",
    (
        Choice("Yes", "y", "its settings, hooks, MCP servers, skills and instructions count"),
        Choice("No", "n", "work here without them; 'sevenfold trust' changes that"),
    ),
)


def undecided(folder: Path) -> bool:
    """Was the user never asked about this folder?"""
    return not trust().covers(folder) and str(folder.resolve()) not in _declined()


def decide(folder: Path, place: int) -> None:
    """Take in the answer to `TRUST`; none given counts for this time only."""
    if place == 0:
        trust().add(folder)
    elif place == 1:
        path = user_home().root / _NOT_TRUSTED
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text("".join(f"{one}\n" for one in (*_declined(), folder.resolve())), encoding="utf-8")


def _declined() -> Sequence[str]:
    try:
        return (user_home().root / _NOT_TRUSTED).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()


# -- leaving nothing behind ------------------------------------------------------------------


def forget_if_empty(start: Start) -> bool:
    """Remove a session in which nothing was said; says whether it was one."""
    files = user_home().project(start.folder).session(start.name)
    if files.transcript.is_file() and title(files.transcript):
        return False
    try:
        lock = FileLock(files.transcript)
    except TranscriptLocked:
        return False
    for path in (files.transcript, *files.indexes()):
        path.unlink(missing_ok=True)
    shutil.rmtree(files.agent, ignore_errors=True)
    lock.remove()
    return True


# -- which model -----------------------------------------------------------------------------


def last_model(transcript: Path) -> str:
    """The model that answered last in a transcript; empty if none did."""
    models = (answer.model for answer in JsonlLog(transcript).answers())
    return next((model for model in models if model and not model.startswith("<")), "")
