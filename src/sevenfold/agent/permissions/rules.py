"""Permission requests, and the rules that they are matched against.

A rule is one line, such as ``Shell(git status:*)``, ``Edit(src/**)`` or ``WebFetch(domain:example.com)``: a tool and,
in parentheses, a pattern for what it is used on; without one it covers every use. ``Read`` covers every tool that reads
files, ``Edit`` every tool that changes them. What a pattern means depends on the action:

- *paths* match as in ``.gitignore``, relative to the workspace, or anywhere if they start with ``/`` or ``~/``;
- *command lines*: ``git status:*`` matches commands that start with these words, ``npm test`` only itself, and ``*``
  within a pattern matches anything. A line is allowed if all of its commands are, and denied if any of them is;
- *calls* of a server's tools: ``as:`` and a digest match the tool as the server described it then;
- *addresses*: ``domain:`` matches a host, any other pattern the whole address, with ``*``.

Deny and ask rules match broadly (any case, subdomains, behind ``sudo`` and the like), allow rules narrowly.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.permissions import dangers, hidden_commands
from sevenfold.agent.permissions.known_programs import is_read_only, tables
from sevenfold.agent.permissions.shell import SimpleCommand, parse
from sevenfold.agent.tools.globs import Glob
from sevenfold.errors import InputError

if TYPE_CHECKING:
    from sevenfold.agent.permissions.engine import Permissions

Action = Literal["none", "read", "write", "run", "fetch", "call"]
"""In this order: nothing that needs permission; reading or writing a path; running a command line; fetching an address;
any other tool call."""

_RULE = re.compile(r"([A-Za-z*][\w*.-]*)(?:\((.+)\))?", re.DOTALL)
_OTHER_NAMES = {"Bash": "Shell"}
_FAMILIES = {"read": "Read", "write": "Edit"}
_MCP_TOOL = "mcp__"
AS_IT_WAS = "as:"
"""Begins a pattern that covers a server's tool only as it was described when the rule was made."""
_DEEP = 4
"""Folders with fewer path parts than this (home and system folders) contain too much to allow as a whole."""
_NAME = re.compile(r"[\w.+@~-]+")
_OPTIONS = r"(?:\s+-\S+(?:\s+[^\s-]\S*)?){0,8}\s+"
"""Matches options, with or without values, between a program and its subcommand."""
_SPECIAL = re.compile(r"[*?\[\]{}]")


class PermissionRequest(Struct, frozen=True):
    """What a tool call wants to do."""

    tool: str
    action: Action = "none"
    subject: str = ""
    """The path with symbolic links resolved, the command line, or the address."""
    named: str = ""
    """The path as the model named it, with links unresolved, if that differs."""
    outside: tuple[str, ...] = ()
    """For a command line: words that lead out of the workspace."""
    paths: tuple[str, ...] = ()
    """For a command line: the files its words name, as named and with links resolved."""
    writes: tuple[str, ...] = ()
    """For a command line: the files that it evidently writes, with links resolved."""
    in_repository: tuple[str, ...] = ()
    """The files to be written that are in a folder that git may treat as a repository."""
    unseen: bool = False
    """For a command line: True if it may name files that could not be determined."""
    checked: bool = False
    """For a command line: whether the files that its words name were looked for, as `paths.command_request` does.

    If they were not, nothing but a rule for the very line allows it."""
    secret: str = ""
    """The file it would show that looks as if it held secrets, and why; empty if there is none."""
    identity: str = ""
    """For a tool that a server describes: a digest of what it says about the tool, so that a rule is for that."""
    server: str = ""
    """For a tool of a server that the user has not agreed to: which one it is, and why it is asked about."""

    confined: bool = False
    """For a command line: whether it will run in a sandbox that guards all but the workspace, without a network."""
    spends: str = ""
    """What it costs, if that is so much that the user is asked first."""
    leaves_sandbox: bool = False
    """For a command line: whether it will run outside the sandbox that commands are confined to."""

    @property
    def hides_files(self) -> bool:
        """Whether a command line may use files that the request does not name."""
        return self.unseen or not self.checked

    @property
    def deed(self) -> Action:
        """The deprecated name of `action`."""
        warnings.warn("request.deed is called request.action now", DeprecationWarning, stacklevel=2)
        return self.action

    def suggest_rules(self, workspace: str, *, guarded: bool = False) -> tuple[str, ...]:
        """Return rules that together would allow the request; none if it should only be approved once.

        They are broad enough to be useful but no broader than what was seen: for a command, the line itself, except for
        a few programs whose subcommands are harmless with any arguments; for a file, its folder, unless the file is
        ``guarded``.
        """
        match self.action:
            case "run":
                return _for_line(self)
            case "read" | "write":
                pattern = _for_path(PurePosixPath(self.subject), workspace, guarded)
                special = _SPECIAL.search(self.subject)
                return () if special else (f"{_FAMILIES[self.action]}({pattern})",)
            case "fetch":
                host = urlsplit(self.subject).hostname
                return (f"{self.tool}(domain:{host})",) if host else ()
            case "call":
                return (f"{self.tool}({AS_IT_WAS}{self.identity})" if self.identity else self.tool,)
            case _:
                return ()


