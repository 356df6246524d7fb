"""The path of a message through the house is as the design page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import sevenfold

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(sevenfold.__file__).parent)
MOST_STATIONS = 14


def stations() -> list[str]:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    section = page.split("## The path of one message")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.M)


def traced() -> list[str]:
    """The files of the package in the order in which a turn enters them."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PACKAGE):
            entered.append(path[len(PACKAGE) + 1 :])

    client = sevenfold.OfflineClient(sevenfold.Script(["One.", "Two."]))
    with sevenfold.Session.in_memory(model="claude-sonnet-5-5", client=client) as session:
        session.user("First.")
        session.complete()
        sys.setprofile(note)
        try:
            session.user("Second.")
            session.complete()
        finally:
            sys.setprofile(None)
    return entered


def test_the_path_of_one_message_is_as_the_design_page_says() -> None:
    listed, entered = stations(), traced()
    assert 0 < len(listed) <= MOST_STATIONS
    place = 0
    for station in listed:
        assert station in entered[place:], f"the turn does not enter {station} where the page says"
        place = entered.index(station, place) + 1
