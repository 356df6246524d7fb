"""Questions to the user: the menu of answers, where the pointer is, and how it looks.

A `Menu` is the question, a `MenuState` how far the user has come with it, a `MenuAnswer` the result. All are values;
the app with the keyboard moves from one state to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sevenfold.cli.text import fit, one_line

if TYPE_CHECKING:
    from sevenfold.cli.chat.screen import Signs

PAGE = 10
"""Items shown at a time."""
_MOST_LINES = 6
"""Lines for a title or the description of an item."""


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
        return self.items[answer.place].value if answer is not None and answer.places else None


class MenuAnswer(Struct, frozen=True):
    """What the user chose."""

    places: tuple[int, ...] = ()
    words: str = ""

    @property
    def place(self) -> int:
        """The first item chosen; -1 if there is none."""
        return self.places[0] if self.places else -1


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


# -- with a cursor ---------------------------------------------------------------------------


def draw_menu(state: MenuState, signs: Signs, width: int) -> Text:
    """The menu as a terminal shows it; of many items, those around the pointer."""
    menu, room = state.menu, max(10, width - 1)
    shown = Text().append("\n".join(_wrap(one_line(menu.title), room, signs)), "bold yellow")
    if state.writing:
        return shown.append(f"\n  {state.wanted()} (Enter sends it, Esc goes back)", style="dim")
    if state.needle:
        shown.append(f"\n  filter: {one_line(state.needle)}", style="cyan")
    places = state.matching
    count, at = len(places), places.index(state.at) if places else 0
    first = max(0, min(at - PAGE // 2, count - PAGE))
    last = min(count, first + PAGE)
    shown.append(f"\n  {signs.cut} {first} more above" if first else "", style="dim")
    if not places:
        shown.append("\n  no matches", style="dim")
    for place in places[first:last]:
        style = "bold cyan" if place == state.at else ""
        for line in _item_lines(state, place, signs, room):
            shown.append(f"\n{line}", style=style)
    shown.append(f"\n  {signs.cut} {count - last} more below" if last < count else "", style="dim")
    pages = ", PgUp and PgDn move by page" if count > PAGE else ""
    hint = "Space ticks, Enter sends" if menu.several else "Enter chooses"
    hint = f"type to filter, {hint}" if menu.filtered else hint
    return shown.append(f"\n  arrows move{pages}, {hint}, {menu.escape}", style="dim")


def _item_lines(state: MenuState, place: int, signs: Signs, room: int) -> Iterator[str]:
    """An item on one line; its description on more lines if it needs them."""
    item = state.menu.items[place]
    tick = ("[x] " if place in state.ticked else "[ ] ") if state.menu.several else ""
    key = f" ({item.key})" if item.key else ""
    before = f"{item.before}  " if item.before else ""
    number = "" if state.menu.filtered else f"{place + 1}. "
    head = f"{signs.pointer if place == state.at else ' '} {number}{tick}{before}"
    line, about = f"{head}{one_line(item.label)}{key}", one_line(item.about)
    if not about or cell_len(line) + 2 + cell_len(about) <= room:
        yield fit(f"{line}  {about}".rstrip(), room, signs.cut)
        return
    yield fit(line, room, signs.cut)
    yield from (f"     {one}" for one in _wrap(about, max(10, room - 5), signs))


def _wrap(words: str, room: int, signs: Signs) -> list[str]:
    lines = [one.plain.rstrip() for one in Text(words).wrap(Console(width=room), room, overflow="fold")]
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: _MOST_LINES - 1], fit(lines[_MOST_LINES - 1] + " " * room, room, signs.cut)]


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
