"""Single parts of the engine, held against what they decided when they were recorded.

With SEVENFOLD_RECORD=1 the recordings are rewritten; read the difference before you keep it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded import (
    form,
    parts_of_archive,  # noqa: F401
    parts_of_formats,  # noqa: F401
    parts_of_layers,  # noqa: F401
    parts_of_memory,  # noqa: F401
    parts_of_providers,  # noqa: F401
    parts_of_recall,  # noqa: F401
    parts_of_record,  # noqa: F401
    parts_of_sessions,  # noqa: F401
)
from tests.recorded.parts import PARTS

pytestmark = pytest.mark.usefixtures("compactions_of_any_size", "same_everywhere")

GOLDEN = Path(__file__).parent / "golden" / "parts"
REWRITE = os.environ.get("SEVENFOLD_RECORD") == "1"


@pytest.fixture
def same_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Days are those of the user's time zone; and a session takes variables of this name for settings."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("SEVENFOLD_RECORD", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", PARTS)
def test_a_part_decides_as_it_did_when_it_was_recorded(name: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    now = "".join(f"{line}\n" for line in PARTS[name]())
    if REWRITE:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(now, encoding="utf-8")
    known = golden.read_text(encoding="utf-8")
    if now != known:
        pytest.fail(form.difference(known, now, name), pytrace=False)
