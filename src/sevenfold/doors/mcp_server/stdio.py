"""The server as a child of the agent's program: a message on each line of standard input and output.

Messages are taken at once, and calls are answered one after another by a thread of their own, so that a long search
keeps no client from pinging. The server ends with its input, and with nothing else.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO

from sevenfold.doors.mcp_server import protocol, tools
from sevenfold.doors.mcp_server.protocol import Cancelled, RequestId, ToolRequest
from sevenfold.doors.mcp_server.sessions import SessionShelf, shelf_of
from sevenfold.doors.plugins import window

MOST_BYTES = 4 << 20
"""A longer message is refused unread; no arguments of ours need one."""
_PATIENCE = 30.0
"""Seconds that answers under way may still take when the input has ended."""


def serve(folder: Path, store: str | None = None) -> None:
    """Serve standard input and output until the input ends; ``store`` is the URL of the store to serve instead."""
    shelf = shelf_of(folder, window.current, store)
    output = _private_output()
    _Server(shelf, output).serve(sys.stdin.buffer)


def _private_output() -> BinaryIO:
    """Standard output for messages alone: whatever else is printed goes to standard error from now on."""
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output


class _Server:
    def __init__(self, shelf: SessionShelf, output: BinaryIO) -> None:
        self._shelf = shelf
        self._output = output
        self._writing = threading.Lock()
        self._calls: SimpleQueue[ToolRequest | None] = SimpleQueue()
        self._cancelled: set[RequestId] = set()

    def serve(self, source: BinaryIO) -> None:
        worker = threading.Thread(target=self._answer_calls, daemon=True)
        worker.start()
        for line in _lines(source):
            match protocol.take(line):
                case ToolRequest() as call:
                    self._cancelled.discard(call.id)
                    self._calls.put(call)
                case Cancelled(id=number):
                    self._cancelled.add(number)
                case bytes() as answer:
                    self._send(answer)
                case None:
                    pass
        self._calls.put(None)
        worker.join(_PATIENCE)

    def _answer_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            if call.id not in self._cancelled:
                answer = tools.call(call.tool, call.arguments, self._shelf)
                if call.id not in self._cancelled:
                    self._send(protocol.answered(call, answer))
        self._shelf.close()

    def _send(self, message: bytes) -> None:
        with self._writing:
            try:
                self._output.write(message + b"\n")
                self._output.flush()
            except OSError:
                # The program is gone, so there is no reader for the rest.
                os._exit(0)


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """The lines of the input; one that is too long comes as a line that is no JSON."""
    while line := source.readline(MOST_BYTES):
        if len(line) == MOST_BYTES and not line.endswith(b"\n"):
            while (rest_of_line := source.readline(MOST_BYTES)) and not rest_of_line.endswith(b"\n"):
                pass
            line = b"too long"
        yield line
