"""Questions put to the user: what may be chosen, where the pointer is, and how that looks.

A `Question` is what is asked, an `Asking` how far the user has come with it, a `Picked` what was chosen. All are
values; whoever has a keyboard moves from one `Asking` to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sevenfold.cli.chat.screen import Signs
from sevenfold.cli.text import fit, one_line


class Choice(Struct, frozen=True):
    """One thing to choose."""

    label: str
    key: str = ""
    """A letter that chooses it at once."""
    about: str = ""
    words: str = ""
    """If words of the user's own go with it: what they are."""
    before: str = ""
    """What stands in front of it, such as a time."""


class Question(Struct, frozen=True):
    """What is asked."""

    title: str
    choices: tuple[Choice, ...] = ()
    """None: only words are wanted."""
    several: bool = False
    start: int = 0


class Picked(Struct, frozen=True):
    """What the user chose."""

    places: tuple[int, ...] = ()
    words: str = ""

    @property
    def place(self) -> int:
        """The one that was chosen; -1 if none was."""
        return self.places[0] if self.places else -1


class Asking(Struct, frozen=True):
    """How far the user has come."""

    question: Question
    at: int = 0
    ticked: frozenset[int] = frozenset()
    writing: bool = False
    """Words are being typed now."""

    @classmethod
    def begin(cls, question: Question) -> Asking:
        """Nothing chosen yet."""
        return cls(question, question.start, writing=not question.choices)

    def moved(self, by: int) -> Asking:
        """The pointer further up or down, round the end."""
        return replace(self, at=(self.at + by) % max(1, len(self.question.choices)))

    def leapt(self, by: int) -> Asking:
        """The pointer many choices further, but not past the end."""
        return replace(self, at=max(0, min(self.at + by, len(self.question.choices) - 1)))

    def ticking(self) -> Asking:
        """The choice at the pointer ticked, or no longer."""
        return replace(self, ticked=self.ticked ^ {self.at}) if self.question.several else self

    def pressed(self, key: str) -> Asking | Picked:
        """A letter or a digit: moves to its choice, and takes it where one is enough."""
        for place, choice in enumerate(self.question.choices):
            if key and key in (choice.key, str(place + 1)):
                there = replace(self, at=place)
                return there.ticking() if self.question.several else there.entered()
        return self

    def entered(self, words: str = "") -> Asking | Picked:
        """Enter: done, or words are wanted first."""
        if self.writing:
            return Picked(self._chosen(), words.strip())
        choices = self.question.choices
        if any(choices[place].words for place in self._chosen()):
            return replace(self, writing=True)
        return Picked(self._chosen())

    def back(self) -> Asking:
        """From writing back to the choices."""
        return replace(self, writing=False)

    def _chosen(self) -> tuple[int, ...]:
        if not self.question.choices:
            return ()
        return tuple(sorted(self.ticked)) if self.ticked else (self.at,)


PAGE = 10
"""Choices that are shown at a time."""
_MOST_LINES = 6
"""Lines that a title, or what is said about a choice, may take."""


def drawn(asking: Asking, signs: Signs, width: int) -> Text:
    """The question as it stands on the screen; of many choices those around the pointer."""
    question, room = asking.question, max(10, width - 1)
    shown = Text().append("\n".join(_wrapped(one_line(question.title), room, signs)), "bold yellow")
    if asking.writing:
        wanted = next((one.words for one in _at(asking) if one.words), "your answer")
        return shown.append(f"\n  {wanted} (Enter sends it, Esc goes back)", style="dim")
    count = len(question.choices)
    first = max(0, min(asking.at - PAGE // 2, count - PAGE))
    last = min(count, first + PAGE)
    shown.append(f"\n  {signs.cut} {first} more above" if first else "", style="dim")
    for place in range(first, last):
        style = "bold cyan" if place == asking.at else ""
        for line in _choice(asking, place, signs, room):
            shown.append(f"\n{line}", style=style)
    shown.append(f"\n  {signs.cut} {count - last} more below" if last < count else "", style="dim")
    pages = ", PgUp and PgDn leap" if count > PAGE else ""
    hint = "Space ticks, Enter sends" if question.several else "Enter chooses"
    return shown.append(f"\n  arrows move{pages}, {hint}, Esc cancels", style="dim")


def _choice(asking: Asking, place: int, signs: Signs, room: int) -> Iterator[str]:
    """A choice on one line; what is said about it on more, if that is what it takes to see all of it."""
    choice = asking.question.choices[place]
    tick = ("[x] " if place in asking.ticked else "[ ] ") if asking.question.several else ""
    key = f" ({choice.key})" if choice.key else ""
    before = f"{choice.before}  " if choice.before else ""
    head = f"{signs.pointer if place == asking.at else ' '} {place + 1}. {tick}{before}"
    line, about = f"{head}{one_line(choice.label)}{key}", one_line(choice.about)
    if not about or cell_len(line) + 2 + cell_len(about) <= room:
        yield fit(f"{line}  {about}".rstrip(), room, signs.cut)
        return
    yield fit(line, room, signs.cut)
    yield from (f"     {one}" for one in _wrapped(about, max(10, room - 5), signs))


def _wrapped(words: str, room: int, signs: Signs) -> list[str]:
    lines = [one.plain.rstrip() for one in Text(words).wrap(Console(width=room), room, overflow="fold")]
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: _MOST_LINES - 1], fit(lines[_MOST_LINES - 1] + " " * room, room, signs.cut)]


def listed(question: Question, first: int = 0) -> Iterator[str]:
    """The question for a terminal without a cursor: a page of numbered lines."""
    if not first:
        yield one_line(question.title)
    for place, choice in enumerate(question.choices[first : first + PAGE], first + 1):
        before = f"{choice.before}  " if choice.before else ""
        about = f"  {one_line(choice.about)}" if choice.about else ""
        yield f"  {place}. {before}{one_line(choice.label)}{about}"
    if first + PAGE < len(question.choices):
        yield f"  ... {len(question.choices) - first - PAGE} more; Enter shows them"


def answered(question: Question, line: str) -> Asking | Picked | None:
    """What a line typed under `listed` means; None if nothing."""
    line = line.strip()
    asking = Asking.begin(question)
    if asking.writing:
        return asking.entered(line)
    if not question.several:
        came = asking.pressed(line.lower())
        return None if came is asking else came
    places = frozenset(int(word) - 1 for word in line.replace(",", " ").split() if word.isdecimal())
    if not places or not places <= set(range(len(question.choices))):
        return None
    return replace(asking, ticked=places).entered()


def _at(asking: Asking) -> list[Choice]:
    chosen = asking.ticked or {asking.at}
    return [choice for place, choice in enumerate(asking.question.choices) if place in chosen]
