"""The head of a Markdown file: ``key: value`` lines between two lines of ``---``.

Files come from people, other tools and models, so nothing here is an error: a line that cannot be parsed stays in the
head unchanged, and a file without a head is all body. Rewriting a key changes its line and no other byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct

_FENCE = re.compile(r"---[ \t]*")
_KEY = re.compile(r"([A-Za-z_][\w-]{0,60}):(?:[ \t]+(.*)|)")
_PLAIN = re.compile(r"[A-Za-z0-9(][^#:\"'\n\\]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})
LONGEST_HEAD = 200
"""The most lines in a head; if it is not closed by then, it is body."""


class Page(Struct, frozen=True):
    """A file's head and body; joined, they give the same file again."""

    head: tuple[str, ...]
    """The lines between the fences, with their line ends; empty if the file has no head."""
    body: str
    fences: tuple[str, str] = ("---\n", "---\n")

    @property
    def values(self) -> Mapping[str, str]:
        """The values of the top-level keys; if a key occurs twice, the first."""
        return _values(self.head)

    def with_value(self, key: str, value: str) -> Page:
        """The page with this key set; a new key is added at the end."""
        line = f"{key}: {_written(value)}\n"
        lines: list[str] = []
        inside = False
        for old_line in self.head:
            match = _KEY.fullmatch(old_line.rstrip("\r\n"))
            inside = match[1] == key if match else inside and old_line[:1] in " \t"
            if not inside or line not in lines:
                lines.append(line if inside else old_line)
        return Page((*lines, *(() if line in lines else (line,))), self.body, self.fences)

    def render(self) -> str:
        """The content of the file."""
        opened, closed = self.fences if self.head else ("", "")
        return f"{opened}{''.join(self.head)}{closed}{self.body}"


@lru_cache(maxsize=4096)
def _values(head: tuple[str, ...]) -> Mapping[str, str]:
    values: dict[str, str] = {}
    key = ""
    for line in head:
        text = line.rstrip("\r\n")
        if (match := _KEY.fullmatch(text)) is not None:
            key = match[1]
            values.setdefault(key, _read(match[2] or ""))
        elif key and text[:1] in " \t" and values[key] in ("", ">", "|", ">-", "|-"):
            values[key] = text.strip()
        elif key and text[:1] in " \t" and text.strip():
            values[key] = f"{values[key]} {text.strip()}"
        else:
            key = ""
    return MappingProxyType(values)


def split(text: str) -> Page:
    """Split a file into head and body."""
    lines = text.split("\n", LONGEST_HEAD + 2)
    if not _FENCE.fullmatch(lines[0].removeprefix("\ufeff").rstrip("\r")):
        return Page((), text)
    for number, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line.rstrip("\r")):
            head = tuple(f"{head_line}\n" for head_line in lines[1:number])
            closed = line if number == len(lines) - 1 else f"{line}\n"
            return Page(head, "\n".join(lines[number + 1 :]), (f"{lines[0]}\n", closed))
    return Page((), text)


def _read(value: str) -> str:
    """A value without its quotes or a trailing comment."""
    value = value.strip()
    if value[:1] == '"':
        try:
            decoded, _ = json.JSONDecoder().raw_decode(value)
        except ValueError:
            return value.strip('"')
        return str(decoded)
    if value[:1] == "'" and (end := value.rfind("'")) > 0:
        return value[1:end].replace("''", "'")
    return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip()


def _written(value: str) -> str:
    """A value in a form that any YAML parser accepts."""
    value = " ".join(value.split())
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and value == value.strip():
        return value
    return json.dumps(value, ensure_ascii=False)
