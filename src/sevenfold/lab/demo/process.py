"""The agent's process from outside: started, spoken to, killed.

Most of its start is importing; a process that is not told to begin yet has done that already.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from sevenfold.errors import UserError
from sevenfold.lab.demo import protocol
from sevenfold.lab.demo.protocol import Command, Judged, Leave, Over, Told

_FOREIGN = ("SEVENFOLD_", "ANTHROPIC_", "OPENAI_")
"""Variables that would make the demonstration depend on how the machine is set up."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LEAVING = 10.0


class AgentProcess:
    """One life of the agent."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._errors = home / "errors.txt"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sevenfold.lab.demo.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env=_environment(os.environ, home),
                # An interrupt from the keyboard is the demonstration's business alone.
                start_new_session=True,
            )

    def tell(self, command: Command) -> None:
        """Say something to it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(protocol.line(command))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise UserError(self._died()) from None

    def hear(self) -> Iterator[Told]:
        """What it tells until it has done what it was told, or is no more."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = protocol.read_told(line)
            yield told
            if isinstance(told, Over | Judged):
                return

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._process.kill()
        self._process.wait()

    def must_live(self) -> None:
        """Raise with what it left behind if it is no more."""
        if self._process.poll() is not None:
            raise UserError(self._died())

    def leave(self) -> None:
        """Let it end by itself; one that does not is killed."""
        try:
            self.tell(Leave())
            self._process.wait(_LEAVING)
        except (UserError, subprocess.TimeoutExpired):
            self.kill()

    def close(self) -> None:
        """Whatever it does: it is over."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _died(self) -> str:
        said = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = said[-1] if said else "it left no word"
        return f"the agent's process ended with code {self._process.wait()}: {why}"


def _environment(around: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment without what would change the figures, and with the Python that runs this in front."""
    kept = {
        name: value
        for name, value in around.items()
        if not name.startswith(_FOREIGN) and name.upper() not in _PROXIES
    }
    kept["SEVENFOLD_HOME"] = str(home)
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return kept
