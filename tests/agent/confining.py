"""A small world around a workspace, with secrets to read, files to change and a server to reach."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import Struct

from sevenfold.agent.processes import LocalProcesses
from sevenfold.agent.sandbox import landlock
from sevenfold.agent.sandbox.machine import Kind, Machine, Mechanism, can_isolate_network, this_machine
from sevenfold.agent.sandbox.policy import SandboxPolicy, make_policy
from sevenfold.agent.sandbox.sandbox import Sandbox

SECRET = "planted-secret-7b21"
UNTESTED = "SANDBOX NOT TESTED"
"""Begins the reason of a skipped test; the summary of a run names these, because a skip is no pass."""


def machine_with(kind: Kind) -> Machine:
    """This machine as one that offers this mechanism; skips the test, visibly, if it does not."""
    if kind == "bubblewrap":
        machine = this_machine()
        if machine.mechanism is None or machine.mechanism.kind != kind:
            pytest.skip(f"{UNTESTED}: {'; '.join(machine.problems)}")
        return machine
    if landlock.version() == 0:
        pytest.skip(f"{UNTESTED}: this kernel has no Landlock")
    return Machine(Mechanism("landlock", isolates_network=can_isolate_network()))


class Listener:
    """A server on this machine that notes who connects to it."""

    def __init__(self, folder: Path) -> None:
        self.reached: list[str] = []
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.tcp.getsockname()[1]
        self.path = folder / "listener"
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.path))
        self.unix.listen()
        for name, server in (("tcp", self.tcp), ("unix", self.unix)):
            threading.Thread(target=self._serve, args=(name, server), daemon=True).start()

    def _serve(self, name: str, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                request = client.recv(65_536)
                self.reached.append(f"{name}: {request[:60]!r}")
                client.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nreached\n"
                )

    def close(self) -> None:
        for server in (self.tcp, self.unix):
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()


class Damage(Struct, frozen=True):
    """What an attack achieved."""

    told: bool
    """Whether its output has a secret."""
    changed: tuple[str, ...]
    """The files outside the workspace, or inside and guarded, that it changed."""
    reached: tuple[str, ...]
    """The servers it reached."""

    def __bool__(self) -> bool:
        return self.told or bool(self.changed) or bool(self.reached)


class World:
    """A home with secrets and a store, a workspace in it, another project beside it, and a server."""

    def __init__(self, folder: Path, machine: Machine | None) -> None:
        """``machine`` confines commands; None: nothing does."""
        self.home = folder / "home"
        self.workspace = self.home / "project"
        self.store = self.home / ".sevenfold"
        self.beside = self.home / "other"
        self.kept = folder / "kept"
        self.machine = machine
        self.listener = Listener(folder)
        for path in (self.workspace / "src", self.store, self.beside, self.kept, self.home / ".ssh"):
            path.mkdir(parents=True)
        for path in (self.home / ".ssh/id_rsa", self.store / "settings.toml", self.beside / "secret.txt"):
            path.write_text(f"# {SECRET}\n")
        (self.workspace / "README").write_text("hello\n")
        (self.workspace / "CLAUDE.md").write_text("the user's own\n")
        subprocess.run(["git", "init", "-q", str(self.workspace)], check=True, capture_output=True)
        self._before = self._snapshot()

    def policy(self) -> SandboxPolicy:
        return make_policy(self.workspace, hidden=[self.store], hosts=())

    def run(
        self, command: str, *, hosts: tuple[str, ...] = (), environ: Mapping[str, str] | None = None
    ) -> str:
        """Run a command as an agent's would be, with no permission asked; returns its output."""
        machine = self.machine
        sandbox = None
        if machine is not None:
            sandbox = Sandbox("required", self.policy, self.kept, hosts=hosts, machine=machine)
        processes = LocalProcesses(self.kept / "tasks", sandbox=sandbox)
        # In Landlock the variable names a private home, and the attack would be one on that.
        command = command.replace("$HOME", str(self.home)).replace("~/", f"{self.home}/")
        try:
            output, _ = processes.run(
                command,
                cwd=str(self.workspace),
                environ={
                    **os.environ,
                    "SEVENFOLD_AGENT": "1",
                    "PORT": str(self.listener.port),
                    **(environ or {}),
                },
                seconds=60.0,
                stopped=lambda: False,
                progress=lambda text: None,
                confined=sandbox is not None,
            )
        finally:
            processes.close()
        return output

    def attack(self, command: str, *, hosts: tuple[str, ...] = ()) -> Damage:
        """Run a command; returns the damage it did."""
        output = self.run(command, hosts=hosts)
        after = self._snapshot()
        names = {*self._before, *after}
        changed = sorted(name for name in names if self._before.get(name) != after.get(name))
        return Damage(SECRET in output, tuple(changed), tuple(self.listener.reached))

    def _snapshot(self) -> dict[str, str]:
        """What must stay as it is: everything outside the workspace, and what is guarded in it."""
        found: dict[str, str] = {}
        for folder, _, files in os.walk(self.home):
            for name in files:
                path = Path(folder, name)
                inside = (
                    path.relative_to(self.workspace).parts if path.is_relative_to(self.workspace) else ()
                )
                if inside and not self._is_guarded(inside):
                    continue
                found[str(path.relative_to(self.home))] = (
                    str(path.readlink()) if path.is_symlink() else path.read_text(errors="replace")
                )
        return found

    @staticmethod
    def _is_guarded(inside: tuple[str, ...]) -> bool:
        guarded = {
            "AGENTS.md",
            "CLAUDE.md",
            ".mcp.json",
            ".sevenfold",
            ".claude",
            ".codex",
            ".envrc",
            ".bashrc",
        }
        in_git = {"hooks", "config", "commondir", "modules", "worktrees", "config.worktree"}
        return inside[0] in guarded or (inside[0] == ".git" and inside[1:2] != () and inside[1] in in_git)

    def close(self) -> None:
        self.listener.close()
