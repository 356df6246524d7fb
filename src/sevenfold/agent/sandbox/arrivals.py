"""Calls a function whenever something appears in one of some folders, as the kernel reports it (inotify, on Linux)."""

from __future__ import annotations

import ctypes
import os
import select
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

_CREATED = 0x100
_MOVED_HERE = 0x80
_FOLDERS_ONLY = 0x01000000
_NOT_THROUGH_LINKS = 0x02000000
_AT_ONCE = 65_536


class Arrivals:
    """Watches folders in a thread of its own until it is closed; on other systems than Linux it does nothing."""

    def __init__(self, folders: Callable[[], Iterable[Path]], arrived: Callable[[], None]) -> None:
        """``folders`` says which folders there are to watch now; asked again after each arrival."""
        self._folders = folders
        self._arrived = arrived
        self._events = _open_inotify()
        if self._events < 0:
            return
        self._end, self._wake = os.pipe()
        self._watch()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="sevenfold sandbox")
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        if self._events < 0:
            return
        os.close(self._wake)
        self._thread.join()
        os.close(self._end)
        os.close(self._events)
        self._events = -1

    def _watch(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        mask = _CREATED | _MOVED_HERE | _FOLDERS_ONLY | _NOT_THROUGH_LINKS
        for folder in self._folders():
            # A folder that is gone by now, or one watch too many for this system: the next look sees what is missed.
            libc.inotify_add_watch(self._events, os.fsencode(folder), ctypes.c_uint32(mask))

    def _follow(self) -> None:
        while True:
            ready, _, _ = select.select([self._events, self._end], [], [])
            if self._end in ready:
                return
            with suppress(BlockingIOError):
                os.read(self._events, _AT_ONCE)
            self._arrived()
            # A folder among them may be new, and have got a file before it was watched.
            self._watch()
            self._arrived()


def _open_inotify() -> int:
    """A descriptor for events; negative if this system has none left, or none at all."""
    if not sys.platform.startswith("linux"):
        return -1
    descriptor: int = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    return descriptor
