"""What a tool can use while it runs: the workspace, what lasts from call to call, and services of the session.

A `Context` is frozen and belongs to one call; `for_call` makes the next one. What tools change, the working directory
and which files the model knows, is on the `Desk`, one for the whole session. A tool whose service is missing says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from sevenfold.agent.permissions.rules import PermissionRequest

if TYPE_CHECKING:
    from sevenfold.agent.standard_tools import StoreRecall
    from sevenfold.agent.tools.session_tools import PlanFile, TodoList
    from sevenfold.memory.commands import MemoryCommands

ROOM = 48_000
"""Characters of one result, in a window of full size."""
KEPT_FILES = 200
"""How many of the files the model knows, the newest, are kept for another process."""


class Abort:
    """A signal that a call should stop; one with a parent is set with it."""

    def __init__(self, parent: Abort | None = None) -> None:
        self._event = threading.Event()
        self._parent = parent

    def set(self) -> None:
        """Stop this and every signal below it."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the call should stop."""
        return self._event.is_set() or (self._parent is not None and self._parent.is_set())


class KnownFile(Struct, frozen=True):
    """What the model knows of a file."""

    version: str
    whole: bool


class DeskState(Struct, frozen=True):
    """A desk as data, for resuming a session."""

    cwd: str
    files: Mapping[str, KnownFile] = {}


class Desk:
    """What lasts from call to call."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.changing = threading.RLock()
        """Held while a file is checked and written."""
        self._files: dict[str, KnownFile] = {}

    def know(self, path: str, version: str, *, whole: bool) -> None:
        """Note that the model was shown this version; having seen all of it is not undone by seeing a part."""
        before = self._files.pop(path, None)
        whole = whole or (before is not None and before.version == version and before.whole)
        self._files[path] = KnownFile(version, whole)

    def known(self, path: str) -> KnownFile | None:
        """What the model knows of a file; None if it has not read it."""
        return self._files.get(path)

    def forget(self) -> None:
        """Forget all files: after a compaction only what is read, or put back, from then on counts as read."""
        self._files.clear()

    def state(self) -> DeskState:
        """The desk as data; files seen long ago are left out, and must be read again in another process."""
        return DeskState(str(self.cwd), dict(list(self._files.items())[-KEPT_FILES:]))

    def restore(self, state: DeskState) -> None:
        """Go on from the state of another desk."""
        self.cwd = Path(state.cwd)
        self._files = dict(state.files)


class QuestionOption(Struct, frozen=True, forbid_unknown_fields=True):
    """One answer to choose.

    Args:
        label: The answer in a few words.
        description: What it would mean.
    """

    label: Annotated[str, Meta(min_length=1, max_length=200)]
    description: Annotated[str, Meta(max_length=1_000)] = ""


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """One question.

    Args:
        question: The question, complete in itself.
        options: Answers to choose from; the user may also give another.
        several: More than one may be chosen.
    """

    question: Annotated[str, Meta(min_length=1, max_length=2_000)]
    options: Annotated[tuple[QuestionOption, ...], Meta(max_length=8)] = ()
    several: bool = False


AskUser = Callable[[Sequence[Question], Abort], Sequence[str] | None]
"""Asks the user; returns an answer for each question, in words or labels, or None if the user gives none."""


class Todo(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do.

    Args:
        content: The task, in the imperative.
    """

    content: Annotated[str, Meta(min_length=1, max_length=1_000)]
    status: Literal["pending", "in_progress", "completed"]


class Context(Struct, frozen=True, kw_only=True):
    """What one call can use."""

    workspace: Path
    """The folder the work is about, with links resolved."""
    desk: Desk
    roots: tuple[Path, ...] = ()
    """Further folders that count as the workspace."""
    environ: Callable[[], Mapping[str, str]] = dict
    """The environment commands run in, worked out when the first one does."""
    call: str = ""
    """The id of the call."""
    permitted: PermissionRequest | None = None
    """What was permitted; the tool does that and nothing else. None: nothing was asked for."""
    abort: Abort = field(default_factory=Abort)
    progress: Callable[[str], None] = lambda text: None
    """Takes output while it is still coming."""
    unchanged: Callable[[str, str], str | None] = lambda path, version: None
    """From a file and its version to the call that still shows all of it; None: it must be shown again."""
    room: int = ROOM
    """How many characters a result should have at most; small windows leave less."""
    may_read: Callable[[str], bool] = lambda path: True
    """Whether a search may show a file, by its resolved path."""
    may_follow: Callable[[str, str], bool] = lambda permitted, address: True
    """Whether a redirection from a permitted address may be followed without asking."""
    ask: AskUser | None = None
    recall: StoreRecall | None = None
    todos: TodoList | None = None
    plans: PlanFile | None = None
    memory: MemoryCommands | None = None

    def for_call(self, call: str, **changes: Any) -> Context:
        """The same for one call, with a stop signal of its own below the present one, and what else changes."""
        return replace(self, call=call, abort=Abort(self.abort), **changes)

    def inside(self, path: str | Path) -> bool:
        """Whether a resolved path lies in the workspace or one of its further folders."""
        return any(Path(path).is_relative_to(root) for root in (self.workspace, *self.roots))
