"""The toolbox: what the model is told, and that nothing it sends breaks the loop."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.functions import function_tool
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.schemas import problems, without_nulls
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


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": ["integer", "null"]}, "x", 'the input must be of type integer or null, not "x"'),
        ({"enum": ["a", 1]}, True, 'the input must be one of "a", 1, not true'),
        ({"const": "a"}, "b" * 99, f'the input must be "a", not "{"b" * 59}…'),
        ({"items": {"minimum": 1}}, [1, 0], "[1] must be at least 1, not 0"),
        ({"maximum": 1}, 2, "the input must be at most 1, not 2"),
        ({"exclusiveMinimum": 1}, 1, "the input must be above 1, not 1"),
        ({"exclusiveMaximum": 1}, 1, "the input must be below 1, not 1"),
        ({"minLength": 1}, "", "the input must have at least 1 character"),
        ({"maxLength": 1}, "ab", "the input must have at most 1 character, not 2"),
        ({"minItems": 1}, [], "the input must have at least 1 item"),
        ({"maxItems": 0}, [1], "the input must have at most 0 items, not 1"),
        ({"pattern": "^a{2}$"}, "a", "the input must match ^a{2}$"),
        ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, "a.b is missing"),
        (
            {"properties": {"path": {}}, "additionalProperties": False},
            {"pat": 1},
            "pat is unknown; did you mean path?",
        ),
        (
            {"properties": {"path": {}}, "additionalProperties": False},
            {"x": 1},
            "x is unknown; known: path",
        ),
        ({"additionalProperties": False}, {"x": 1}, "x is unknown; known: none"),
        ({"additionalProperties": {"type": "null"}}, {"x": 1}, "x must be of type null, not 1"),
        ({"not": {"type": "string"}}, "a", "the input is not allowed"),
    ],
)
def test_faults_are_told_in_words_a_model_can_act_on(schema, value, told):
    assert "; ".join(problems(value, schema)).startswith(told)


def test_of_alternatives_the_one_with_the_fewest_faults_is_told():
    point = {"type": "object", "required": ["x", "y"], "properties": {"x": {"type": "integer"}}}
    line = {"type": "object", "required": ["a", "b", "c"]}
    for keyword in ("anyOf", "oneOf"):
        schema = {"type": "object", "properties": {"at": {keyword: [line, point]}}}
        assert list(problems({"at": {"x": "1"}}, schema)) == [
            "at.y is missing",
            'at.x must be of type integer, not "1"',
        ]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        # Alternatives that overlap: many schemas say oneOf and mean anyOf.
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [1, 1.5], ["1"]),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, [2], [0, 4]),
        (
            {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False},
            [{"x-a": 1}],
            [{"x-a": "1"}, {"y": 1}],
        ),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, [1], ["1"]),
        (
            {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}},
            [[[], [[]]]],
            [[[1]]],
        ),
    ],
)
def test_more_of_json_schema_is_held_to(schema, good, bad):
    assert [value for value in good if list(problems(value, schema))] == []
    assert [value for value in bad if not list(problems(value, schema))] == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "text"},
        {"type": 3},
        {"minimum": "1"},
        {"required": True},
        {"properties": 1},
        {"pattern": "("},
        {"anyOf": []},
        {"enum": 1},
        {"$ref": "#/$defs/none"},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": 1},
        {"items": [1]},
    ],
)
def test_a_broken_schema_is_not_enforced_and_nothing_is_fetched(schema, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("nothing may be fetched"))
    for value in (None, True, 1, "a", [1], {"a": 1}):
        list(problems(value, schema))
    assert list(problems("a", {"allOf": [schema], "type": "string"})) in ([], ["the input is not allowed"])


def test_a_schema_that_leads_into_itself_is_given_up():
    assert list(problems(1, {"$ref": "#"})) == ["the input is nested too deeply to be checked"]
    schema = {"items": {"$ref": "#"}}
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert list(problems(deep, schema)) == ["the input is nested too deeply to be checked"]
    while deep:
        deep = deep.pop()  # type: ignore[assignment]


def test_a_check_that_would_take_minutes_is_not_made():
    schema = {"anyOf": [{"items": {"type": "string"}, "maxItems": 1}] * 1_000}
    assert list(problems([""] * 100_000, schema)) == ["the input is too large to be checked"]


def test_null_is_kept_where_it_means_something():
    schema = {
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": ["integer", "null"]},
            "c": {"$ref": "#/$defs/text"},
            "d": {"type": "integer"},
        },
        "required": ["d"],
        "$defs": {"text": {"type": "string"}},
    }
    given = dict.fromkeys("abcde")
    assert without_nulls(given, schema) == {"b": None, "d": None, "e": None}


def test_without_jsonschema_tools_still_check_what_they_convert(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "referencing", None)
    hands = Hands(context_in(tmp_path), function_tool(add))
    assert hands.good("add", a=1) == "3"
    assert "Invalid input for add" in hands.bad("add", a="x")
    assert "Invalid input for add" in hands.bad("add", a=1, c=2)


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
