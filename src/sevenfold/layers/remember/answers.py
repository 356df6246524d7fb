"""Reads the tags in a model's answer, in one pass, however odd the answer is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>fact|forget|quote|note|date|replaces|earlier)\b(?P<attributes>[^<>\n]{0,300})>",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""\b([a-z]+)\s*=\s*["'“”]([^"'“”<>]{0,200})["'“”]""", re.IGNORECASE)
_WHOLE = ("fact", "forget")
"""The tags that hold others."""


class Tagged(Struct, frozen=True):
    """A tag, the text in it, and, for a fact, the tags in it."""

    name: str
    attributes: dict[str, str]
    text: str = ""
    parts: tuple[Tagged, ...] = ()

    def texts(self, *names: str) -> tuple[str, ...]:
        """The texts of the tags with these names that are in it, without those that are empty."""
        return tuple(part.text for part in self.parts if part.name in names and part.text)


def tagged(answer: str) -> Iterator[Tagged]:
    """The facts in an answer. One that is not closed ends where the next begins, or with the answer."""
    outer: Tagged | None = None
    inner: Tagged | None = None
    start = 0
    parts: list[Tagged] = []
    for match in _TAG.finditer(answer):
        name = match["name"].lower()
        ends = bool(match["end"])
        if inner is not None and (name in _WHOLE or name == inner.name):
            parts.append(Tagged(inner.name, inner.attributes, _bare(answer[start : match.start()])))
            inner = None
            if ends and name not in _WHOLE:
                continue
        if name in _WHOLE:
            if outer is not None:
                yield Tagged(outer.name, outer.attributes, parts=tuple(parts))
            outer = None if ends else Tagged(name, _attributes(match["attributes"]))
            parts = []
        elif outer is not None and inner is None and not ends:
            inner = Tagged(name, _attributes(match["attributes"]))
            start = match.end()
    if inner is not None:
        parts.append(Tagged(inner.name, inner.attributes, _bare(answer[start:])))
    if outer is not None:
        yield Tagged(outer.name, outer.attributes, parts=tuple(parts))


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): value.strip() for name, value in _ATTRIBUTE.findall(text)}


def _bare(text: str) -> str:
    return text.strip().strip('"“”„«»').strip()
