"""Lines appended to a file of records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sevenfold.stores.files import append_line


@pytest.mark.spec("S12.3")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"new\n"),
        (b"old\n", b"old\nnew\n"),
        (b"old\nto", b"old\nto\nnew\n"),
        (b"t", b"t\nnew\n"),
        (b"\n", b"\nnew\n"),
    ],
)
def test_an_appended_line_is_a_line_of_its_own_also_after_one_that_was_cut_off(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(before)
    fd = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        append_line(fd, b"new\n")
    finally:
        os.close(fd)
    assert path.read_bytes() == after
