"""Whatever passes the gateway arrives as if nothing were in between."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.gateway.cases import Case, Seen, ask, make, playing
from tests.gateway.standing import standing
from tests.support import PROVING

pytestmark = pytest.mark.spec("S30.1")

CASES = 1_000 if PROVING else 160
PARTS = 10 if PROVING else 1
LARGEST = 300_000 if PROVING else 90_000
ON_ONE_CONNECTION = 4


def connections(cases: list[Case]) -> list[list[int]]:
    """The cases of each connection: those after one that ends its connection come on the next."""
    made: list[list[int]] = [[]]
    for number, case in enumerate(cases):
        made[-1].append(number)
        if case.ending != "stay" or len(made[-1]) == ON_ONE_CONNECTION:
            made.append([])
    return [numbers for numbers in made if numbers]


async def run(port: int, cases: list[Case]) -> dict[int, Seen]:
    seen: dict[int, Seen] = {}
    for numbers in connections(cases):
        answers = await ask(port, [cases[number] for number in numbers])
        seen |= zip(numbers, answers, strict=False)
    return seen


def difference(direct: Seen, passed: Seen) -> str:
    if direct.ending != passed.ending:
        return f"ended with {passed.ending} instead of {direct.ending}"
    if direct.ending == "reset":
        # What was on its way when the connection was reset is lost at any moment.
        return (
            ""
            if direct.answer.startswith(passed.answer) or passed.answer.startswith(direct.answer)
            else "bytes"
        )
    return "" if direct.answer == passed.answer else "bytes of the answer"


@pytest.mark.parametrize("part", range(PARTS))
def test_requests_and_answers_of_every_kind_pass_without_a_difference(tmp_path: Path, part: int) -> None:
    cases = [make(random.Random(part * CASES + number), number, LARGEST) for number in range(CASES)]
    by_number = dict(enumerate(cases))
    with playing(by_number) as (port, server):
        direct = asyncio.run(run(port, cases))
        sent_directly, server.seen = server.seen, {}
        with standing(tmp_path, f"http://127.0.0.1:{port}") as gateway:
            passed = asyncio.run(run(gateway.gateway.port, cases))
        differences = {
            number: why for number in by_number if (why := difference(direct[number], passed[number]))
        }
        assert differences == {}
        assert {number: (seen.head, seen.request) for number, seen in sent_directly.items()} == {
            number: (seen.head, seen.request) for number, seen in server.seen.items()
        }
