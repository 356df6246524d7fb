"""The path of a message through the engine is as the design page says."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import sevenfold

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(sevenfold.__file__).parent)
MOST_STATIONS = 14

Station = tuple[str, str]
"""A module's file and the qualified name of one of its functions."""


@cache
def stations() -> list[Station]:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = page.split("## The path of one message")[1].split("\n## ")[0]
    listed = re.findall(r"^\d+\. `([\w.]+)` in `([\w/]+\.py)`", section, re.M)
    assert len(listed) == len(re.findall(r"^\d+\. ", section, re.M))
    return [(file, function) for function, file in listed]


@cache
def first_entries() -> dict[Station, int]:
    """When a turn first enters each function of the package, as the number of the call."""
    entered: dict[Station, int] = {}
    calls = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PACKAGE):
            calls += 1
            entered.setdefault((path[len(PACKAGE) + 1 :], frame.f_code.co_qualname), calls)

    client = sevenfold.OfflineClient(sevenfold.Script(["One.", "Two."]))
    with sevenfold.Session.in_memory(model="claude-sonnet-5-5", client=client) as session:
        session.user("First.")
        session.complete()
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            session.user("Second.")
            session.complete()
        finally:
            sys.setprofile(before)
    return entered


def out_of_order(path: Sequence[Station]) -> list[Station]:
    """The stations that a turn does not enter after the station listed before them."""
    entered = first_entries()
    last = 0
    wrong = []
    for station in path:
        position = entered.get(station, 0)
        if position <= last:
            wrong.append(station)
        last = max(last, position)
    return wrong


def test_the_path_of_one_message_is_as_the_design_page_says() -> None:
    assert 0 < len(stations()) <= MOST_STATIONS
    assert out_of_order(stations()) == []


def test_no_two_neighbours_on_the_path_can_be_swapped() -> None:
    path = stations()
    for place in range(len(path) - 1):
        swapped = [*path[:place], path[place + 1], path[place], *path[place + 2 :]]
        assert out_of_order(swapped), f"{path[place]} and {path[place + 1]} could be swapped"
