"""The permissions of a session as they stand now: the mode, the rules, what was granted, what is being asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import get_args

from msgspec.structs import replace

from sevenfold.agent.permissions.engine import Mode, Permissions, Rules
from sevenfold.errors import InputError


def _nobody() -> None:
    return None


class Grants:
    """What is permitted, and changes while the agent works."""

    def __init__(self, permissions: Permissions) -> None:
        self.now = permissions
        """As it stands."""
        self.granted: tuple[str, ...] = ()
        """Rules the user added in this session."""
        self.pending: tuple[str, ...] = ()
        """What the user is being asked about, in words."""
        self.unanswered: tuple[str, ...] = ()
        """What the user was being asked about when an earlier process ended."""
        self.changed: Callable[[], None] = _nobody
        """Called after each change."""
        self._lock = threading.Lock()
        self._before: Mode = "ask" if permissions.mode == "plan" else permissions.mode

    def restore(self, granted: tuple[str, ...], pending: tuple[str, ...], after_planning: Mode) -> None:
        """Go on where an earlier run stopped."""
        self.now = self.now.allowing(*granted)
        self.granted, self.unanswered = granted, pending
        if self.now.mode == "plan":
            self._before = after_planning

    @property
    def mode(self) -> Mode:
        """How free the agent is where no rule speaks."""
        return self.now.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if mode not in get_args(Mode):
            raise InputError(f"there is no mode {mode!r}; there are {', '.join(get_args(Mode))}")
        if mode == "plan" and self.now.mode != "plan":
            self._before = self.now.mode
        self.now = replace(self.now, mode=mode)
        self.changed()

    @property
    def after_planning(self) -> Mode:
        """The mode that follows when planning ends."""
        return self._before

    @after_planning.setter
    def after_planning(self, mode: Mode) -> None:
        self._before = mode

    def end_planning(self) -> None:
        """Go back to the mode before."""
        if self.now.mode == "plan":
            self.mode = self._before

    def allow(self, *rules: str) -> None:
        """Allow something from now on."""
        with self._lock:
            self.now = self.now.allowing(*rules)
            self.granted = tuple(dict.fromkeys((*self.granted, *rules)))
        self.changed()

    def revoke(self, *rules: str) -> None:
        """Allow something no longer that was granted in this session."""
        kept = tuple(rule for rule in self.granted if rule not in rules)
        held = self.now.rules
        allow = tuple(rule for rule in held.allow if str(rule) not in rules)
        self.now = replace(self.now, rules=Rules(allow, held.ask, held.deny))
        self.granted = kept
        self.changed()

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """While the user is being asked about something."""
        with self._lock:
            self.pending = (*self.pending, what)
        self.changed()
        try:
            yield
        finally:
            with self._lock:
                place = self.pending.index(what)
                self.pending = self.pending[:place] + self.pending[place + 1 :]
            self.changed()
