"""`sevenfold scan`: looks for secrets in stored sessions, and says where they are but never what they are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import MofNCompleteColumn, TextColumn

from sevenfold.cli.options import complain, print_json, write
from sevenfold.cli.output import progress_bar
from sevenfold.cli.text import plural
from sevenfold.errors import UserError
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.secrets import SecretHit, scan

FOUND = 1
"""The exit code if there is a secret."""
FAILED = 2
"""The exit code if nothing could be read."""
SHOWN = 5
"""Lines and records listed for each secret; `--json` lists all."""

HELP = """\
Look for secrets (keys of providers, tokens, private keys, passwords in addresses) in transcripts, stored tool
results, notes and memories. Each is identified by its kind and the beginning of its hash, and never shown."""

EXAMPLES = """\
examples:
  sevenfold scan                          everything Sevenfold keeps for you
  sevenfold scan ~/.claude/projects       every *.jsonl, *.json, *.txt and *.md file in a folder and below
  sevenfold scan session.jsonl --json     for scripts

exit code: 0 if there are no secrets, 1 if there are, 2 if nothing could be read"""

_KINDS = frozenset({".jsonl", ".json", ".txt", ".md"})


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="a file or a folder (default: everything under $SEVENFOLD_HOME or ~/.sevenfold)",
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of the report")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    files = _files(options.paths)
    found: dict[Path, list[dict[str, Any]]] = {}
    errors: dict[Path, str] = {}
    with progress("scanning", len(files)) as step:
        for path in files:
            step(path)
            try:
                found[path] = _grouped(scan(path))
            except UserError as error:
                errors[path] = str(error)
    if options.json:
        print_json(
            {
                "files": [{"file": str(path), "findings": each} for path, each in found.items() if each],
                "scanned": len(found),
                "secrets": len(_distinct(found)),
                "errors": [{"file": str(path), "error": error} for path, error in errors.items()],
            }
        )
    elif found or not errors:
        _print(found)
    for message in errors.values():
        complain(f"{message}")
    if any(found.values()):
        return FOUND
    return FAILED if errors and not found else 0


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[Path], None]]:
    """A bar on the error stream, if that is a terminal; yields the function to call with each file."""
    if not sys.stderr.isatty() or total == 1:
        yield lambda path: None
        return
    columns = MofNCompleteColumn(), TextColumn("{task.description}", markup=False)
    with progress_bar(what, total, *columns) as update:
        yield lambda path: update(advance=1, description=path.name[:40])


def _files(paths: list[Path]) -> list[Path]:
    if not paths:
        return list(user_home().texts())
    files: dict[Path, None] = {}
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        wanted = (one for one in inside if one == path or (one.suffix in _KINDS and one.is_file()))
        files.update(dict.fromkeys(wanted))
    return list(files)


def _grouped(hits: Iterable[SecretHit]) -> list[dict[str, Any]]:
    """One entry for each secret: its kind, its digest, and where it is."""
    secrets: dict[tuple[str, str], dict[str, Any]] = {}
    for hit in hits:
        empty = {"kind": hit.kind, "digest": hit.digest, "count": 0, "lines": [], "records": []}
        secret = secrets.setdefault((hit.kind, hit.digest), empty)
        secret["count"] += 1
        for name, value in (("lines", hit.line), ("records", hit.record)):
            if value and value not in secret[name][-1:]:
                secret[name].append(value)
    return list(secrets.values())


def _print(found: dict[Path, list[dict[str, Any]]]) -> None:
    for path, secrets in found.items():
        if secrets:
            write(f"{path}\n")
        for secret in secrets:
            times = "once" if secret["count"] == 1 else f"{secret['count']:,} times"
            where = f"{'line' if len(secret['lines']) == 1 else 'lines'} {_some(secret['lines'])}"
            records = f" ({_some(secret['records'])})" if secret["records"] else ""
            write(f"  {secret['kind']:<20} {secret['digest']}  {times}, {where}{records}\n")
    concerned, distinct = sum(map(bool, found.values())), _distinct(found)
    files = plural(len(found), "file")
    if not distinct:
        write(f"No secrets in {files}.\n")
        return
    write(
        f"{plural(len(distinct), 'secret')} in {concerned:,} of {files}. Anything in a transcript has been sent to a "
        "provider: replace the secret.\n"
        f"To mask one in everything Sevenfold keeps: sevenfold purge --secret-digest {min(distinct)}\n"
    )


def _some(values: list[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:SHOWN])
    return shown + (f" and {len(values) - SHOWN:,} more" if len(values) > SHOWN else "")


def _distinct(found: dict[Path, list[dict[str, Any]]]) -> set[str]:
    return {secret["digest"] for secrets in found.values() for secret in secrets}
