"""Decides what a tool call may do, by rules, mode and the boundaries of the workspace.

A deny rule beats an ask rule, and an ask rule beats an allow rule. If no rule applies, the mode decides:

- *ask*: reading inside the workspace and a few read-only commands are allowed; everything else needs approval;
- *accept_edits*: changing files inside the workspace is allowed too;
- *plan*: nothing may be changed except the plan file itself;
- *autonomous*: everything inside the workspace is allowed, including commands and web addresses.

A command that runs in a sandbox without a network needs no approval in any mode but *plan*; leaving the sandbox always
does.

Without the user's consent, no mode lets a file tool access files outside the workspace, or write files inside it that
decide what runs later (hooks, settings, start-up files). `Permissions` is a pure function of rules and request;
`Grants` holds the permissions of a session, which change while the agent works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.permissions.hidden_commands import hidden_part, is_known, possible_commands
from sevenfold.agent.permissions.known_programs import is_read_only, tables
from sevenfold.agent.permissions.rules import PermissionRequest, PermissionRule, PermissionRules
from sevenfold.agent.permissions.shell import ShellLine, SimpleCommand, parse, unquoted
from sevenfold.errors import InputError

Mode = Literal["ask", "accept_edits", "plan", "autonomous"]
_CHANGE_FOLDER = frozenset({"cd", "pushd", "popd"})
_GUARDED_ENDINGS = (".code-workspace", ".sublime-project", ".pth")
CHANGED_TOOL = "You allowed this tool, and since then its server has changed what it says about it."
LEAVES_SANDBOX = "It wants to run outside the sandbox, with all your rights."
_HEAD = "head"
"""Only a folder with a file of this name can be a git repository, whose settings may run anything."""


class PermissionDecision(Struct, frozen=True):
    """The decision on a permission request, with its reason."""

    verdict: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    """The rule that decided it; empty if none did."""
    would_allow: tuple[str, ...] = ()
    """Rules that together would allow such requests in future."""


class Permissions(Struct, frozen=True, kw_only=True):
    """The permissions of a session at one moment."""

    workspace: str
    """The path of the workspace, with links resolved."""
    roots: tuple[str, ...] = ()
    """Additional folders that count as part of the workspace."""
    readable: tuple[str, ...] = ()
    """Folders that may be read without asking, such as the folder of stored results."""
    guarded: tuple[str, ...] = ()
    """Folders in which nothing is written without asking, such as the folder of the user's settings."""
    home: str = ""
    mode: Mode = "ask"
    rules: PermissionRules = PermissionRules()
    plan: str = ""
    """The path of the plan file, which may be written while planning."""
    secret_files: Literal["ask", "mask", "allow"] = "ask"
    """What happens before a file that looks like secrets is shown: ask the user, mask them, or show them."""

    def decide(self, request: PermissionRequest) -> PermissionDecision:
        """Decide whether to allow the request, deny it, or ask the user."""
        line = parse(request.subject) if request.action == "run" else None
        if rule := self._first_match(self.rules.deny, request, line):
            return PermissionDecision("deny", f"Rule {rule} forbids this.", str(rule))
        if self.mode == "plan" and (denied := self._while_planning(request, line)):
            return denied
        return self._about_server(request, self._unless_denied(request, line))

    def _unless_denied(self, request: PermissionRequest, line: ShellLine | None) -> PermissionDecision:
        if rule := self._first_match(self.rules.ask, request, line):
            return PermissionDecision("ask", f"Rule {rule} requires approval.", str(rule))
        if request.leaves_sandbox:
            # Neither a rule nor a mode answers this, or the first broad rule would end the sandbox.
            return PermissionDecision("ask", LEAVES_SANDBOX)
        if request.spends and self.mode != "autonomous":
            return PermissionDecision("ask", request.spends)
        allowed = self._by_rule(request) if line is None else self._by_command_rules(request, line)
        return self._about_secrets(request, allowed or self._by_mode(request, line))

    def _about_server(self, request: PermissionRequest, decision: PermissionDecision) -> PermissionDecision:
        """Ask before the first use of a server that a project brings, whatever rules and mode allow."""
        if not request.server:
            return decision
        if self.mode == "autonomous":
            advice = "Nobody is asked in this mode; agree to it once in a chat in another mode."
            return PermissionDecision("deny", f"{request.server} {advice}")
        reason = decision.reason if decision.verdict == "ask" else ""
        return replace(decision, verdict="ask", reason=f"{request.server} {reason}".strip())

    def _about_secrets(
        self, request: PermissionRequest, decision: PermissionDecision
    ) -> PermissionDecision:
        """Ask before a file that looks like secrets is shown, unless a rule names that very file or line."""
        if not self.masks(request) or decision.verdict == "deny":
            return decision
        reason = f"{request.secret} looks as if it held secrets, and what is read is sent to the provider."
        if decision.verdict == "ask":
            return replace(decision, reason=f"{decision.reason} {reason}")
        if self.secret_files == "mask" or self.mode == "autonomous":
            return decision
        suggested = request.suggest_rules(self.workspace, guarded=True) if request.action != "run" else ()
        return PermissionDecision("ask", reason, would_allow=suggested)

    def masks(self, request: PermissionRequest) -> bool:
        """Whether secrets in what the request shows are masked, if the user is not asked and agrees."""
        if not request.secret or self.secret_files == "allow":
            return False
        name = PurePosixPath(request.subject).name.casefold()
        for rule in self.rules.allow:
            exact = rule.pattern == request.subject.strip()
            named = request.action != "run" and name in rule.pattern.casefold()
            if (exact or named) and rule.concerns(request) and (exact or rule.allows(request, self)):
                return False
        return True

    def denies_reading(self, path: str) -> bool:
        """Whether a rule forbids to read this file."""
        return self._first_match(self.rules.deny, PermissionRequest("Read", "read", path), None) is not None

    @property
    def denies_some_reading(self) -> bool:
        """Whether any rule forbids to read files."""
        return any(rule.concerns(PermissionRequest("Read", "read")) for rule in self.rules.deny)

    def may_read(self, path: str) -> bool:
        """Whether a search may show this file; the user is never asked about individual files of a search."""
        request = PermissionRequest("Read", "read", path)
        return not self._first_match((*self.rules.deny, *self.rules.ask), request, None)

    def may_follow(self, permitted: str, address: str) -> bool:
        """Whether a redirect from a permitted address to another one may be followed without asking.

        If the user, not a rule, permitted the first address, that covers the second unless a rule is about it.
        """
        first = self.decide(PermissionRequest("WebFetch", "fetch", permitted))
        second = self.decide(PermissionRequest("WebFetch", "fetch", address))
        consented = second.verdict == first.verdict == "ask" and not second.rule
        return second.verdict == "allow" or consented

    def allowing(self, *lines: str) -> Permissions:
        """Return a copy with additional allow rules, as when the user answers "always"."""
        return replace(
            self, rules=self.rules + PermissionRules(allow=tuple(map(PermissionRule.parse, lines)))
        )

    # -- by rule ---------------------------------------------------------------------------------

    def _first_match(
        self, rules: Sequence[PermissionRule], request: PermissionRequest, line: ShellLine | None
    ) -> PermissionRule | None:
        """Return the first rule that matches any part of the request, including the files that a command names."""
        requests = [request, *(PermissionRequest("Read", "read", path) for path in request.paths)]
        requests += [PermissionRequest("Edit", "write", path) for path in request.writes]
        runs = tuple(possible_commands(line)) if line and rules else ()
        for rule in rules:
            if any(rule.touches(part, self, runs) for part in requests):
                return rule
        return None

    def _by_rule(self, request: PermissionRequest) -> PermissionDecision | None:
        # A broad rule does not cover a guarded file; its pattern must name the guarded part.
        guard = self._guard(request, request.subject).casefold() if request.action == "write" else ""
        allowing = (rule for rule in self.rules.allow if guard in rule.pattern.casefold())
        rule = next((rule for rule in allowing if rule.allows(request, self)), None)
        return PermissionDecision("allow", f"Rule {rule} allows this.", str(rule)) if rule else None

    def _by_command_rules(self, request: PermissionRequest, line: ShellLine) -> PermissionDecision | None:
        """Allow a line if each of its commands is allowed; one that is not plain needs a rule for that exact line."""
        rules = [rule for rule in self.rules.allow if rule.concerns(request)]
        for rule in rules:
            unlimited = not rule.pattern and not self._hidden(request, line)
            if rule.pattern == request.subject.strip() or unlimited:
                return PermissionDecision("allow", f"Rule {rule} allows this.", str(rule))
        if not line.plain or not line.commands or request.hides_files or self._hidden(request, line):
            return None
        if any(self._guard(request, path) for path in request.writes):
            # Only a rule for the very line covers a file that decides what runs later.
            return None
        used = []
        looking = not _changes_folder(line)
        for command in line.commands:
            matching = next((rule for rule in rules if rule.allows_command(command, request.outside)), None)
            if matching is None and not (looking and self._only_looks(command, request)):
                return None
            used += [str(matching)] if matching else []
        if not used:
            return PermissionDecision("allow", "It only reads from the workspace.")
        return PermissionDecision("allow", f"Allowed by {', '.join(dict.fromkeys(used))}.", used[0])

    def _only_looks(self, command: SimpleCommand, request: PermissionRequest) -> bool:
        words = command.words
        if command.assigns or command.writes or not command.literal or not words:
            return False
        if request.outside or request.hides_files:
            return False
        if words[0] in tables().show_files and self._has_rules(PermissionRequest("Read", "read")):
            # A command that walks through folders may reach a file that must not be read.
            return False
        return is_read_only(words)

    def _hidden(self, request: PermissionRequest, line: ShellLine) -> str:
        """Return what a line hides of what it does, if any rules depend on that; empty if it hides nothing."""
        if request.hides_files and (self.rules.deny or self.rules.ask):
            return "which files it uses"
        hidden = hidden_part(line) if self._has_rules(PermissionRequest("Shell", "run")) else ""
        return hidden or next(self._named(request, line), "")

    def _named(self, request: PermissionRequest, line: ShellLine) -> Iterator[str]:
        """Yield a text for each rule whose subject an unknown program has in its words and might act on."""
        unknown = [command for command in line.commands if not is_known(command)]
        if not line.plain or any(command.piped_in for command in unknown):
            text = request.subject
        else:
            text = "\n".join(command.text for command in unknown)
        text = f"{text}\n{unquoted(text)}"
        for rule in (*self.rules.deny, *self.rules.ask):
            if rule.is_named_in(text):
                yield f"whether the rule {rule} applies"

    def _has_rules(self, request: PermissionRequest) -> bool:
        """Whether any deny or ask rule is about such requests."""
        return any(rule.concerns(request) for rule in (*self.rules.deny, *self.rules.ask))

    # -- by mode ---------------------------------------------------------------------------------

    def _while_planning(
        self, request: PermissionRequest, line: ShellLine | None
    ) -> PermissionDecision | None:
        if request.action == "write" and request.subject != self.plan:
            return PermissionDecision("deny", "While planning, nothing but the plan itself may be changed.")
        if request.action == "call":
            return PermissionDecision("deny", "While planning, only tools that change nothing may be used.")
        if line is not None:
            looking = line.plain and not _changes_folder(line)
            if not (looking and all(self._only_looks(command, request) for command in line.commands)):
                return PermissionDecision(
                    "deny", "While planning, only commands that change nothing may be run."
                )
        return None

    def _by_mode(self, request: PermissionRequest, line: ShellLine | None) -> PermissionDecision:
        match request.action:
            case "none":
                return PermissionDecision("allow", "No permission needed.")
            case "read":
                if self._inside(request.subject, *self.readable):
                    return PermissionDecision("allow", "It is inside the workspace.")
                return self._ask(request, self._outside(request))
            case "write":
                return self._writing(request)
            case "run":
                return self._running(request, line or parse(request.subject))
            case _:
                if self.mode == "autonomous":
                    return PermissionDecision("allow", "This needs no approval in this mode.")
                if any(rule.was_for(request) for rule in self.rules.allow):
                    return self._ask(request, CHANGED_TOOL)
                return self._ask(request, "This requires approval in this mode.")

    def _running(self, request: PermissionRequest, line: ShellLine) -> PermissionDecision:
        if self.mode != "autonomous" and not request.confined:
            remark = f"; this one has {line.why}" if line.why else ""
            return self._ask(request, f"Commands require approval in this mode{remark}.")
        if hidden := self._hidden(request, line):
            return self._ask(request, f"The command hides part of what it does ({hidden}).")
        if guarded := next((path for path in request.writes if self._guard(request, path)), None):
            return self._ask(request, f"It writes {guarded}, which can change what runs later.")
        if request.confined:
            return PermissionDecision("allow", "It runs in the sandbox, without a network.")
        return PermissionDecision("allow", "Commands need no approval in this mode.")

    def _writing(self, request: PermissionRequest) -> PermissionDecision:
        if self.mode == "plan":
            return PermissionDecision("allow", "It is the plan.")
        if not self._inside(request.subject):
            return self._ask(request, self._outside(request))
        if self._guard(request, request.subject):
            return self._ask(request, f"{request.subject} can change what runs later, or as which user.")
        if self.mode in ("accept_edits", "autonomous"):
            return PermissionDecision("allow", "Files in the workspace may be changed in this mode.")
        return self._ask(request, "Edits require approval in this mode.")

    def _outside(self, request: PermissionRequest) -> str:
        return f"{request.subject} is outside the workspace {self.workspace}."

    def _ask(self, request: PermissionRequest, reason: str) -> PermissionDecision:
        guard = self._guard(request, request.subject) if request.action == "write" else ""
        if guard in self.guarded:
            return PermissionDecision("ask", reason)
        return PermissionDecision(
            "ask", reason, would_allow=request.suggest_rules(self.workspace, guarded=guard != "")
        )

    def _inside(self, path: str, *further: str) -> bool:
        folders = (self.workspace, *self.roots, *further)
        return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)

    def _guard(self, request: PermissionRequest, path: str) -> str:
        """Return the guarded name in a file's path, or the folder of ``guarded`` that contains it; empty if neither.

        Only the path below the innermost root counts, because a workspace may itself be inside a guarded folder.
        """
        file = PurePosixPath(path)
        roots = (self.workspace, *self.roots)
        root = max((root for root in roots if file.is_relative_to(root)), key=len, default="/")
        for folder in self.guarded:
            if file.is_relative_to(folder) and not PurePosixPath(root).is_relative_to(folder):
                return folder
        beneath = [name.casefold() for name in file.parts[len(PurePosixPath(root).parts) :]]
        candidates = (*beneath, *map("/".join, pairwise(beneath)))
        guarded_name = next(filter(_is_guarded, candidates), "").partition("/")[0]
        name = file.name.casefold()
        if guarded_name or name == _HEAD or path in request.in_repository:
            return guarded_name or name
        return next((ending for ending in _GUARDED_ENDINGS if name.endswith(ending)), "")


