"""Python functions as tools: what their hints and words become, and what is refused."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest
from msgspec import Meta

from sevenfold.errors import InputError
from sevenfold.tools import Context, Toolbox, ToolOutput, function_tool
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


@pytest.mark.parametrize(
    ("came", "shown"), [(None, "null"), ({"a": [1]}, '{"a":[1]}'), ("x", "x"), (1j, "1j")]
)
def test_whatever_a_function_returns_can_be_shown(tmp_path, came, shown):
    def gives() -> Any:
        """Gives."""
        return came

    assert called(gives, tmp_path) == shown


def test_an_output_of_ones_own_is_left_as_it_is(tmp_path):
    def picture() -> ToolOutput:
        """Shows."""
        return ToolOutput([{"type": "text", "text": "x"}])

    assert called(picture, tmp_path) == [{"type": "text", "text": "x"}]


def no_hint(x):
    """Has none."""


def any_number(*numbers: int) -> None:
    """Takes many."""


def a_function(how: Callable[[], int]) -> None:
    """Takes a function."""


def a_path(path: Path) -> None:
    """Takes a path."""


def endless(node: Node) -> None:
    """Takes a tree."""


def silent(x: Optional[int]) -> None:  # noqa: UP045 (what people write)
    pass


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (no_hint, "parameter x has no type hint"),
        (any_number, "name each parameter"),
        (a_function, "parameter how"),
        (a_path, "parameter path"),
        (endless, "holds itself"),
        (silent, "docstring"),
        (lambda: None, "name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(function, says):
    with pytest.raises(InputError, match=says):
        function_tool(function)


def test_a_function_that_asks_says_so(tmp_path):
    def launch() -> None:
        """Launches."""

    context = context_in(tmp_path)
    assert function_tool(launch).wish({}, context).deed == "none"
    assert function_tool(launch, asks=True).wish({}, context).deed == "call"
