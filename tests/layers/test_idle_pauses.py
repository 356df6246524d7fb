"""The user's own pauses, read from the conversation (S4.19)."""

from __future__ import annotations

from typing import Any

import pytest

from sevenfold.layers.idle import pauses
from sevenfold.record import blocks
from sevenfold.record.entries import Said


def said(role: str, minute: int | None, **more: Any) -> Said:
    when = "" if minute is None else f"2026-11-16T10:{minute:02}:00.000+00:00"
    return Said("r", None, role, more.pop("blocks", (blocks.text("words"),)), timestamp=when, **more)


def found(*messages: Said) -> list[float]:
    return pauses(messages)


@pytest.mark.spec("S4.19")
def test_a_pause_is_the_time_between_an_answer_and_what_the_user_said_next() -> None:
    assert found(said("user", 0), said("assistant", 1), said("user", 6), said("user", 9)) == [300.0]
    assert found(said("assistant", 1), said("assistant", 3), said("user", 6)) == [180.0]
    assert found(said("assistant", 1), said("user", 2), said("assistant", 3), said("user", 13)) == [
        60.0,
        600.0,
    ]


@pytest.mark.spec("S4.19")
@pytest.mark.parametrize(
    "between",
    [
        said("user", 2, meta=True),
        said("user", 2, summary=True),
        said("user", 2, blocks=(blocks.result("c1", "output"),)),
        said("user", None),
        said("assistant", 2, synthetic=True),
    ],
    ids=["meta", "summary", "result", "no time", "made by a program"],
)
def test_what_no_user_said_ends_no_pause(between: Said) -> None:
    assert found(said("assistant", 1), between, said("user", 6)) == [300.0]


def test_without_an_answer_there_is_no_pause() -> None:
    assert found() == found(said("user", 1)) == found(said("user", 1), said("user", 2)) == []
