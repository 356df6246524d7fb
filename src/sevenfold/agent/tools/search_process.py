"""A search as a process of its own: what it prints while it prints it, within its time, and that it ends.

Whatever looks for a pattern that somebody else made up may take for ever over it. A process can be ended at any moment;
a thread cannot.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

from sevenfold.errors import Refused

SECONDS = 60.0
"""How long a search may take."""
_TICK = 0.1
_CHUNK = 256 * 1024
_LONGEST = 16 * 1024 * 1024


def printed(
    arguments: Sequence[str],
    separator: bytes,
    stopped: Callable[[], bool],
    *,
    seconds: float = SECONDS,
    in_vain: int = 0,
) -> Iterator[bytes]:
    """What a program prints, piece by piece; it ends when nobody wants more.

    ``in_vain`` is its exit code when it finds nothing; higher ones mean that it failed.
    """
    try:
        child = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except (OSError, ValueError) as error:
        raise Refused(f"The search could not be started ({error}).") from error
    try:
        yield from _pieces(child, separator, stopped, seconds)
        _, said = child.communicate(timeout=seconds)
        if child.returncode > in_vain and said:
            raise Refused(f"The search failed: {said.decode(errors='replace').strip()[:1_000]}")
    finally:
        child.kill()
        with contextlib.suppress(ValueError):
            child.communicate()


def _pieces(
    child: subprocess.Popen[bytes], separator: bytes, stopped: Callable[[], bool], seconds: float
) -> Iterator[bytes]:
    """The output cut at the separator. Errors are few and fit into their pipe, so only one is listened to."""
    pipe, rest, deadline = child.stdout, b"", time.monotonic() + seconds
    assert pipe is not None
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if stopped():
                raise Refused("The search was stopped.")
            if time.monotonic() > deadline:
                raise Refused(
                    f"The search took longer than {seconds:g} s; search a smaller folder, or for something simpler."
                )
            if not selector.select(_TICK):
                continue
            chunk = os.read(pipe.fileno(), _CHUNK)
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(separator)
            yield from whole
            if len(rest) > _LONGEST:
                raise Refused(
                    "The search came upon a line too long to be read; leave that file out with a glob."
                )
    if rest:
        yield rest
