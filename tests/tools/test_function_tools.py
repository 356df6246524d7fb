"""Python functions as tools: what their hints and words become, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import enum
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import pydantic
import pytest
from msgspec import Meta

from sevenfold.agent.tools.context import Abort, Context
from sevenfold.agent.tools.functions import function_tool
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import Toolbox
from sevenfold.errors import InputError
from tests.tools.handling import context_in


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Person(TypedDict, total=False):
    name: str
    age: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(TypedDict):
    inner: list[Node]


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(function_tool(function).schema)


def called(function: Callable[..., Any], folder: Path, **given: Any) -> Any:
    output = Toolbox([function_tool(function)]).run(function.__name__, given, context_in(folder))
    assert not output.is_error, output.content
    return output.content


def test_words_come_from_the_docstring_and_each_argument_has_its_own():
    def weather(city: str, days: int = 3, unit: Annotated[str, "C or F"] = "C") -> str:
        """Says what the weather will be.

        Only for places on land.

        Args:
            city: the name of the place,
                in English
            days (int): how far ahead

        Returns:
            Some words.
        """
        return city

    tool = function_tool(weather, kind="web")
    assert (tool.name, tool.kind) == ("weather", "web")
    assert tool.description == "Says what the weather will be.\n\nOnly for places on land."
    assert tool.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "the name of the place, in English"},
            "days": {"type": "integer", "default": 3, "description": "how far ahead"},
            "unit": {"type": "string", "default": "C", "description": "C or F"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_fields_in_the_other_style_of_docstring_count_too():
    def look(where: str) -> str:
        """Look.

        :param where: the place
        """
        return where

    assert schema(look)["properties"]["where"]["description"] == "the place"


def test_dataclasses_typed_dicts_enums_and_literals_arrive_as_what_they_are(tmp_path):
    def draw(
        at: Point, who: Person, colour: Colour, how: Literal["thin", "thick"], name: str | None = None
    ) -> str:
        """Draws."""
        assert isinstance(at, Point)
        assert isinstance(colour, Colour)
        return f"{at.x},{at.y} {who['name']} {colour.value} {how} {name}"

    shape = schema(draw)["properties"]
    assert shape["at"]["properties"]["x"] == {"type": "integer"}
    assert shape["at"]["required"] == ["x"]
    assert shape["how"] == {"enum": ["thick", "thin"]}
    assert shape["name"] == {"type": "string"}
    given = {"at": {"x": 1}, "who": {"name": "Ada"}, "colour": "red", "how": "thin"}
    assert called(draw, tmp_path, **given) == "1,0 Ada red thin None"


def test_limits_from_annotations_are_held_to(tmp_path):
    def roll(sides: Annotated[int, Meta(ge=2, le=100)]) -> int:
        """Rolls."""
        return sides

    output = Toolbox([function_tool(roll)]).run("roll", {"sides": 1}, context_in(tmp_path))
    assert output.is_error
    assert "at least 2" in str(output.content)


def test_the_context_is_handed_in_and_not_shown(tmp_path):
    def where(context: Context) -> str:
        """Says where."""
        return str(context.workspace)

    assert schema(where)["properties"] == {}
    assert called(where, tmp_path) == str(tmp_path.resolve())


def test_defaults_that_can_change_are_fresh_each_time(tmp_path):
    def collect(items: list[int] = [1]) -> list[int]:  # noqa: B006 (what people write)
        """Collects."""
        items.append(2)
        return items

    assert called(collect, tmp_path) == called(collect, tmp_path) == "[1,2]"


class Place(NamedTuple):
    lat: float
    lon: float


class Told:
    def __str__(self) -> str:
        return "in its own words"


class Mute:
    pass


class Model(pydantic.BaseModel):
    name: str
    files: list[Path] = []
    inner: Model | None = None


class Flat(pydantic.BaseModel):
    city: str
    days: int = pydantic.Field(default=1, ge=1, description="how far ahead")


DAY = datetime(2026, 11, 16, 5, 0, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.mark.parametrize(
    ("came", "shown"),
    [
        (None, "null"),
        ({"a": [1]}, '{"a":[1]}'),
        ("x", "x"),
        (1j, "1j"),
        ({"path": Path("a/b"), 1: {Colour.RED}}, '{"path":"a/b","1":["red"]}'),
        (Path("a/b"), "a/b"),
        (Colour.BLUE, "blue"),
        (DAY, "2026-11-16T05:00:00Z"),
        ([Decimal("1.50"), UUID(int=7)], '["1.50","00000000-0000-0000-0000-000000000007"]'),
        (Point(1), '{"x":1,"y":0,"tags":[]}'),
        (Place(1.5, 2), "[1.5,2]"),
        (Model(name="x", files=[Path("f")]), '{"name":"x","files":["f"],"inner":null}'),
        ([Model(name="x")], '[{"name":"x","files":[],"inner":null}]'),
        ({"raw": b"text", "not": b"\xff\xfe"}, '{"raw":"text","not":"[2 bytes that are not text]"}'),
        (b"caf\xc3\xa9", "café"),
        (bytes([255] * 5_000), "[5,000 bytes that are not text]"),
        ({"ratio": float("nan"), "big": 2**80}, '{"ratio":"nan","big":1208925819614629174706176}'),
        (ValueError("no"), "ValueError: no"),
        ([Told()], '["in its own words"]'),
        (range(3), "[0,1,2]"),
        ((n * n for n in range(3)), "0\n1\n4"),
        (map(str, (1, 2)), "1\n2"),
        ((), "[]"),
    ],
)
def test_whatever_a_function_returns_is_shown_by_what_it_holds(tmp_path, came, shown):
    def gives() -> Any:
        """Gives."""
        return came

    assert called(gives, tmp_path) == shown


def test_bytes_of_a_picture_are_shown_as_one(tmp_path):
    def draw() -> bytes:
        return PNG

    [picture] = called(draw, tmp_path)
    assert picture["source"]["media_type"] == "image/png"
    assert base64.b64decode(picture["source"]["data"]) == PNG


@pytest.mark.parametrize(
    ("came", "named"),
    [(object(), "object"), ({"deep": [Mute()]}, "Mute"), (lambda: None, "function"), (Mute, "type")],
)
def test_what_can_only_be_shown_as_an_address_is_an_error_that_names_its_type(tmp_path, came, named):
    def gives() -> Any:
        """Gives."""
        return came

    output = Toolbox([function_tool(gives)]).run("gives", {}, context_in(tmp_path))
    assert output.is_error
    assert named in output.content
    assert "0x" not in output.content


def test_what_holds_itself_is_an_error(tmp_path):
    def gives() -> Any:
        """Gives."""
        loop: list[Any] = []
        loop.append(loop)
        return loop

    output = Toolbox([function_tool(gives)]).run("gives", {}, context_in(tmp_path))
    assert output.is_error
    assert "contains itself" in output.content


def test_what_a_generator_yields_is_told_as_it_comes_and_is_the_result_line_by_line(tmp_path):
    def count(most: int):
        """Counts."""
        for number in range(most):
            yield f"{number}\n"
        yield {"done": True}

    async def count_async(most: int):
        """Counts."""
        for number in range(most):
            yield number

    told: list[str] = []
    context = context_in(tmp_path, progress=told.append)
    box = Toolbox([function_tool(count), function_tool(count_async)])
    assert box.run("count", {"most": 2}, context).content == '0\n1\n{"done":true}'
    assert told == ["0\n", "1\n", '{"done":true}\n']
    assert box.run("count_async", {"most": 2}, context).content == "0\n1"
    assert asyncio.run(box.run_async("count_async", {"most": 3}, context)).content == "0\n1\n2"
    assert asyncio.run(box.run_async("count", {"most": 0}, context)).content == '{"done":true}'


def test_what_a_generator_returns_is_its_result(tmp_path):
    def work():
        """Works."""
        yield "half way"
        return "all done"

    assert called(work, tmp_path) == "all done"


def test_a_generator_ends_when_the_call_is_to_stop(tmp_path):
    closed: list[str] = []
    abort = Abort()

    def endless():
        """Never ends."""
        try:
            for number in itertools.count():
                if number == 3:
                    abort.set()
                yield number
        finally:
            closed.append("closed")

    output = Toolbox([function_tool(endless)]).run("endless", {}, context_in(tmp_path, abort=abort))
    assert output.content == "0\n1\n2\n3\n[stopped here]"
    assert closed == ["closed"]


def test_paths_dates_and_models_of_pydantic_arrive_as_what_they_are(tmp_path):
    def plan(
        where: Path,
        day: datetime,
        trip: Flat,
        others: list[Flat],
        any_path: str | Path = ".",
        at: Path = Path("x"),
    ) -> Any:
        """Plans."""
        assert isinstance(where, Path)
        assert isinstance(day, datetime)
        assert isinstance(trip, Flat)
        return [where, day.year, trip.days, [one.city for one in others], any_path, at]

    shape = schema(plan)
    assert shape["properties"]["where"] == {"type": "string"}
    assert shape["properties"]["trip"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "default": 1, "description": "how far ahead"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert shape["required"] == ["where", "day", "trip", "others"]
    given = {
        "where": "a/b",
        "day": "2026-11-16T00:00:00Z",
        "trip": {"city": "Roma", "days": 2},
        "others": [{"city": "Wien"}],
    }
    assert called(plan, tmp_path, **given) == '["a/b",2026,2,["Wien"],".","x"]'


def test_what_a_model_of_pydantic_refuses_is_told_in_a_line(tmp_path):
    class Even(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def even(cls, number: int) -> int:
            if number % 2:
                raise ValueError("it must be even")
            return number

    def take(one: Even) -> int:
        """Takes."""
        return one.number

    take.__annotations__["one"] = Even
    output = Toolbox([function_tool(take)]).run("take", {"one": {"number": 1}}, context_in(tmp_path))
    assert output.is_error
    assert "number: Value error, it must be even" in output.content
    assert "http" not in output.content


def test_a_function_without_hints_or_docstring_is_a_tool_all_the_same(tmp_path):
    def look_up(word, most=3):
        return [word, most]

    tool = function_tool(look_up)
    assert tool.description == "Look up."
    assert tool.schema["properties"] == {"word": {}, "most": {"default": 3}}
    assert tool.schema["required"] == ["word"]
    assert called(look_up, tmp_path, word={"any": "thing"}) == '[{"any":"thing"},3]'


def test_arguments_are_passed_the_way_the_function_takes_them(tmp_path):
    def take(a: int, /, b: int, *more: int, c: int = 5, **others: str) -> Any:
        """Takes.

        Args:
            more: further numbers
        """
        return [a, b, more, c, others]

    shape = schema(take)["properties"]
    assert shape["more"]["items"] == {"type": "integer", "description": "further numbers"}
    assert shape["others"]["additionalProperties"] == {"type": "string"}
    assert called(take, tmp_path, a=1, b=2) == "[1,2,[],5,{}]"
    given = {"a": 1, "b": 2, "more": [3, 4], "c": 6, "others": {"x": "y"}}
    assert called(take, tmp_path, **given) == '[1,2,[3,4],6,{"x":"y"}]'


def test_partials_methods_classes_and_objects_that_are_called_are_tools(tmp_path):
    def power(base: int, exponent: int) -> int:
        """Raises a number."""
        return int(base**exponent)

    class Adder:
        """Adds."""

        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, number: int) -> int:
            return number + self.by

        def twice(self, number: int) -> int:
            return number + 2 * self.by

    made: list[Callable[..., Any]] = [functools.partial(power, exponent=2), Adder(1), Adder(1).twice]
    tools = [function_tool(one) for one in made]
    assert [tool.name for tool in tools] == ["power", "Adder", "twice"]
    box, context = Toolbox(tools), context_in(tmp_path)
    assert box.run("power", {"base": 3}, context).content == "9"
    assert box.run("Adder", {"number": 3}, context).content == "4"
    assert box.run("twice", {"number": 3}, context).content == "5"


def test_descriptions_come_from_any_annotation_that_has_one():
    def look(
        where: Annotated[str, pydantic.Field(description="the place")],
        at: Place,
        short: Annotated[int, "n"] = 1,
    ) -> None:
        """Looks."""

    shape = schema(look)["properties"]
    assert shape["where"]["description"] == "the place"
    assert shape["at"]["description"] == "The values of lat, lon, in this order."
    assert shape["short"]["description"] == "n"


def test_an_output_of_ones_own_is_left_as_it_is(tmp_path):
    def picture() -> ToolOutput:
        """Shows."""
        return ToolOutput([{"type": "text", "text": "x"}])

    assert called(picture, tmp_path) == [{"type": "text", "text": "x"}]


def a_function(how: Callable[[], int]) -> None:
    """Takes a function."""


def endless(node: Node) -> None:
    """Takes a tree."""


def two_classes(one: Point | Person) -> None:
    """Takes either."""


def a_tree(model: Model) -> None:
    """Takes a tree."""


def umlaut(größe: int) -> None:
    """Takes a size."""


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (a_function, "parameter how: no schema can say what"),
        (two_classes, "one class at most"),
        (endless, "recursive"),
        (a_tree, "recursive"),
        (umlaut, "größe"),
        (lambda: None, "name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(function, says):
    with pytest.raises(InputError, match=says) as refused:
        function_tool(function)
    assert "hook" not in str(refused.value)


def test_a_function_that_asks_says_so(tmp_path):
    def launch() -> None:
        """Launches."""

    context = context_in(tmp_path)
    assert function_tool(launch).permission_request({}, context).action == "none"
    assert function_tool(launch, asks=True).permission_request({}, context).action == "call"