class PermissionRule(Struct, frozen=True):
    """A tool, and a pattern for what it is used on."""

    tool: str
    pattern: str = ""
    """Empty to match anything."""

    @classmethod
    def parse(cls, text: str) -> PermissionRule:
        """Parse a rule from its line; raises `InputError` if it is malformed."""
        match = _RULE.fullmatch(text.strip())
        if not match:
            raise InputError(
                f"{text!r} is not a permission rule; write Tool or Tool(pattern), for example Shell(git status:*)"
            )
        tool = _OTHER_NAMES.get(match[1], match[1])
        pattern = (match[2] or "").strip()
        if tool in _FAMILIES.values():
            Glob(pattern)
        return cls(tool, "" if pattern in ("*", ":*") else pattern)

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    def concerns(self, request: PermissionRequest) -> bool:
        """Whether the rule is for this tool, or for all tools with this action."""
        if _FAMILIES.get(request.action) == self.tool or self.tool == request.tool:
            return True
        return "*" in self.tool and _star(self.tool).fullmatch(request.tool) is not None

    def allows(self, request: PermissionRequest, scope: Permissions) -> bool:
        """Whether it matches the whole request, narrowly. For command lines, see `allows_command`."""
        return self._matches(request, scope, {request.subject}, broad=False)

    def touches(
        self,
        request: PermissionRequest,
        scope: Permissions,
        runs: Iterable[hidden_commands.CommandText] = (),
    ) -> bool:
        """Whether it matches any part or name of the request, broadly.

        ``runs`` has every command that a command line may run.
        """
        if request.action == "run" and self.pattern and self.concerns(request):
            return request.subject.strip() == self.pattern or any(map(self._matches_within, runs))
        return self._matches(
            request, scope, {request.subject, request.named or request.subject}, broad=True
        )

    def _matches(
        self, request: PermissionRequest, scope: Permissions, paths: set[str], *, broad: bool
    ) -> bool:
        """Whether it matches a request; ``scope`` has the folders that path patterns are relative to."""
        if not self.pattern or not self.concerns(request):
            return self.concerns(request)
        if request.action in _FAMILIES:
            return any(self._matches_path(path, scope, broad=broad) for path in paths)
        if request.action == "fetch":
            return self._matches_address(request.subject, broad=broad)
        if self.pattern.startswith(AS_IT_WAS):
            return self.pattern.removeprefix(AS_IT_WAS) == request.identity
        return _star(self.pattern).fullmatch(request.subject) is not None

    def was_for(self, request: PermissionRequest) -> bool:
        """Whether the rule was for this tool before the server described it differently."""
        was_described = self.pattern.startswith(AS_IT_WAS) and self.concerns(request)
        return was_described and self.pattern.removeprefix(AS_IT_WAS) != request.identity

    def allows_command(self, command: SimpleCommand, outside: Collection[str] = ()) -> bool:
        """Whether it matches this command; never true for one that sets variables or redirects output to files.

        A pattern with ``*`` never covers words that lead ``outside`` the workspace or may expand to anything. A pattern
        for one exact command does not cover piped input if the command may execute that input.
        """
        if command.assigns or command.writes or not command.words:
            return False
        if not self.pattern:
            return True
        if "*" not in self.pattern:
            return not hidden_commands.obeys_input(command) and _same(command, self.pattern)
        ruled_words = tuple(self.pattern.removesuffix(":*").partition("*")[0].split())
        arguments = command.words[len(ruled_words) :]
        if " " in command.words[0] or not command.expands_only_patterns:
            return False
        if not set(outside).isdisjoint((*arguments, *command.reads)):
            return False
        if dangers.does_more(command, len(ruled_words)):
            return False
        if self.pattern.endswith(":*"):
            return command.words[: len(ruled_words)] == ruled_words
        return _star(self.pattern).fullmatch(" ".join(command.words)) is not None

    def _matches_within(self, run: hidden_commands.CommandText) -> bool:
        """Whether it matches at one of the offsets where a command may start; each offset is tried once.

        In any case: where file names have none, `CURL` is curl.
        """
        text = run.text.casefold()
        starts = run.starts
        pattern = self.pattern.casefold()
        if len(text) != len(run.text):
            # A letter whose lower case is longer would move the offsets.
            starts = tuple(range(len(text)))
        if pattern.endswith(":*"):
            beginning = " ".join(pattern.removesuffix(":*").split())
            ends = (start + len(beginning) for start in starts if text.startswith(beginning, start))
            return any(text[end : end + 1] in ("", " ") for end in ends)
        if "*" in pattern:
            beginning = pattern.partition("*")[0]
            # A match at a later offset is also a match at the first one: "*" covers everything in between.
            first = next((start for start in starts if text.startswith(beginning, start)), None)
            return first is not None and _star(pattern).fullmatch(text, first) is not None
        commands = parse(pattern).commands
        whole = " ".join(chain.from_iterable(command.words for command in commands))
        return text.endswith(whole) and len(text) - len(whole) in starts

    def is_named_in(self, text: str) -> bool:
        """Whether a text contains the subject of the rule anywhere: a command, or the last part of a path."""
        if self.tool in _FAMILIES.values():
            segments = self.pattern.casefold().split("/")
            telling = [segment for segment in segments if segment.strip("*~.")]
            last = telling[-1] if telling else ""
            return bool(last) and any(Glob(last).matches(word) for word in _NAME.findall(text.casefold()))
        words = self.pattern.removesuffix(":*").partition("*")[0].split()
        begun = _OPTIONS.join(map(re.escape, words))
        return bool(words) and re.search(rf"(?i)(?<![\w.-]){begun}(?![\w.-])", text) is not None

    def _matches_path(self, path: str, scope: Permissions, *, broad: bool) -> bool:
        base = scope.workspace
        pattern = self.pattern
        if pattern == "~" or pattern.startswith("~/"):
            base = scope.home or "/"
            pattern = pattern[1:] or "/**"
        elif pattern.startswith("/"):
            base = "/"
            pattern = "/" + pattern.lstrip("/")
        if not PurePosixPath(path).is_relative_to(base):
            return False
        beneath = PurePosixPath(path).relative_to(base).as_posix()
        return Glob(pattern, ignore_case=broad).covers(beneath)

    def _matches_address(self, address: str, *, broad: bool) -> bool:
        if not self.pattern.startswith("domain:"):
            return _star(self.pattern).fullmatch(address) is not None
        wanted = self.pattern.removeprefix("domain:").strip().lower().rstrip(".")
        host = (urlsplit(address).hostname or "").rstrip(".")
        if wanted.startswith("*."):
            return host.endswith(wanted[1:])
        return host == wanted or (broad and host.endswith(f".{wanted}"))


