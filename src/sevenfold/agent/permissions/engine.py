"""May this be done? Rules, modes and the borders of the workspace, held against one wish at a time.

What refuses beats what asks, and what asks beats what allows. Where no rule speaks, the mode does:

- *ask*: reading inside the workspace is free, and so are a few commands that only look; all else is asked for;
- *accept_edits*: changing files inside the workspace is free too;
- *plan*: nothing may be changed; only the plan's own file may be written;
- *autonomous*: everything inside the workspace is free, commands and addresses included.

In no mode is anything outside the workspace touched by a file tool without consent, nor are the files in it that
decide what runs later (hooks, settings, start-up files). Everything here is a pure function of the rules and the wish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.permissions.guards import guard_of
from sevenfold.agent.permissions.read_only import only_looks, shows_files
from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.permissions.rules import Rule, Scope, parsed
from sevenfold.agent.permissions.shell import Line, Simple, read
from sevenfold.agent.permissions.suggest import suggested
from sevenfold.agent.permissions.wrappers import disguises, hidden
from sevenfold.errors import InputError

Mode = Literal["ask", "accept_edits", "plan", "autonomous"]
_MOVES = frozenset({"cd", "pushd", "popd"})


class Decision(Struct, frozen=True):
    """What is to be done about a wish, and why."""

    verdict: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    """The rule that settled it; empty: none did."""
    would_allow: tuple[str, ...] = ()
    """Rules that together would allow it from now on."""


class Rules(Struct, frozen=True):
    """Three lists of rules."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, lists: Mapping[str, Sequence[str]]) -> Rules:
        """From lists of lines under the keys allow, ask and deny."""
        for name in lists:
            if name not in cls.__struct_fields__:
                raise InputError(f"there is no list of rules {name!r}; there are allow, ask and deny")
        return cls(*(parsed(lists.get(name, ())) for name in ("allow", "ask", "deny")))

    def as_data(self) -> dict[str, list[str]]:
        """As lists of lines, to be kept."""
        return {name: [str(rule) for rule in getattr(self, name)] for name in ("allow", "ask", "deny")}

    def __add__(self, other: Rules) -> Rules:
        """Both, each line once."""
        return Rules(
            *(
                tuple(dict.fromkeys(getattr(self, name) + getattr(other, name)))
                for name in ("allow", "ask", "deny")
            )
        )


