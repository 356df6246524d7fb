"""Reads the lines of a file that is compressed with Zstandard."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sevenfold.errors import TranscriptError, UserError
from sevenfold.stores.files import opened
from sevenfold.stores.jsonl.log import LINE_LIMIT, Line


def scan(path: Path, *, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """Yield all lines; their offsets count decompressed bytes. A file that ends too early gives what it holds."""
    zstd = _zstd(path)
    offset = 0
    with opened(path) as file, zstd.open(file) as lines:
        try:
            while raw := lines.readline(limit):
                whole = len(raw) < limit or raw.endswith(b"\n")
                problem = "" if whole else f"a line of more than {limit:,} bytes"
                yield Line(offset, raw if whole else b"", problem)
                offset += len(raw)
        except EOFError:
            # The program that wrote it was interrupted; every line before is whole.
            return
        except zstd.ZstdError as error:
            raise TranscriptError(
                f"{path}: this file is damaged or not compressed with zstd: {error}"
            ) from error


def _zstd(path: Path) -> Any:
    """The module of the standard library, or its backport for Python before 3.14."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        needs = "reading a compressed session needs a package: pip install 'sevenfold[archive]'"
        raise UserError(f"{path}: {needs}") from error
    return zstd
