"""May this be done? Rules, modes and the borders of the workspace, held against one wish at a time.

What refuses beats what asks, and what asks beats what allows. Where no rule speaks, the mode does:

- *ask*: reading inside the workspace is free, and so are a few commands that only look; all else is asked for;
- *accept_edits*: changing files inside the workspace is free too;
- *plan*: nothing may be changed; only the plan's own file may be written;
- *autonomous*: everything inside the workspace is free, commands and addresses included.

In no mode is anything outside the workspace touched by a file tool without consent, nor are the files in it that
decide what runs later (hooks, settings). Everything here is a pure function of the rules and the wish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.tools.commands import Line, Simple, read
from sevenfold.tools.globs import Glob
from sevenfold.tools.rules import Rule, Scope, parsed
from sevenfold.tools.suggesting import suggested
from sevenfold.tools.wish import Wish
from sevenfold.tools.words import names

Mode = Literal["ask", "accept_edits", "plan", "autonomous"]
ONLY_LOOK = names(
    "basename cat cd cmp cut df diff dirname du echo false grep head ls nl pwd stat tail true uname wc whoami"
)
"""Commands that change nothing whatever their options; in front of files outside the workspace they ask as well."""
SHOW_FILES = names("cat cmp cut diff grep head nl tail wc")
"""Those of them that show what is in files."""
GUARDED = (".git/**", ".sevenfold/**", ".claude/**", ".mcp.json", ".envrc", ".vscode/**", ".husky/**")
"""Files in a workspace that decide what runs later."""


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
        return next(
            (rule for rule in rules if any(rule.touches(one, self._scope, line) for one in wishes)), None
        )

    def _by_rule(self, wish: Wish) -> Decision | None:
        rule = next((one for one in self.rules.allow if one.allows(wish, self._scope)), None)
        return Decision("allow", f"The rule {rule} allows this.", str(rule)) if rule else None

    def _commands(self, wish: Wish, line: Line) -> Decision | None:
        """Each command of a line must be allowed; only a rule with the very line allows one that is not plain."""
        rules = [rule for rule in self.rules.allow if rule.about(wish)]
        for rule in rules:
            if rule.pattern == wish.subject.strip() or (not rule.pattern and not self._unsure(line)):
                return Decision("allow", f"The rule {rule} allows this.", str(rule))
        if not line.plain or not line.commands or self._unsure(line):
            return None
        used = []
        for command in line.commands:
            fitting = next((one for one in rules if one.allows_command(command)), None)
            if fitting is None and not self._only_looks(command, wish, line):
                return None
            used += [str(fitting)] if fitting else []
        if not used:
            return Decision("allow", "It only looks at things in the workspace.")
        return Decision("allow", f"Allowed by {', '.join(dict.fromkeys(used))}.", used[0])

    def _only_looks(self, command: Simple, wish: Wish, line: Line) -> bool:
        if command.assigns or command.writes or not command.literal or wish.outside or not command.words:
            return False
        name = command.words[0]
        if name in SHOW_FILES and any(rule.tool == "Read" for rule in (*self.rules.deny, *self.rules.ask)):
            # One that goes through folders may come upon what is not to be read.
            return False
        # What follows a change of folder was not looked at from there.
        return name in ONLY_LOOK and (name != "cd" or len(line.commands) == 1)

    def _unsure(self, line: Line) -> bool:
        """Rules about commands exist, and this line does not show all it runs."""
        shown = line.plain and all(
            command.literal or not set("$*?[{~") & set(command.words[0])
            for command in line.commands
            if command.words
        )
        about = Wish("Shell", "run")
        return not shown and any(rule.about(about) for rule in (*self.rules.deny, *self.rules.ask))

    # -- by mode ---------------------------------------------------------------------------------

    def _while_planning(self, wish: Wish, line: Line | None) -> Decision | None:
        if wish.deed == "write" and wish.subject != self.plan:
            return Decision("deny", "While planning nothing is changed but the plan itself.")
        if wish.deed == "call":
            return Decision("deny", "While planning only tools that change nothing may be used.")
        if line is not None:
            only_looks = line.plain and all(self._only_looks(one, wish, line) for one in line.commands)
            if not only_looks:
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
                if self.mode == "autonomous" and line is not None:
                    if self._unsure(line):
                        return self._asked(
                            wish, f"The line does not show all it runs ({line.why or 'variables'})."
                        )
                    return Decision("allow", "Commands are free in this mode.")
                why = line.why if line else ""
                return self._asked(wish, f"Commands are asked for{f'; this one has {why}' if why else ''}.")
            case _:
                if self.mode == "autonomous":
                    return Decision("allow", "This is free in this mode.")
                return self._asked(wish, "This is asked for in this mode.")

    def _reading(self, wish: Wish) -> Decision:
        if self._inside(wish.subject, *self.readable):
            return Decision("allow", "It lies in the workspace.")
        return self._asked(wish, f"{wish.subject} lies outside the workspace {self.workspace}.")

    def _writing(self, wish: Wish) -> Decision:
        if self.mode == "plan":
            return Decision("allow", "It is the plan.")
        if not self._inside(wish.subject):
            return self._asked(wish, f"{wish.subject} lies outside the workspace {self.workspace}.")
        if self._guarded(wish.subject):
            return self._asked(wish, f"{wish.subject} decides what runs later.")
        if self.mode in ("accept_edits", "autonomous"):
            return Decision("allow", "Files in the workspace may be changed in this mode.")
        return self._asked(wish, "Changes are asked for in this mode.")

    def _asked(self, wish: Wish, why: str) -> Decision:
        return Decision("ask", why, would_allow=suggested(wish, self.workspace))

    def _inside(self, path: str, *further: str) -> bool:
        folders = (self.workspace, *self.roots, *further)
        return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)

    def _guarded(self, path: str) -> bool:
        for folder in (self.workspace, *self.roots):
            if PurePosixPath(path).is_relative_to(folder):
                beneath = PurePosixPath(path).relative_to(folder).as_posix()
                return any(Glob(f"**/{glob}", ignore_case=True).covers(beneath) for glob in GUARDED)
        return False
