"""The programs: installed by exact version from npm, each in folders of its own, and run without a terminal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / ".dev" / "clients"
PACKAGES = {"claude-code": "@anthropic-ai/claude-code@2.1.327", "codex": "@openai/codex@0.169.0"}
"""Exact versions: without one, npm on an older node takes an older one."""
SECONDS = 180
CLAUDE_MODEL = "claude-opus-4-6"
CODEX_MODEL = "gpt-5.5"
CODEX_COMPACTION = "model_auto_compact_token_limit = 70000\n"
"""The setting with which Codex compacts early."""
SETTINGS = b'{\n  // kept as it is\n  "includeCoAuthoredBy": false, "env": {"A": "{"}\n}\n'
_SIMULATOR = """model_provider = "simulator"

[model_providers.simulator]
name = "Simulator"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
INSTRUCTIONS = {"claude-code": "CLAUDE.md", "codex": "AGENTS.md"}


def missing_here() -> str:
    """What is missing on this machine to run the programs; empty if nothing is."""
    missing = [name for name in ("node", "npm", "unshare", "ip") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def install() -> dict[str, str]:
    """Install the programs if they are not there; returns their versions as they report them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not all((FOLDER / "node_modules" / ".bin" / name).exists() for name in ("claude", "codex")):
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER), *PACKAGES.values()]
        subprocess.run(command, check=True, stdout=sys.stderr, stderr=sys.stderr)
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str:
    done = subprocess.run(
        [program(name), "--version"], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    return done.stdout.strip()


def program(name: str) -> str:
    """The path of a program."""
    return str(FOLDER / "node_modules" / ".bin" / {"claude-code": "claude"}.get(name, name))


def sevenfold(*arguments: str) -> list[str]:
    """A command line of ours."""
    return [sys.executable, "-P", "-m", "sevenfold", *arguments]


class Client(Protocol):
    """A program with folders of its own."""

    name: str
    home: Path
    work: Path
    settings: Path

    def env(self) -> dict[str, str]:
        """Its environment."""

    def command(self, prompt: str, session: str) -> list[str]:
        """The command line for one message, in a session if it is named."""

    def session_of(self, output: str) -> str:
        """The id of the session that a run reports."""

    def transcript(self, session: str) -> Path:
        """The file in which the program itself records a session."""


class ClaudeCode:
    """Claude Code in print mode."""

    name = "claude-code"

    def __init__(self, folder: Path, url: str, *, own_provider: bool = False) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.settings = self.home / ".claude" / "settings.json"
        self.settings.parent.mkdir(parents=True)
        self.settings.write_bytes(SETTINGS)
        self._url = url

    def env(self) -> dict[str, str]:
        """Its environment: nothing of the user's but the path of programs."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "SEVENFOLD_HOME": str(self.home / "sevenfold"),
            "ANTHROPIC_BASE_URL": self._url,
            "ANTHROPIC_API_KEY": "simulated-key",
            "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "120000",
            "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "75",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def command(self, prompt: str, session: str) -> list[str]:
        """The command line for one message, in a session if it is named."""
        allowed = "Read,Bash,mcp__plugin_sevenfold_sevenfold__recall"
        options = ["-p", "--output-format", "json", "--model", CLAUDE_MODEL, "--allowedTools", allowed]
        return [program(self.name), *options, *(["--resume", session] if session else []), "--", prompt]

    def session_of(self, output: str) -> str:
        """The id of the session that a run reports."""
        return str(json.loads(output)["session_id"])

    def transcript(self, session: str) -> Path:
        """The file in which the program itself records a session."""
        (path,) = (self.home / ".claude" / "projects").rglob(f"{session}.jsonl")
        return path


class Codex:
    """Codex's `exec`."""

    name = "codex"

    def __init__(self, folder: Path, url: str, *, own_provider: bool = False) -> None:
        """``own_provider``: as for users of its vendor, with websockets and compaction by the provider."""
        self.home, self.work = folder / "home", folder / "work"
        self.settings = self.home / ".codex" / "config.toml"
        self.settings.parent.mkdir(parents=True)
        self.settings.write_text(
            f'# kept as it is\nmodel = "{CODEX_MODEL}"\n{CODEX_COMPACTION}'
            + ("" if own_provider else _SIMULATOR.format(url=url))
        )

    def env(self) -> dict[str, str]:
        """Its environment: nothing of the user's but the path of programs."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CODEX_HOME": str(self.home / ".codex"),
            "SEVENFOLD_HOME": str(self.home / "sevenfold"),
            "OPENAI_API_KEY": "simulated-key",
            "CODEX_API_KEY": "simulated-key",
        }

    def command(self, prompt: str, session: str) -> list[str]:
        """The command line for one message, in a session if it is named."""
        options = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        # A person trusts the hooks in the program's own dialogue, which a run without a terminal does not have.
        options.append("--dangerously-bypass-hook-trust")
        resumed = ["resume", *options, session] if session else options
        return [program(self.name), "exec", *resumed, prompt]

    def session_of(self, output: str) -> str:
        """The id of the session that a run reports."""
        events = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
        return str(next(event["thread_id"] for event in events if event["type"] == "thread.started"))

    def transcript(self, session: str) -> Path:
        """The file in which the program itself records a session."""
        (path,) = (self.home / ".codex" / "sessions").rglob(f"rollout-*{session}.jsonl")
        return path


CLIENTS: Mapping[str, type[ClaudeCode] | type[Codex]] = {"claude-code": ClaudeCode, "codex": Codex}


def run(client: Client, command: Sequence[str]) -> str:
    """Run a command line in a program's environment; returns what it printed, raises if it failed."""
    done = subprocess.run(
        command,
        env=client.env(),
        cwd=client.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        raise RuntimeError(
            f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[:3000]}"
        )
    return done.stdout
