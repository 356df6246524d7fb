"""What all injected texts have in common: a Markdown template, a tag that identifies the text, and a maximum size.

A `Text` is a small frozen class whose fields fill the holes of its Markdown file, which also states its tag and cap.
Most fields are one line; a boolean has no text, but shows or hides the part named after it. At most one field, the
*body*, may be long: it is often someone else's words, so it is cut at the cap with a note that says so, and it cannot
close the tag around it. Rendering is a pure function of the fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.record.quoting import unclosable

Stage = Literal["static", "session"]
"""Static text is the same for all users; session text belongs to one session."""

KB = 1024
LINE_CAP = 4 * KB
"""Maximum bytes in a one-line field; no system accepts longer paths."""

_CAPITAL = re.compile("(?<!^)(?=[A-Z])")
_HOLE = re.compile(r"\{\{(\w+)\}\}")
_PART = re.compile(r"\{\{#(\w+)\}\}(.*?)\{\{/\1\}\}", re.DOTALL)
_ALONE = re.compile(r"^(\{\{[#/]\w+\}\})\n", re.MULTILINE)
_BRACES = re.compile(r"\{\{.*|\}\}")
_DASHES = "---\n"
_FOLDER = Path(__file__).with_name("texts")
_NOT_ONE_LINE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


class _Fact:
    """A property of a text that is read from the header of its file."""

    def __init__(self, name: str, otherwise: Any) -> None:
        self._name = name
        self._otherwise = otherwise

    def __get__(self, text: object, kind: type[Text]) -> Any:
        return _read(kind.file)[0].get(self._name, self._otherwise)


def _fact(name: str, otherwise: Any = None) -> Any:
    return _Fact(name, otherwise)


class Text(Struct, frozen=True):
    """One text that is put before the model."""

    file: ClassVar[str]
    """Its name, also that of its Markdown file: by default the name of the class in snake case."""
    stage: ClassVar[Stage] = "session"
    tag: ClassVar[str] = _fact("tag", "")
    """The tag around it, by which it can be recognised; empty: none."""
    cap: ClassVar[int] = _fact("cap")
    """Maximum bytes of its body if it has one, else of the whole text. A token is about four bytes."""
    lines: ClassVar[int | None] = _fact("lines")
    """Maximum lines of its body; None: no limit."""
    body: ClassVar[str] = _fact("body", "")
    """The one field that may have many lines; it is cut if it is too long."""
    source: ClassVar[str] = _fact("source", "")
    """The field that says where the full body can be read."""
    volatile: ClassVar[str] = _fact("volatile", "")
    """Why it must be computed again before each request; empty: it is computed once."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Name the file after the class."""
        super().__init_subclass__(**options)
        if "file" not in cls.__dict__:
            cls.file = _CAPITAL.sub("_", cls.__name__).lower()

    def render(self) -> str:
        """The text as the model sees it; raises `InputError` if a text without a body is over its cap."""
        text = render(self.file, {name: self._shown(name) for name in self.__struct_fields__})
        if not self.body and size(text) > self.cap:
            raise InputError(
                f"prompts/texts/{self.file}.md: rendered it has {size(text):,} bytes, over its cap of "
                f"{self.cap:,}; shorten it, or raise the cap of {type(self).__name__}"
            )
        return f"<{self.tag}>\n{text}\n</{self.tag}>" if self.tag else text

    def _shown(self, field: str) -> str | None:
        value = getattr(self, field)
        if value is None or isinstance(value, bool):
            return "" if value else None
        text = f"{value:,}" if isinstance(value, int) else _whole_characters(value)
        if field == self.body:
            return self._inside(self._cut(text.strip("\n")))
        return self._inside(cut(_NOT_ONE_LINE.sub("?", text), LINE_CAP))

    def _cut(self, text: str) -> str:
        shown = cut(text, self.cap, self.lines)
        if shown == text:
            return text
        path = getattr(self, self.source) if self.source else None
        return f"{shown}\n{CutNote(size(shown), size(text), path).render()}"

    def _inside(self, text: str) -> str:
        """The words with any closing tag escaped, so that they cannot end the tag around them."""
        if not self.tag:
            return text
        return unclosable(text, self.tag)


class Static(Text, frozen=True):
    """A text without fields."""

    stage = "static"
    cap = 3 * KB


class CutNote(Text, frozen=True):
    """Says that a text was cut, and where to read all of it."""

    shown: int
    total: int
    path: str | None = None


def size(text: str) -> int:
    """The number of bytes as sent."""
    return len(text.encode())


def cut(text: str, max_bytes: int, lines: int | None = None) -> str:
    """The beginning of a text: at most ``max_bytes`` bytes and ``lines`` lines, ending at a line break if possible."""
    if lines is not None:
        text = "\n".join(text.split("\n", lines)[:lines])
    raw = text.encode()
    if len(raw) <= max_bytes:
        return text
    beginning = raw[:max_bytes].decode(errors="ignore")
    whole, line_end, _ = beginning.rpartition("\n")
    # If the last line is most of the text, a part of it is better than none.
    return whole if line_end and len(whole) > len(beginning) // 2 else beginning


def _whole_characters(text: str) -> str:
    """The words without lone surrogates: they occur in odd file names, and JSON cannot represent them."""
    return text.encode(errors="replace").decode()


# -- templates ------------------------------------------------------------------------------------


@cache
def _read(name: str) -> tuple[dict[str, str | int], str]:
    """The header of a text's file, between two lines of dashes at its top, and the text itself."""
    text = (_FOLDER / f"{name}.md").read_text("utf-8").rstrip("\n")
    if not text.startswith(_DASHES):
        return {}, text
    head, _, text = text.removeprefix(_DASHES).partition(_DASHES)
    facts = (line.split(": ", 1) for line in head.splitlines())
    return {key: int(value) if value.isdecimal() else value for key, value in facts}, text


@cache
def tags() -> frozenset[str]:
    """The tags of all texts: content that begins with one was added by a program."""
    listed = (_read(file.stem)[0].get("tag") for file in _FOLDER.glob("*.md"))
    return frozenset(map(str, filter(None, listed)))


def render(name: str, values: Mapping[str, str | None]) -> str:
    """The text ``name`` with every hole filled; a value of ``None`` leaves out the part named after it."""
    return fill(_read(name)[1], values, where=f"prompts/texts/{name}.md")


def fill(template: str, values: Mapping[str, str | None], *, where: str = "the template") -> str:
    """A template with every hole filled; raises an `InputError` naming what does not fit."""
    # A line with only the beginning or end of a part must not leave an empty line.
    template = _ALONE.sub(r"\1", template + "\n")
    named = set(_HOLE.findall(template)) | {part[0] for part in _PART.findall(template)}
    if missing := sorted(named - values.keys()):
        raise InputError(f"{where}: no value was given for {', '.join(missing)}")
    if unused := sorted(values.keys() - named):
        raise InputError(f"{where}: nothing in it uses {', '.join(unused)}; remove the value, or use it")
    shown = _PART.sub(lambda part: "" if values[part[1]] is None else part[2], template)
    if stray := _BRACES.search(_HOLE.sub("", shown)):
        raise InputError(f"{where}: {stray[0]!r} is neither a hole nor a part; parts cannot be nested")
    if name := next((hole for hole in _HOLE.findall(shown) if values[hole] is None), None):
        raise InputError(
            f"{where}: {name} has no value here; put {{{{#{name}}}}}…{{{{/{name}}}}} around it"
        )
    return _HOLE.sub(lambda hole: values[hole[1]] or "", shown).rstrip("\n")
