"""Server-sent events out of bytes that arrive in pieces of any size."""

from __future__ import annotations

import re

# A carriage return at the very end may be half of a line end: it waits for the next piece.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")


class EventLines:
    """Takes bytes as they come and gives the data of each event that is complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that end in this piece; names and ids of events are left out."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
