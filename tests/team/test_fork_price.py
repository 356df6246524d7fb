"""Before agents begin with a large conversation, the user is told what that costs, once for all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.team.price import fork_price
from tests.agent.working import results, world
from tests.team.play import parts, start

pytestmark = pytest.mark.spec("S37.9")

FORKS = [start("c1", "LEFT", subagent_type="fork"), start("c2", "RIGHT", subagent_type="fork")]
PLAY: dict[str, Any] = {"MAIN": [FORKS, "Done."], "LEFT": ["left done"], "RIGHT": ["right done"]}
WORDS = "MAIN task: " + "the tide comes in and goes out again. " * 2_000


def run(folder: Path, limit: float | None, *, agree: bool = True, **options: Any) -> tuple[list[str], str]:
    """What the user was asked, and the results of the two calls."""
    asked: list[str] = []

    def consent(question: Asked) -> Consented:
        asked.append(question.decision.reason)
        return Consented(agree)

    options = {"consent": consent, "settings": {"fork_usd": limit}, **options}
    with (
        world(parts(PLAY)) as there,
        there.agent(folder, name="s", agents=True, system=None, **options) as made,
    ):
        assert made.run(WORDS).text == "Done."
        request = there.simulator.requests.answered()[-1]
        return asked, str(results(json.loads(request.raw)))


def test_one_question_for_all_agents_of_an_answer_with_their_number_size_and_price(folder: Path) -> None:
    asked, told = run(folder, 0.0)
    assert len(asked) == 1
    assert asked[0].startswith("These agents begin with the whole conversation: 2 \u00d7 ")
    assert "K tokens, about $0.0" in asked[0]
    assert "left done" in told
    assert "right done" in told


def test_without_agreement_none_starts(folder: Path) -> None:
    asked, told = run(folder, 0.0, agree=False)
    assert len(asked) == 2
    assert "left done" not in told
    assert told.count("The user declined.") == 2


@pytest.mark.parametrize("limit", [None, 5.0])
def test_nobody_is_asked_below_the_limit(folder: Path, limit: float | None) -> None:
    assert run(folder, limit)[0] == []


def test_nobody_is_asked_in_the_mode_that_asks_nothing(folder: Path) -> None:
    asked, told = run(folder, 0.0, mode="autonomous")
    assert asked == []
    assert "right done" in told


def test_while_the_cache_is_warm_all_read_it_and_later_the_first_writes_it(folder: Path) -> None:
    with world(parts({"MAIN": ["Hello."]})) as there, there.agent(folder, name="s", system=None) as made:
        made.run(WORDS)
        conversation = made.assembly.conversation
        tokens = conversation.size().tokens
        price = conversation.profile.price(tokens)
        assert price is not None
        warm = fork_price(conversation, 4)
        assert warm is not None
        assert warm.usd == pytest.approx(4 * tokens * price.read / 1e6)
        there.clock.advance(7_200)
        cold = fork_price(conversation, 4)
        assert cold is not None
        assert cold.usd > warm.usd
