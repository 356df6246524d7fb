"""Questions to the user as menus of answers; the screen draws them.

A `Menu` is the question, a `MenuState` the pointer, ticks and filter at one moment, a `MenuAnswer` the result. All are
immutable values: each key gives the app the next state or the answer.
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
    """A letter that chooses the item at once."""
    about: str = ""
    prompt: str = ""
    """What the user is asked to type after choosing the item; empty if nothing."""
    before: str = ""
    """Text before the label, such as a time."""
    value: Any = None
    """What `Menu.chosen` returns for the item."""


class Menu(Struct, frozen=True):
    """A question and its possible answers."""

    title: str
    items: tuple[MenuItem, ...] = ()
    """The possible answers; without any, the user answers in words."""
    several: bool = False
    start: int = 0
    filtered: bool = False
    """Whether typing filters the items, instead of choosing one by letter or number."""
    escape: str = "Esc cancels"
    """The hint that says what Esc does."""

    def chosen(self, answer: MenuAnswer | None) -> Any:
        """The value of the first item an answer chooses; None if it chooses none."""
        return self.items[answer.places[0]].value if answer is not None and answer.places else None


class MenuAnswer(Struct, frozen=True):
    """The items the user chose, by index, and the words they typed."""

    places: tuple[int, ...] = ()
    words: str = ""


class MenuState(Struct, frozen=True):
    """A menu with the user's input so far: the pointer, ticked items, and the filter."""

    menu: Menu
    at: int = 0
    ticked: frozenset[int] = frozenset()
    writing: bool = False
    """Whether the user is typing words."""
    filter_text: str = ""
    """The words that filter the items."""

    @classmethod
    def open(cls, menu: Menu) -> MenuState:
        """The state before the first key."""
        return cls(menu, menu.start, writing=not menu.items)

    @property
    def matching(self) -> list[int]:
        """The indices of the items that contain every word of the filter."""
        words = self.filter_text.casefold().split()
        texts = (f"{item.before} {item.label}".casefold() for item in self.menu.items)
        return [index for index, text in enumerate(texts) if all(word in text for word in words)]

    def filter_by(self, text: str) -> MenuState:
        """Set the filter; the pointer moves to the first match if its item no longer matches."""
        narrowed = replace(self, filter_text=text)
        places = narrowed.matching
        return narrowed if self.at in places or not places else replace(narrowed, at=places[0])

    def move(self, by: int) -> MenuState:
        """Move the pointer, wrapping around at the ends."""
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
        """Choose or tick an item by letter or digit, or extend the filter; returns itself if the key has no effect."""
        if self.menu.filtered:
            return self.filter_by(self.filter_text + key) if key.isprintable() else self
        for index, item in enumerate(self.menu.items):
            if key and key in (item.key, str(index + 1)):
                there = replace(self, at=index)
                return there.toggle() if self.menu.several else there.enter()
        return self

    def enter(self, words: str = "") -> MenuState | MenuAnswer:
        """Answer the menu, or ask for words first if a chosen item needs them."""
        if self.writing:
            return MenuAnswer(self._chosen(), words.strip())
        if not self.matching:
            return self
        if any(self.menu.items[index].prompt for index in self._chosen()):
            return replace(self, writing=True)
        return MenuAnswer(self._chosen())

    def back(self) -> MenuState:
        """Return from typing words to the items."""
        return replace(self, writing=False)

    def prompt(self) -> str:
        """What the user is asked to type."""
        return next(filter(None, (self.menu.items[n].prompt for n in self._chosen())), "your answer")

    def _chosen(self) -> tuple[int, ...]:
        if not self.menu.items:
            return ()
        return tuple(sorted(self.ticked)) if self.ticked else (self.at,)


# -- without a cursor ------------------------------------------------------------------------


def list_menu(menu: Menu, first: int = 0) -> Iterator[str]:
    """A page of numbered lines, for a terminal without a cursor."""
    if not first:
        yield one_line(menu.title)
    for index, item in enumerate(menu.items[first : first + PAGE], first + 1):
        before = f"{item.before}  " if item.before else ""
        about = f"  {one_line(item.about)}" if item.about else ""
        yield f"  {index}. {before}{one_line(item.label)}{about}"
    if first + PAGE < len(menu.items):
        yield f"  ... {len(menu.items) - first - PAGE} more; Enter shows them"


def read_answer(menu: Menu, line: str) -> MenuState | MenuAnswer | None:
    """The answer, or the state that asks for words, for a line typed below `list_menu`; None if it fits no item."""
    line = line.strip()
    state = MenuState.open(menu)
    if state.writing:
        return state.enter(line)
    if menu.filtered:
        found = [int(line) - 1] if line.isdecimal() else state.filter_by(line).matching
        alone = len(found) == 1 and found[0] in range(len(menu.items))
        return MenuAnswer((found[0],)) if alone else None
    if not menu.several:
        came = state.press(line.lower())
        return None if came is state else came
    places = frozenset(int(word) - 1 for word in line.replace(",", " ").split() if word.isdecimal())
    if not places or not places <= set(range(len(menu.items))):
        return None
    return replace(state, ticked=places).enter()