def _is_guarded(name: str) -> bool:
    hidden = name[0] == "." and "/" not in name
    return name in tables().guarded or (hidden and name not in tables().plain_hidden)


def _changes_folder(line: ShellLine) -> bool:
    """Whether a line changes the folder; the paths of its other commands were not checked from the new folder."""
    return len(line.commands) > 1 and any(_CHANGE_FOLDER & set(command.words) for command in line.commands)


class Grants:
    """The current permissions of a session: mode, rules, what the user granted and is being asked."""

    def __init__(self, permissions: Permissions) -> None:
        self.now = permissions
        self.granted: tuple[str, ...] = ()
        """Allow rules that the user added in this session."""
        self.pending: tuple[str, ...] = ()
        """Descriptions of the questions that the user is being asked."""
        self.unanswered: tuple[str, ...] = ()
        """Descriptions of the questions that were open when an earlier process ended."""
        self.changed: Callable[[], None] = lambda: None
        """Called after each change."""
        self.after_planning: Mode = "ask" if permissions.mode == "plan" else permissions.mode
        """The mode to return to when planning ends."""
        self._lock = threading.Lock()

    def restore(self, granted: tuple[str, ...], pending: tuple[str, ...], after_planning: Mode) -> None:
        """Restore the state of an earlier run."""
        self.now = self.now.allowing(*granted)
        self.granted = granted
        self.unanswered = pending
        if self.now.mode == "plan":
            self.after_planning = after_planning

    @property
    def mode(self) -> Mode:
        """The mode, which decides if no rule applies."""
        return self.now.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if mode not in get_args(Mode):
            raise InputError(f"there is no mode {mode!r}; there are {', '.join(get_args(Mode))}")
        if mode == "plan" and self.now.mode != "plan":
            self.after_planning = self.now.mode
        self.now = replace(self.now, mode=mode)
        self.changed()

    def allow(self, *rules: str) -> None:
        """Add allow rules, effective immediately."""
        with self._lock:
            self.now = self.now.allowing(*rules)
            self.granted = tuple(dict.fromkeys((*self.granted, *rules)))
        self.changed()

    def revoke(self, *rules: str) -> None:
        """Remove allow rules, usually some that were granted in this session."""
        held = self.now.rules
        allow = tuple(rule for rule in held.allow if str(rule) not in rules)
        self.now = replace(self.now, rules=PermissionRules(allow, held.ask, held.deny))
        self.granted = tuple(rule for rule in self.granted if rule not in rules)
        self.changed()

    @contextmanager
    def asking(self, question: str) -> Iterator[None]:
        """List a question to the user as pending during the block."""
        with self._lock:
            self.pending = (*self.pending, question)
        self.changed()
        try:
            yield
        finally:
            with self._lock:
                index = self.pending.index(question)
                self.pending = self.pending[:index] + self.pending[index + 1 :]
            self.changed()
