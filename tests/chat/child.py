"""The app in a process of its own, in front of a terminal."""

from __future__ import annotations

import atexit
import fcntl
import os
import runpy
import sys
import termios
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from sevenfold.layers.compact import writer
from tests.forked import CONTEXT, take_environment


def start(
    options: tuple[str, ...], terminal: str, environ: dict[str, str], folder: Path
) -> ForkServerProcess:
    """Start `sevenfold chat` in front of a terminal; returns once it has that terminal open."""
    reader, ready = CONTEXT.Pipe(duplex=False)
    with reader, ready:
        given = (options, terminal, environ, str(folder), ready)
        child = CONTEXT.Process(target=_become_app, args=given, daemon=True)
        child.start()
        reader.recv()
    return child


def _become_app(
    options: tuple[str, ...], terminal: str, environ: dict[str, str], folder: str, ready: Connection
) -> None:
    take_environment(environ, folder)
    os.setsid()
    inside = os.open(terminal, os.O_RDWR)
    fcntl.ioctl(inside, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(inside, number)
    os.close(inside)
    ready.send(True)
    ready.close()
    # Those there are were made for whatever the first process had.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    # A compaction that frees little is not made, and these conversations have a few words.
    writer.LEFT_SHARE = 100.0
    sys.argv = ["sevenfold", "chat", *options]
    try:
        runpy.run_module("sevenfold", run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
