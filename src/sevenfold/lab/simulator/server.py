"""Serving the simulator over a socket: in a thread for tests, or in the foreground for people."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from sevenfold.lab.simulator.app import create_app
from sevenfold.lab.simulator.provider import Simulator

STARTING = 10.0
"""Seconds a server in a thread may take to start or to stop."""


@contextmanager
def serve(sim: Simulator, port: int = 0, host: str = "127.0.0.1") -> Iterator[str]:
    """Run a simulator in a thread; gives its base URL, and stops it at the end."""
    listener = socket.create_server((host, port))
    server = uvicorn.Server(_config(sim))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="simulator", daemon=True
    )
    thread.start()
    try:
        yield f"http://{host}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(STARTING)
        listener.close()


def run(port: int = 8_000, host: str = "127.0.0.1", sim: Simulator | None = None) -> None:
    """Run a simulator in the foreground until it is interrupted."""
    uvicorn.Server(_config(sim or Simulator(), host, port)).run()


def _config(sim: Simulator, host: str = "127.0.0.1", port: int = 0) -> uvicorn.Config:
    # Broken connections are raised on purpose, so nothing below `critical` is worth a line on the screen.
    return uvicorn.Config(
        create_app(sim),
        host=host,
        port=port,
        log_level="critical",
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
