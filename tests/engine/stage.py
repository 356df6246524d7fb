"""One server for all simulated providers of a test run, each under a path of its own: starting one takes its time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any

import uvicorn

from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import create_app


class Stage:
    """The server; who answers is found by the first part of the path."""

    def __init__(self) -> None:
        self._apps: dict[str, Any] = {}
        self._numbers = count(1)
        listener = socket.create_server(("127.0.0.1", 0))
        self._url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            self._answer, log_level="critical", lifespan="off", ws="none", interface="asgi3"
        )
        server = uvicorn.Server(config)
        threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        name, _, rest = scope["path"].removeprefix("/").partition("/")
        inside = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}
        await self._apps[name](inside, receive, send)

    @contextmanager
    def serve(self, simulator: Simulator) -> Iterator[str]:
        """Let a simulator answer; gives its base URL."""
        name = f"w{next(self._numbers)}"
        self._apps[name] = create_app(simulator)
        try:
            yield f"{self._url}/{name}"
        finally:
            del self._apps[name]


@cache
def stage() -> Stage:
    """The one of this process."""
    return Stage()
