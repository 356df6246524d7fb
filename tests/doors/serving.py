"""An MCP server of ours as a child process, spoken to by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER = [sys.executable, "-P", "-m", "sevenfold", "mcp"]


class Line:
    """The pipe to a server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._number = 0

    def say(self, raw: bytes) -> None:
        assert self._process.stdin
        self._process.stdin.write(raw + b"\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return the whole answer to it."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.say(json.dumps(message).encode())
        answer = self.hear()
        assert answer["id"] == self._number
        return answer

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool; returns its data."""
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert not result["isError"], result
        data: dict[str, Any] = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == data
        return data

    def refusal(self, name: str, /, **arguments: Any) -> str:
        """Call a tool that answers with an error; returns that."""
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert result["isError"]
        return str(result["content"][0]["text"])


@contextmanager
def served(folder: Path) -> Iterator[Line]:
    """A server in a folder."""
    with subprocess.Popen(SERVER, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Line(process)
        assert process.stdin
        process.stdin.close()
        assert process.wait() == 0
