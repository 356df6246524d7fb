"""The toolbox: what the model is told, and that nothing it sends breaks the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.functions import function_tool
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.schemas import problems
from sevenfold.agent.tools.tool import AsyncTool, Toolbox
from sevenfold.errors import InputError, Refused
from tests.tools.handling import Hands, context_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def add(a: int, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b


def broken() -> str:
    """Never works."""
    raise RuntimeError("no luck")


def refuses() -> str:
    """Says no."""
    raise Refused("not today; try tomorrow")


@pytest.fixture
def hands(tmp_path):
    return Hands(context_in(tmp_path), *[function_tool(one) for one in (refuses, add, broken)])


@pytest.mark.spec("S6.2")
def test_schemas_come_in_the_order_of_names_however_tools_were_given():
    tools = [function_tool(one) for one in (refuses, add, broken)]
    assert Toolbox(tools).schemas() == Toolbox(reversed(tools)).schemas()
    assert [schema["name"] for schema in Toolbox(tools).schemas()] == ["add", "broken", "refuses"]


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(InputError, match="add"):
        Toolbox([function_tool(add), function_tool(add)])


def test_a_call_gives_what_the_tool_gives(hands):
    assert hands.good("add", a=1) == "3"


def test_an_unknown_tool_is_an_error_result_with_the_nearest_name(hands):
    assert "add" in hands.bad("addd", a=1)


def test_every_fault_of_an_input_is_told_at_once(hands):
    told = hands.bad("add", b="x", c=1)
    assert "a is missing" in told
    assert "b must be of type integer" in told
    assert "c is unknown" in told


def test_null_for_what_may_be_left_out_counts_as_left_out(hands):
    assert hands.good("add", a=1, b=None) == "3"


def test_null_for_what_is_needed_is_a_fault(hands):
    assert "a must be of type integer" in hands.bad("add", a=None)


def test_errors_of_a_tool_become_results(hands):
    assert "no luck" in hands.bad("broken")
    assert hands.bad("refuses") == "not today; try tomorrow"


@given(name=st.text(), sent=JSON)
def test_whatever_is_sent_nothing_is_raised(name, sent):
    box = Toolbox([function_tool(add)])
    context = context_in(__import__("pathlib").Path("/"))
    for one in (name, "add"):
        assert isinstance(box.run(one, sent, context), ToolOutput)
        box.permission_request(one, sent, context)


@given(JSON, JSON)
def test_a_value_fits_the_schema_that_names_it_and_no_other_value(one, other):
    assert not list(problems(one, {"const": one}))
    if one != other:
        assert list(problems(one, {"const": other}))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [1, 1.0], [True, 1.5, "1"]),
        ({"type": "number"}, [1, 1.5], [False, "1"]),
        ({"type": ["string", "null"]}, ["", None], [1]),
        ({"enum": ["a", 1]}, ["a", 1], [True, "b"]),
        (
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
            ["x", [1]],
            [["x"], 2],
        ),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
        ({"type": "string", "minLength": 1, "pattern": "^a"}, ["ab"], ["", "b"]),
        ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.9], [0, 3]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"x": 1}], [{"x": "1"}, []]),
    ],
)
def test_schemas_are_held_to(schema, good, bad):
    assert [value for value in good if list(problems(value, schema))] == []
    assert [value for value in bad if not list(problems(value, schema))] == []


def test_an_awaited_call_runs_beside_the_event_loop(hands):
    ours = threading.get_ident()

    def where() -> bool:
        """Which thread?"""
        return threading.get_ident() == ours

    box = Toolbox([function_tool(where)])
    assert asyncio.run(box.run_async("where", {}, hands.context)).content == "false"


def test_cancelling_an_awaited_call_stops_the_tool(hands):
    begun, ended = threading.Event(), threading.Event()

    def waits(context: Context) -> str:
        """Waits for the end."""
        begun.set()
        while not context.abort.is_set():
            pass
        ended.set()
        return ""

    async def cancel() -> None:
        task = asyncio.create_task(Toolbox([function_tool(waits)]).run_async("waits", {}, hands.context))
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended.wait(30)
    assert not hands.context.abort.is_set()


def test_an_async_function_works_from_both_worlds(hands):
    async def later(word: str) -> str:
        """Says it later."""
        await asyncio.sleep(0)
        return word

    tool = function_tool(later)
    box = Toolbox([tool])
    assert isinstance(tool, AsyncTool)
    assert box.run("later", {"word": "so"}, hands.context).content == "so"
    assert asyncio.run(box.run_async("later", {"word": "so"}, hands.context)).content == "so"

    async def from_inside() -> ToolOutput:
        return box.run("later", {"word": "so"}, hands.context)

    assert asyncio.run(from_inside()).content == "so"