class PermissionRules(Struct, frozen=True):
    """The lists of allow, ask and deny rules."""

    allow: tuple[PermissionRule, ...] = ()
    ask: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()

    @classmethod
    def of(cls, lists: Mapping[str, Sequence[str]]) -> PermissionRules:
        """Parse lists of lines under the keys allow, ask and deny; raises `InputError` for other keys."""
        for name in lists:
            if name not in cls.__struct_fields__:
                raise InputError(f"there is no list of rules {name!r}; there are allow, ask and deny")
        return cls(
            *(tuple(map(PermissionRule.parse, lists.get(name, ()))) for name in cls.__struct_fields__)
        )

    def as_data(self) -> dict[str, list[str]]:
        """Return the rules as lists of lines, for storing; the inverse of `of`."""
        return {name: [str(rule) for rule in getattr(self, name)] for name in self.__struct_fields__}

    def __add__(self, other: PermissionRules) -> PermissionRules:
        """Combine the rules of both, without duplicates."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__struct_fields__)
        return PermissionRules(
            *(tuple(dict.fromkeys(own_rules + other_rules)) for own_rules, other_rules in pairs)
        )


def unknown_rules(rules: PermissionRules, tool_names: Collection[str]) -> Iterator[str]:
    """Yield a warning for each rule that matches no known tool and so has no effect.

    Tools of MCP servers come and go, so their rules cause no warnings.
    """
    by_lower_case = {name.lower(): name for name in tool_names}
    for rule in dict.fromkeys((*rules.allow, *rules.ask, *rules.deny)):
        if rule.tool.startswith(_MCP_TOOL) or any(fnmatchcase(name, rule.tool) for name in tool_names):
            continue
        similar = get_close_matches(rule.tool.lower(), by_lower_case, 1)
        hint = (
            f"did you mean {by_lower_case[similar[0]]}?"
            if similar
            else f"there are {', '.join(sorted(tool_names))}"
        )
        yield f"the rule {rule} has no effect, because there is no tool called {rule.tool}: {hint}"


def _for_line(request: PermissionRequest) -> tuple[str, ...]:
    """Suggest a rule for each command, or one for the exact line if its commands cannot be judged separately."""
    text = request.subject.strip()
    line = parse(request.subject)
    if any(
        map(
            hidden_commands.is_interpreter if line.plain else hidden_commands.names_interpreter,
            line.commands,
        )
    ):
        return ()
    piped_in = [command.words for command in line.commands if command.piped_in and command.words]
    depends = not all(map(is_read_only, piped_in))
    if not line.plain or depends or any(command.assigns or command.writes for command in line.commands):
        return () if "*" in text or not text else (f"Shell({text})",)
    rules = [_for_command(command, request.outside) for command in line.commands if command.words]
    return tuple(dict.fromkeys(rules)) if all(rules) else ()


def _for_command(command: SimpleCommand, outside: tuple[str, ...]) -> str:
    """Suggest a rule for one command; empty if it contains ``*``, which would match more in a rule than in the line."""
    program, *arguments = command.words
    if command.literal and not command.reads:
        subcommand = arguments[:1]
        rule = PermissionRule("Shell", " ".join((program, *subcommand)) + ":*")
        is_harmless = set(subcommand) & tables().harmless.get(program, frozenset())
        if is_harmless and rule.allows_command(command, outside):
            return str(rule)
    return "" if "*" in command.text else f"Shell({command.text})"


def _for_path(path: PurePosixPath, workspace: str, guarded: bool) -> str:
    """Return a pattern for the folder of a file, or for the file alone if its siblings should not be included."""
    folder = path.parent
    if folder.is_relative_to(workspace):
        beneath = path.relative_to(workspace) if guarded else folder.relative_to(workspace) / "**"
        return beneath.as_posix() if "/" in beneath.as_posix() else f"./{beneath}"
    private = any(segment.startswith(".") for segment in path.parts)
    alone = guarded or private or len(folder.parts) < _DEEP
    return path.as_posix() if alone else f"{folder}/**"


def _star(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which ``*`` matches anything and all other characters match themselves."""
    first_part, *further_parts = re.split(r"\*+", pattern)
    # Atomic groups: each part matches at its first occurrence without backtracking, so that no pattern takes long.
    middle = "".join(f"(?>.*?{re.escape(literal)})" for literal in further_parts[:-1])
    last_part = f".*{re.escape(further_parts[-1])}" if further_parts else ""
    return re.compile(re.escape(first_part) + middle + last_part, re.DOTALL)


def _same(command: SimpleCommand, pattern: str) -> bool:
    """Whether the pattern is the same command, apart from how it is written (quotes, spaces)."""
    parsed = parse(pattern)
    bare = [replace(simple, text="", piped_in=False) for simple in (command, *parsed.commands)]
    return parsed.plain and bare[1:] == bare[:1]