class Permissions(Struct, frozen=True, kw_only=True):
    """What is permitted in a session."""

    workspace: str
    """With links resolved."""
    roots: tuple[str, ...] = ()
    """Further folders that count as the workspace."""
    readable: tuple[str, ...] = ()
    """Folders that may be read without asking, such as that of stored results."""
    guarded: tuple[str, ...] = ()
    """Folders in which nothing is written without asking, such as that of the user's own settings."""
    home: str = ""
    mode: Mode = "ask"
    rules: Rules = Rules()
    plan: str = ""
    """The plan's file, which may be written while planning."""

    def decide(self, wish: Wish) -> Decision:
        """Whether a wish is granted, refused or put to the user."""
        line = read(wish.subject) if wish.deed == "run" else None
        if rule := self._touching(self.rules.deny, wish, line):
            return Decision("deny", f"The rule {rule} forbids this.", str(rule))
        if self.mode == "plan" and (refused := self._while_planning(wish, line)):
            return refused
        if rule := self._touching(self.rules.ask, wish, line):
            return Decision("ask", f"The rule {rule} wants this to be asked.", str(rule))
        allowed = self._by_rule(wish) if line is None else self._commands(wish, line)
        return allowed or self._by_mode(wish, line)

    def may_read(self, path: str) -> bool:
        """Whether a file that a search comes across may be shown; nobody is asked about each of them."""
        return not self._touching((*self.rules.deny, *self.rules.ask), Wish("Read", "read", path), None)

    def allowing(self, *lines: str) -> Permissions:
        """The same with further rules that allow, as when the user says "always"."""
        return replace(self, rules=self.rules + Rules(allow=parsed(lines)))

    @property
    def _scope(self) -> Scope:
        return Scope(self.workspace, self.home)

    # -- by rule ---------------------------------------------------------------------------------

    def _touching(self, rules: Sequence[Rule], wish: Wish, line: Line | None) -> Rule | None:
        """The first rule that fits any part of the wish; of a command, also a file it names."""
        wishes = [wish, *(Wish("Read", "read", path) for path in wish.paths)]
        wishes += [Wish("Edit", "write", path) for path in wish.writes]
        runs = tuple(disguises(line)) if line and rules else ()
        return next(
            (rule for rule in rules if any(rule.touches(one, self._scope, runs) for one in wishes)), None
        )

    def _by_rule(self, wish: Wish) -> Decision | None:
        # A rule about much cannot have meant what is guarded, unless it says so.
        guard = self._guard(wish.subject).casefold() if wish.deed == "write" else ""
        allowing = (one for one in self.rules.allow if guard in one.pattern.casefold())
        rule = next((one for one in allowing if one.allows(wish, self._scope)), None)
        return Decision("allow", f"The rule {rule} allows this.", str(rule)) if rule else None

    def _commands(self, wish: Wish, line: Line) -> Decision | None:
        """Each command of a line must be allowed; only a rule with the very line allows one that is not plain."""
        rules = [rule for rule in self.rules.allow if rule.about(wish)]
        for rule in rules:
            if rule.pattern == wish.subject.strip() or (not rule.pattern and not self._unsure(line)):
                return Decision("allow", f"The rule {rule} allows this.", str(rule))
        if not line.plain or not line.commands or self._unsure(line):
            return None
        used, looking = [], not _moves(line)
        for command in line.commands:
            fitting = next((one for one in rules if one.allows_command(command)), None)
            if fitting is None and not (looking and self._only_looks(command, wish)):
                return None
            used += [str(fitting)] if fitting else []
        if not used:
            return Decision("allow", "It only looks at things in the workspace.")
        return Decision("allow", f"Allowed by {', '.join(dict.fromkeys(used))}.", used[0])

    def _only_looks(self, command: Simple, wish: Wish) -> bool:
        words = command.words
        if command.assigns or command.writes or not command.literal or wish.outside or not words:
            return False
        if shows_files(words) and self._has_rules(Wish("Read", "read")):
            # One that goes through folders may come upon what is not to be read.
            return False
        return only_looks(words)

    def _unsure(self, line: Line) -> bool:
        """Rules about commands exist, and this line does not show all it runs."""
        return hidden(line) != "" and self._has_rules(Wish("Shell", "run"))

    def _has_rules(self, wish: Wish) -> bool:
        """Are there rules that refuse or ask about such things?"""
        return any(rule.about(wish) for rule in (*self.rules.deny, *self.rules.ask))

    # -- by mode ---------------------------------------------------------------------------------

    def _while_planning(self, wish: Wish, line: Line | None) -> Decision | None:
        if wish.deed == "write" and wish.subject != self.plan:
            return Decision("deny", "While planning nothing is changed but the plan itself.")
        if wish.deed == "call":
            return Decision("deny", "While planning only tools that change nothing may be used.")
        if line is not None:
            looking = line.plain and not _moves(line)
            if not (looking and all(self._only_looks(one, wish) for one in line.commands)):
                return Decision("deny", "While planning only commands that change nothing may be run.")
        return None

    def _by_mode(self, wish: Wish, line: Line | None) -> Decision:
        match wish.deed:
            case "none":
                return Decision("allow", "Nobody need be asked about this.")
            case "read":
                return self._reading(wish)
            case "write":
                return self._writing(wish)
            case "run":
                return self._running(wish, line or read(wish.subject))
            case _:
                if self.mode == "autonomous":
                    return Decision("allow", "This is free in this mode.")
                return self._asked(wish, "This is asked for in this mode.")

    def _running(self, wish: Wish, line: Line) -> Decision:
        if self.mode != "autonomous":
            return self._asked(
                wish, f"Commands are asked for{f'; this one has {line.why}' if line.why else ''}."
            )
        if self._unsure(line):
            return self._asked(wish, f"The line does not show all it runs ({hidden(line)}).")
        if guarded := next(filter(self._guard, wish.writes), None):
            return self._asked(wish, f"It writes {guarded}, which decides what runs later.")
        return Decision("allow", "Commands are free in this mode.")

    def _reading(self, wish: Wish) -> Decision:
        if self._inside(wish.subject, *self.readable):
            return Decision("allow", "It lies in the workspace.")
        return self._asked(wish, f"{wish.subject} lies outside the workspace {self.workspace}.")

    def _writing(self, wish: Wish) -> Decision:
        if self.mode == "plan":
            return Decision("allow", "It is the plan.")
        if not self._inside(wish.subject):
            return self._asked(wish, f"{wish.subject} lies outside the workspace {self.workspace}.")
        if self._guard(wish.subject):
            return self._asked(wish, f"{wish.subject} decides what runs later, or as whom.")
        if self.mode in ("accept_edits", "autonomous"):
            return Decision("allow", "Files in the workspace may be changed in this mode.")
        return self._asked(wish, "Changes are asked for in this mode.")

    def _asked(self, wish: Wish, why: str) -> Decision:
        guard = self._guard(wish.subject) if wish.deed == "write" else ""
        if guard in self.guarded:
            return Decision("ask", why)
        return Decision("ask", why, would_allow=suggested(wish, self.workspace, guarded=guard != ""))

    def _inside(self, path: str, *further: str) -> bool:
        folders = (self.workspace, *self.roots, *further)
        return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)

    def _guard(self, path: str) -> str:
        return guard_of(path, (self.workspace, *self.roots), self.guarded)


def _moves(line: Line) -> bool:
    """Does a line change the folder? What stands beside that was not looked at from there."""
    return len(line.commands) > 1 and any(_MOVES & set(command.words) for command in line.commands)
