"""Questions to the user: the menu of answers, and where the pointer is; the screen draws it.

A `Menu` is the question, a `MenuState` how far the user has come with it, a `MenuAnswer` the result. All are values;
the app with the keyboard moves from one state to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.cli.text import one_line

PAGE = 10
"""Items shown at a time."""


class MenuItem(Struct, frozen=True):
    """One possible answer."""

    label: str
    key: str = ""
    """A letter that chooses it at once."""
    about: str = ""
    words: str = ""
    """If the user adds words of their own: what they are."""
    before: str = ""
    """What precedes the label, such as a time."""
    value: Any = None
    """What is chosen with it."""


class Menu(Struct, frozen=True):
    """A question and its possible answers."""

    title: str
    items: tuple[MenuItem, ...] = ()
    """Without any, the user answers in words."""
    several: bool = False
    start: int = 0
    filtered: bool = False
    """Whether what is typed narrows the list, rather than choosing by a letter or number."""
    escape: str = "Esc cancels"
    """What giving no answer does."""

    def chosen(self, answer: MenuAnswer | None) -> Any:
        """The value of the first item that an answer chooses; None if it chooses none."""
        return self.items[answer.places[0]].value if answer is not None and answer.places else None


class MenuAnswer(Struct, frozen=True):
    """What the user chose."""

    places: tuple[int, ...] = ()
    words: str = ""


class MenuState(Struct, frozen=True):
    """How far the user has come."""

    menu: Menu
    at: int = 0
    ticked: frozenset[int] = frozenset()
    writing: bool = False
    """Whether the user is typing words."""
    needle: str = ""
    """What was typed to narrow the list."""

    @classmethod
    def open(cls, menu: Menu) -> MenuState:
        """The state before the first key."""
        return cls(menu, menu.start, writing=not menu.items)

    @property
    def matching(self) -> list[int]:
        """The items that have every word that was typed."""
        words = self.needle.casefold().split()
        texts = (f"{item.before} {item.label}".casefold() for item in self.menu.items)
        return [place for place, text in enumerate(texts) if all(word in text for word in words)]

    def narrow(self, needle: str) -> MenuState:
        """Show only items with these words."""
        narrowed = replace(self, needle=needle)
        places = narrowed.matching
        return narrowed if self.at in places or not places else replace(narrowed, at=places[0])

    def move(self, by: int) -> MenuState:
        """Move the pointer, around the ends."""
        places = self.matching or [self.at]
        return replace(self, at=places[(places.index(self.at) + by) % len(places)])

    def jump(self, by: int) -> MenuState:
        """Move the pointer, but not past the ends."""
        places = self.matching or [self.at]
        return replace(self, at=places[max(0, min(places.index(self.at) + by, len(places) - 1))])

    def toggle(self) -> MenuState:
        """Tick or untick the item at the pointer."""
        return replace(self, ticked=self.ticked ^ {self.at}) if self.menu.several else self

    def press(self, key: str) -> MenuState | MenuAnswer:
        """Move to the item of a letter or digit; choose it if one answer is enough."""
        if self.menu.filtered:
            return self.narrow(self.needle + key) if key.isprintable() else self
        for place, item in enumerate(self.menu.items):
            if key and key in (item.key, str(place + 1)):
                there = replace(self, at=place)
                return there.toggle() if self.menu.several else there.enter()
        return self

    def enter(self, words: str = "") -> MenuState | MenuAnswer:
        """Finish, or go on to the words if the item wants some."""
        if self.writing:
            return MenuAnswer(self._chosen(), words.strip())
        if not self.matching:
            return self
        if any(self.menu.items[place].words for place in self._chosen()):
            return replace(self, writing=True)
        return MenuAnswer(self._chosen())

    def back(self) -> MenuState:
        """Return from the words to the items."""
        return replace(self, writing=False)

    def wanted(self) -> str:
        """What the words that are being typed are."""
        return next(filter(None, (self.menu.items[place].words for place in self._chosen())), "your answer")

    def _chosen(self) -> tuple[int, ...]:
        if not self.menu.items:
            return ()
        return tuple(sorted(self.ticked)) if self.ticked else (self.at,)


# -- without a cursor ------------------------------------------------------------------------


def list_menu(menu: Menu, first: int = 0) -> Iterator[str]:
    """A page of numbered lines, for a terminal without a cursor."""
    if not first:
        yield one_line(menu.title)
    for place, item in enumerate(menu.items[first : first + PAGE], first + 1):
        before = f"{item.before}  " if item.before else ""
        about = f"  {one_line(item.about)}" if item.about else ""
        yield f"  {place}. {before}{one_line(item.label)}{about}"
    if first + PAGE < len(menu.items):
        yield f"  ... {len(menu.items) - first - PAGE} more; Enter shows them"


def read_answer(menu: Menu, line: str) -> MenuState | MenuAnswer | None:
    """What a line typed below `list_menu` means; None if it means nothing."""
    line, state = line.strip(), MenuState.open(menu)
    if state.writing:
        return state.enter(line)
    if menu.filtered:
        found = [int(line) - 1] if line.isdecimal() else state.narrow(line).matching
        alone = len(found) == 1 and found[0] in range(len(menu.items))
        return MenuAnswer((found[0],)) if alone else None
    if not menu.several:
        came = state.press(line.lower())
        return None if came is state else came
    places = frozenset(int(word) - 1 for word in line.replace(",", " ").split() if word.isdecimal())
    if not places or not places <= set(range(len(menu.items))):
        return None
    return replace(state, ticked=places).enter()
