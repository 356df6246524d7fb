"""`sevenfold scan`: looks for secrets in what was stored, and says where they are, never what they are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from sevenfold.stores.jsonl.secrets import SecretHit

FOUND = 1
"""The exit code when there is a secret."""
FAILED = 2
"""The exit code when nothing could be looked at."""
SHOWN = 5
"""Lines and records named for each secret; `--json` names all."""

SUMMARY = "look for secrets in what was stored"
HELP = """\
Look for secrets (keys of providers, tokens, private keys, passwords in addresses) in transcripts, stored tool
results, notes and memories. Each is named by its kind and the beginning of its hash, and never shown."""

EXAMPLES = """\
examples:
  sevenfold scan                          everything Sevenfold keeps for you
  sevenfold scan ~/.claude/projects       all *.jsonl, *.json, *.txt and *.md files in a folder and below
  sevenfold scan session.jsonl --json     for scripts

exit code: 0 if there is none, 1 if there is one, 2 if nothing could be read"""

_KINDS = frozenset({".jsonl", ".json", ".txt", ".md"})


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="a file or a folder (default: all that is kept under $SEVENFOLD_HOME or ~/.sevenfold)",
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of the report")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    from sevenfold.errors import UserError
    from sevenfold.stores.jsonl.secrets import scan

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
        _print_json(found, errors)
    elif found or not errors:
        _print(found)
    for message in errors.values():
        sys.stderr.write(f"sevenfold: {message}\n")
    if any(found.values()):
        return FOUND
    return FAILED if errors and not found else 0


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[Path], None]]:
    """A bar on the error stream, moved by each file; only if somebody is there to see it."""
    if not sys.stderr.isatty() or total == 1:
        yield lambda path: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda path: bar.update(task, advance=1, description=path.name[:40])


def _files(paths: list[Path]) -> list[Path]:
    from sevenfold.stores.home import user_home

    if not paths:
        return list(user_home().texts())
    files: dict[Path, None] = {}
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        wanted = (one for one in inside if one == path or (one.suffix in _KINDS and one.is_file()))
        files.update(dict.fromkeys(wanted))
    return list(files)


def _grouped(hits: Iterable[SecretHit]) -> list[dict[str, Any]]:
    """One element for each secret: its kind, its digest, and where it is."""
    secrets: dict[tuple[str, str], dict[str, Any]] = {}
    for hit in hits:
        empty = {"kind": hit.kind, "digest": hit.digest, "count": 0, "lines": [], "records": []}
        secret = secrets.setdefault((hit.kind, hit.digest), empty)
        secret["count"] += 1
        for name, value in (("lines", hit.line), ("records", hit.record)):
            if value and value not in secret[name][-1:]:
                secret[name].append(value)
    return list(secrets.values())


def _print_json(found: dict[Path, list[dict[str, Any]]], errors: dict[Path, str]) -> None:
    import msgspec

    report = {
        "files": [{"file": str(path), "findings": secrets} for path, secrets in found.items() if secrets],
        "scanned": len(found),
        "secrets": len(_distinct(found)),
        "errors": [{"file": str(path), "error": error} for path, error in errors.items()],
    }
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")


def _print(found: dict[Path, list[dict[str, Any]]]) -> None:
    for path, secrets in found.items():
        if secrets:
            sys.stdout.write(f"{path}\n")
            sys.stdout.writelines(f"  {_line(secret)}\n" for secret in secrets)
    concerned, distinct = sum(map(bool, found.values())), _distinct(found)
    files = f"{len(found):,} {'file' if len(found) == 1 else 'files'}"
    if not distinct:
        sys.stdout.write(f"No secret in {files}.\n")
        return
    named = f"{len(distinct)} {'secret' if len(distinct) == 1 else 'secrets'}"
    sys.stdout.write(
        f"{named} in {concerned:,} of {files}. Whatever stood in a transcript has been sent to a provider: "
        "replace it.\n"
        f"To mask one in all that is kept: sevenfold purge --secret-digest {min(distinct)}\n"
    )


def _line(secret: dict[str, Any]) -> str:
    times = "once" if secret["count"] == 1 else f"{secret['count']:,} times"
    where = f"{'line' if len(secret['lines']) == 1 else 'lines'} {_some(secret['lines'])}"
    records = f" ({_some(secret['records'])})" if secret["records"] else ""
    return f"{secret['kind']:<20} {secret['digest']}  {times}, {where}{records}"


def _some(values: list[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:SHOWN])
    return shown + (f" and {len(values) - SHOWN:,} more" if len(values) > SHOWN else "")


def _distinct(found: dict[Path, list[dict[str, Any]]]) -> set[str]:
    return {secret["digest"] for secrets in found.values() for secret in secrets}
