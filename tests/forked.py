"""Programs in processes of their own, forked from one that has the SDKs: importing them takes longer than all else."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

PATIENCE = 120
CONTEXT = get_context("forkserver")
# Other people's modules alone: ours are imported by each child, in the environment it was given.
CONTEXT.set_forkserver_preload(
    [
        *("anthropic.resources.messages", "anthropic.types", "openai", "msgspec", "starlette.routing"),
        *("uvicorn", "prompt_toolkit", "rich.console", "rich.markdown"),
    ]
)


class Ran(NamedTuple):
    """How a program ended."""

    returncode: int | None
    stdout: str
    stderr: str


def ran(code: str, folder: Path, environ: Mapping[str, str] | None = None, *, strict: bool = False) -> Ran:
    """Run a program in a folder; ``strict`` makes its warnings errors."""
    # Outside the folder: what a program finds there is its own.
    outputs = [folder.with_name(f"{folder.name}.{name}") for name in ("stdout", "stderr")]
    given = dict(os.environ if environ is None else environ)
    child = CONTEXT.Process(target=_run, args=(code, str(folder), given, outputs, strict))
    child.start()
    child.join(PATIENCE)
    child.kill()
    child.join()
    shown = [path.read_text(encoding="utf-8") for path in outputs]
    return Ran(child.exitcode, *shown)


def _run(code: str, folder: str, environ: dict[str, str], outputs: list[Path], strict: bool) -> None:
    take_environment(environ, folder)
    for number, path in enumerate(outputs, 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    if strict:
        warnings.simplefilter("error")
    exec(compile(code, "<example>", "exec"), {"__name__": "__main__"})


def take_environment(environ: Mapping[str, str], folder: str) -> None:
    """Make this process one that was started in a folder with these variables."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
