"""Whole sessions, held against what they were when they were recorded: every byte, request and event.

With SEVENFOLD_RECORD=1 the recordings are rewritten; read the difference before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.recorded import agents, anything, form, history, layers, limits, opening, wires  # noqa: F401
from tests.recorded.playing import SCENARIOS
from tests.recorded.rig import recording

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

GOLDEN = Path(__file__).parent / "golden"
REWRITE = os.environ.get("SEVENFOLD_RECORD") == "1"
APART: dict[str, str] = {}
"""Scenarios in which an awaited session does not do the same to the byte, and why."""


@pytest.mark.spec("S10.1", "S9.2")
@pytest.mark.parametrize("name", SCENARIOS)
def test_everything_is_as_it_was_recorded(name: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    now = recording(name, SCENARIOS[name], awaited=False)
    if REWRITE:
        golden.write_text(now, encoding="utf-8")
    known = golden.read_text(encoding="utf-8")
    if now != known:
        pytest.fail(form.difference(known, now, name), pytrace=False)


@pytest.mark.spec("S8.4", "S10.1")
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in APART])
def test_awaited_it_is_the_same_to_the_byte(name: str) -> None:
    known = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    now = recording(name, SCENARIOS[name], awaited=True)
    if now != known:
        pytest.fail(form.difference(known, now, name), pytrace=False)
