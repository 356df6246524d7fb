"""A server in front of the simulator, and programs that speak to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import httpx2

from sevenfold.doors.server.account_databases import open_accounts
from sevenfold.doors.server.accounts import Accounts, Tenant
from sevenfold.doors.server.client import ServerClient
from sevenfold.doors.server.options import ServerLimits, ServerOptions
from sevenfold.doors.server.server import SessionServer
from sevenfold.lab.simulator.brains import Brain, ScriptedBrain, tool_use
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.providers.registry import client_for

MODEL = "claude-sonnet-5-5"
KEY = "simulated-key"
WEATHER = {
    "name": "weather",
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def weather(call: str, city: str = "Rome") -> Mapping[str, Any]:
    """A call of the tool that the program carries out."""
    return tool_use("weather", {"city": city}, call)


def scripted(*steps: Any) -> Simulator:
    """A provider that plays steps."""
    return Simulator(ScriptedBrain(list(steps)))


@dataclass
class Served:
    """A server, and who may use it."""

    server: SessionServer
    accounts: Accounts
    simulator: Simulator
    token: str
    opened: ExitStack = field(default_factory=ExitStack)

    @property
    def url(self) -> str:
        return self.server.url

    def http(self, user: str = "", token: str | None = None) -> httpx2.Client:
        """A program that speaks HTTP."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        if user:
            headers["Sevenfold-User"] = user
        return self.opened.enter_context(httpx2.Client(base_url=self.url, headers=headers, timeout=60))

    def client(self, user: str = "", token: str | None = None) -> ServerClient:
        """A program with our client."""
        return self.opened.enter_context(ServerClient(self.url, token or self.token, user=user))

    def tenant(self, name: str, **budgets: Any) -> str:
        """Another tenant; returns a token."""
        self.accounts.keep_tenant(Tenant(name, **budgets))
        return self.accounts.make_token(name)


@contextmanager
def served(
    folder: Path,
    simulator: Simulator | Brain,
    *,
    limits: ServerLimits | None = None,
    tools: Mapping[str, Any] | None = None,
    models: Sequence[str] = (MODEL,),
    tenant: Tenant | None = None,
    store: str | None = None,
    names: tuple[str, ...] = (),
) -> Iterator[Served]:
    """A server in a thread."""
    provider = simulator if isinstance(simulator, Simulator) else Simulator(simulator)
    workspace = folder / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        url = stack.enter_context(serve(provider))
        asker = stack.enter_context(anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0))
        make: Callable[[str], Any] = lambda model: client_for(model, client=asker)  # noqa: E731
        place = store or folder / "server"
        options = ServerOptions(
            place, tuple(models), workspace, tools or {}, make, limits or ServerLimits(drain_seconds=5)
        )
        accounts = open_accounts(place)
        known = tenant or Tenant("acme")
        accounts.keep_tenant(known)
        token = accounts.make_token(known.name)
        server = stack.enter_context(SessionServer(options, accounts, names=names))
        with ExitStack() as opened:
            yield Served(server, accounts, provider, token, opened)


def events_of(raw: str) -> list[tuple[str, str, Any]]:
    """The events of a stream: id, name and data."""
    events = []
    for block in raw.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":")
        )
        if fields:
            events.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return events


def names_of(raw: str) -> list[str]:
    return [name for _, name, _ in events_of(raw)]


def lasting(raw: str) -> list[tuple[str, str, Any]]:
    """The events that are told again after a restart."""
    return [event for event in events_of(raw) if event[0] and "~" not in event[0]]


@contextmanager
def process(folder: Path, provider: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`sevenfold serve` as a process of its own, from the moment it listens."""
    environ = {
        **os.environ,
        "SEVENFOLD_HOME": str(folder / "home"),
        "ANTHROPIC_BASE_URL": provider,
        "ANTHROPIC_API_KEY": KEY,
    }
    command = [sys.executable, "-m", "sevenfold", "serve", "--model", MODEL, *arguments]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline().startswith("Sessions are served")
            yield running
        finally:
            running.kill()
            running.wait()
