"""How text that others wrote is quoted, so that nothing in it can pass for our own words, or for the user's.

Quoted text must not be able to end its quotation, to open a tag that means something, or to begin a line of its own.
Python, terminals and models know more line breaks than ``\\n``, more quotation marks than ``"``, and characters that
nobody sees: all of them are handled here, once.
"""

from __future__ import annotations

import re

_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(f"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{_UNSEEN}]")
_SMUGGLED = re.compile("[\U000e0000-\U000e007f]")
_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a\U000e0030-\U000e0039]{1,8}\U000e007f")
"""A flag such as Scotland's: the only use of tag characters that people see."""
_ANY_TAG = re.compile(r"<(?=\s*[/!?]?\s*[A-Za-z])")
_MEANINGFUL_TAG = re.compile(
    rf"<(?=[/\s{_UNSEEN}]*(?:\w+-[\w-]*|antml|system|user|human|assistant|tool\w*|function\w*|invoke|result)\b)",
    re.IGNORECASE,
)
"""The start of a tag that could mean something to models or programs, even with invisible characters in it."""
_DOUBLE_MARKS = re.compile('["\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u300c-\u300f\u301d-\u301f\uff02]')
_QUOTE_SIGNS = (">", "\uff1e")


def visible(text: str) -> str:
    """The text without invisible characters; line breaks stay."""
    return _INVISIBLE.sub("", text)


def without_tag_characters(text: str) -> tuple[str, int]:
    """The text without the Unicode tag characters in which instructions can be hidden, and how many there were."""
    if not _SMUGGLED.search(text):
        return text, 0
    flags = [flag.span() for flag in _FLAG.finditer(text)]
    fragments: list[str] = []
    position = 0
    for start, end in flags:
        fragments += [_SMUGGLED.sub("", text[position:start]), text[start:end]]
        position = end
    fragments.append(_SMUGGLED.sub("", text[position:]))
    shown = "".join(fragments)
    return shown, len(text) - len(shown)


def one_line(text: str) -> str:
    """The visible text on one line, whatever it uses as line breaks."""
    # `split` without arguments knows every line break that `splitlines` knows.
    return " ".join(visible(text).split())


def as_data(text: str) -> str:
    """The text as one line that is no quotation, and opens no tag."""
    line = _ANY_TAG.sub("&lt;", one_line(text))
    return f"\\{line}" if line.startswith(_QUOTE_SIGNS) else line


def quotation(text: str, limit: int) -> str:
    """The text on one line in quotation marks, cut at ``limit`` characters; nothing in it can end the quotation."""
    line = _DOUBLE_MARKS.sub("'", _ANY_TAG.sub("&lt;", one_line(text)))
    if len(line) > limit:
        line = f"{line[: limit - 1].rsplit(' ', 1)[0]}…"
    return f'"{line}"'


def quoted_lines(text: str) -> str:
    """Another's text with every line marked as a quotation and with meaningful tags escaped."""
    return "\n".join(f"> {line}" for line in escape_tags(text).splitlines()) or "> (no text)"


def escape_tags(text: str) -> str:
    """The text with every tag escaped that could mean something to models or programs."""
    return _MEANINGFUL_TAG.sub("&lt;", text)


def unclosable(text: str, tag: str) -> str:
    """The text with everything escaped that a reader could take for the end of this tag."""
    gap = rf"[\s{_UNSEEN}]*"
    letters = gap.join(map(re.escape, tag))
    return re.sub(rf"<(?={gap}/{gap}{letters}{gap}[^\w-])", "&lt;", text, flags=re.IGNORECASE)
