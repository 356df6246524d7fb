"""Web pages as text: headings, lists, links, tables and code, without what is only there to look at."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from sevenfold.agent.tools.words import names

_SKIPPED = names("script style noscript template svg canvas iframe head object video audio select button")
_BLOCKS = names(
    "p div section article main header footer aside nav ul ol dl table tr blockquote pre figure form fieldset "
    "h1 h2 h3 h4 h5 h6 li dt dd hr details summary address figcaption"
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_VOID = names("br hr img input meta link area base col embed source track wbr")
_BLANKS = re.compile(r"[ \t\r\f\v\n\u00a0]+")
_MANY_ENDS = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


def as_text(html: str) -> tuple[str, str]:
    """The title of a page, and its words."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return _BLANKS.sub(" ", "".join(reader.title)).strip(), _MANY_ENDS.sub(
        "\n\n", "".join(reader.said)
    ).strip()


class _Reader(HTMLParser):
    """Collects the words; takes any soup for a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []
        self.title: list[str] = []
        self._skipping: list[str] = []
        self._preformatted = 0
        self._in_title = False
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "title":
            self._in_title = True
        if tag in _SKIPPED:
            self._skipping.append(tag)
        if self._skipping:
            return
        if tag in _BLOCKS:
            self._new_line(2 if tag in _HEADINGS or tag in ("p", "pre", "table") else 1)
        if tag in _HEADINGS:
            self.said.append(_HEADINGS[tag])
        elif tag == "li":
            self.said.append("- ")
        elif tag == "br":
            self.said.append("\n")
        elif tag in ("td", "th"):
            self.said.append(" | ")
        elif tag == "pre":
            self._preformatted += 1
            self.said.append("```\n")
        elif tag == "code" and not self._preformatted:
            self.said.append("`")
        elif tag == "img" and given.get("alt"):
            self.said.append(f"[image: {given['alt']}]")
        elif tag == "a":
            self._links.append((given.get("href") or "", len(self.said)))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if tag in self._skipping:
            while self._skipping.pop() != tag:
                pass
            return
        if self._skipping or tag in _VOID:
            return
        if tag == "pre" and self._preformatted:
            self._preformatted -= 1
            self.said.append("\n```")
        elif tag == "code" and not self._preformatted:
            self.said.append("`")
        elif tag == "a" and self._links:
            self._end_link()
        if tag in _BLOCKS:
            self._new_line(2 if tag in _HEADINGS or tag in ("p", "pre", "table") else 1)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._skipping:
            words = data if self._preformatted else _BLANKS.sub(" ", data)
            if words == " " and self.said and self.said[-1].endswith(("\n", " ")):
                return
            self.said.append(words)

    def _end_link(self) -> None:
        """Links are shown with where they lead, unless that says nothing."""
        href, start = self._links.pop()
        words = "".join(self.said[start:]).strip()
        if words and href.startswith(("http://", "https://", "/")) and "\n" not in words:
            del self.said[start:]
            self.said.append(f"[{words}]({href})")

    def _new_line(self, number: int) -> None:
        if self.said and not self.said[-1].endswith("\n" * number):
            self.said.append("\n" * number)
