"""`sevenfold scan`: looks for secrets in stored sessions, and says where they are but never what they are."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from sevenfold.archive.upkeep.secrets import SecretHit, scan
from sevenfold.cli import transcripts
from sevenfold.cli.text import complain, plural, print_json, write
from sevenfold.errors import InputError, UserError
from sevenfold.stores.home import user_home

FOUND = 1
"""The exit code if a secret was found."""
FAILED = 2
"""The exit code if nothing could be read."""
SHOWN = 5
"""Lines and records listed for each secret; `--json` lists all."""

_KINDS = frozenset({".jsonl", ".json", ".txt", ".md"})


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    transcripts.add_store(command)
    command.add_argument("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if options.store and options.paths:
        raise InputError("name files, or a store with --store, but not both")
    files = transcripts.copies(options.store) if options.store else _files(options.paths)
    findings: dict[Path, list[dict[str, Any]]] = {}
    errors: dict[Path, str] = {}
    sizes = {path: path.stat().st_size if path.is_file() else 0 for path in files}
    total = sum(sizes.values())
    done = 0
    description = f"{plural(len(files), 'file')}, {total / 1e6:,.0f} MB"
    with transcripts.watch("scanning", total, description) as step:

        def here(reached: int) -> None:
            step(done + reached)

        for path, size in sizes.items():
            try:
                findings[path] = _grouped(scan(path, here))
            except UserError as error:
                errors[path] = str(error)
            done += size
            step(done)
    if options.json:
        concerned = {path: secrets for path, secrets in findings.items() if secrets}
        print_json(
            {
                "files": [{"file": str(path), "findings": secrets} for path, secrets in concerned.items()],
                "scanned": len(findings),
                "secrets": len(_distinct(findings)),
                "errors": [{"file": str(path), "error": error} for path, error in errors.items()],
            }
        )
    elif findings or not errors:
        _print(findings)
    for message in errors.values():
        complain(f"{message}")
    if any(findings.values()):
        return FOUND
    return FAILED if errors and not findings else 0


def _files(paths: list[Path]) -> list[Path]:
    if not paths:
        return list(user_home().texts())
    files: dict[Path, None] = {}
    for path in paths:
        files.update(dict.fromkeys(sorted(_files_inside(path)) if path.is_dir() else [path]))
    return list(files)


def _files_inside(folder: Path) -> Iterator[Path]:
    # Unlike `rglob`, `walk` skips folders that cannot be read or that disappear meanwhile.
    for subfolder, _, names in os.walk(folder):
        for name in names:
            file = Path(subfolder, name)
            if file.suffix in _KINDS and file.is_file():
                yield file


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


def _print(findings: dict[Path, list[dict[str, Any]]]) -> None:
    for path, secrets in findings.items():
        if secrets:
            write(f"{path}\n")
        for secret in secrets:
            times = "once" if secret["count"] == 1 else f"{secret['count']:,} times"
            lines = f"{'line' if len(secret['lines']) == 1 else 'lines'} {_some(secret['lines'])}"
            records = f" ({_some(secret['records'])})" if secret["records"] else ""
            write(f"  {secret['kind']:<20} {secret['digest']}  {times}, {lines}{records}\n")
    concerned = sum(map(bool, findings.values()))
    distinct = _distinct(findings)
    files = plural(len(findings), "file")
    if not distinct:
        write(f"No secrets in {files}.\n")
        return
    write(
        f"{plural(len(distinct), 'secret')} in {concerned:,} of {files}. Anything in a transcript has been sent to a "
        "provider: replace the secret.\n"
    )
    root = user_home().root
    own_files = [path for path in findings if path.absolute().is_relative_to(root)]
    if own_secrets := _distinct({path: findings[path] for path in own_files}):
        write(
            f"To mask one in everything Sevenfold keeps: sevenfold purge --secret-digest {min(own_secrets)}\n"
        )
    if distinct - own_secrets:
        write(
            "Files of other tools are not changed by Sevenfold: remove them there, or edit them yourself.\n"
        )


def _some(values: list[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:SHOWN])
    return shown + (f" and {len(values) - SHOWN:,} more" if len(values) > SHOWN else "")


def _distinct(findings: dict[Path, list[dict[str, Any]]]) -> set[str]:
    return {secret["digest"] for secret in chain.from_iterable(findings.values())}
