"""Run one case of one engine in the engine's environment and print its median; started by `run`."""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path

from bench.peers.sessions import Session
from bench.peers.timing import Adapter, Bench


def main(module: str, name: str, path: str, length: str) -> None:
    """Measure the case called ``name`` on the session file at ``path``."""
    adapter: Adapter = import_module(f"bench.peers.adapters.{module}").ADAPTER
    case = next(one for one in adapter.cases if one.name == name)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        case.run(Session(Path(path), int(length)), bench)
    print(f"{bench.median}")


if __name__ == "__main__":
    main(*sys.argv[1:])
