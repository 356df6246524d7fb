"""Tools that the program carries out itself: the run ends, and goes on with the results, in whatever process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.errors import InputError
from tests.agent.working import MODEL, QUIET, Model, use

WEATHER = {
    "name": "weather",
    "description": "The weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
BROKEN: tuple[Any, ...] = (
    {},
    {"name": "a b"},
    {"name": 3},
    {"name": "x", "input_schema": 3},
    {"name": "x", "input_schema": {"type": "objekt"}},
)


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def opened(model: Model, folder: Path, **options: Any) -> sevenfold.Agent:
    tools = [add, sevenfold.handed_over(WEATHER)]
    return sevenfold.Agent(
        MODEL, client=model, tools=tools, name="s", store=folder, settings=QUIET, memory=False, **options
    )


def results(model: Model) -> dict[str, str]:
    content = model.requests[-1]["messages"][-1]["content"]
    return {
        block["tool_use_id"]: str(block["content"]) for block in content if block["type"] == "tool_result"
    }


@pytest.mark.spec("S36.1")
def test_the_run_ends_once_everything_else_is_done_and_goes_on_with_the_results(tmp_path: Path) -> None:
    model = Model([[use("add", "c1", a=2, b=3), use("weather", "c2", city="Rome")], "Five, and sunny."])
    with opened(model, tmp_path) as agent:
        finished = agent.run("Add and look.")
        assert (finished.end, finished.turns) == ("input_required", 1)
        assert agent.assembly.conversation.waiting == ["c2"]
        assert agent.session.tool_results({"c2": "sunny"}) == []
        assert agent.run().text == "Five, and sunny."
    assert results(model) == {"c1": "5", "c2": "sunny"}


@pytest.mark.spec("S36.1")
def test_another_process_can_bring_the_results_of_several_answers(tmp_path: Path) -> None:
    first = Model([[use("weather", "c1", city="Rome"), use("weather", "c2", city="Oslo")]])
    with opened(first, tmp_path) as agent:
        assert agent.run("Look.").end == "input_required"
    second = Model([[use("weather", "c3", city="Bern")]])
    with opened(second, tmp_path) as agent:
        assert agent.session.tool_results({"c2": "snow"}) == ["c1"]
        assert agent.session.tool_results({"c2": "hail", "c1": "sun"}) == []
        assert agent.run().end == "input_required"
    assert results(second) == {"c1": "sun", "c2": "snow"}
    third = Model(["Go to Rome."])
    with opened(third, tmp_path) as agent:
        agent.session.tool_results({"c3": "fog"})
        assert agent.run().end == "done"
    assert results(third) == {"c3": "fog"}


@pytest.mark.spec("S36.1")
def test_a_call_with_wrong_input_is_not_handed_over(tmp_path: Path) -> None:
    model = Model([[use("weather", "c1", town="Rome")], "I see."])
    with opened(model, tmp_path) as agent:
        assert agent.run("Look.").end == "done"
    assert "city" in results(model)["c1"]


@pytest.mark.spec("S36.1")
def test_whoever_says_something_instead_gives_up_the_results(tmp_path: Path) -> None:
    model = Model([[use("weather", "c1", city="Rome")], "Then not."])
    with opened(model, tmp_path) as agent:
        agent.run("Look.")
        assert agent.run("Never mind.").text == "Then not."
    assert "c1" in results(model)


@pytest.mark.spec("S36.1")
@pytest.mark.parametrize("schema", BROKEN)
def test_a_definition_that_no_model_could_call_is_refused(schema: Any) -> None:
    with pytest.raises(InputError):
        sevenfold.handed_over(schema)
