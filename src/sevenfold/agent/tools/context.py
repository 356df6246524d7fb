"""What a tool can use while it runs: the workspace, state shared between calls, and services of the session.

A `Context` is frozen and belongs to one call; `for_call` makes the next one. The state that tools change (working
directory, files the model knows) is in the `Desk`, one per session. A tool whose service is missing returns an error.
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
"""The most characters of one result in a full-size window."""
KEPT_FILES = 200
"""How many of the files the model knows are saved for a later process: the newest."""


class Abort:
    """A signal that a call should stop; it also counts as set when its parent is set."""

    def __init__(self, parent: Abort | None = None) -> None:
        self._event = threading.Event()
        self._parent = parent

    def set(self) -> None:
        """Set this signal and, with it, all its children."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the call should stop."""
        return self._event.is_set() or (self._parent is not None and self._parent.is_set())


class KnownFile(Struct, frozen=True):
    """The version of a file that the model has seen, and whether it saw all of it."""

    version: str
    whole: bool


class DeskState(Struct, frozen=True):
    """The state of a `Desk` as data, for resuming a session."""

    cwd: str
    files: Mapping[str, KnownFile] = {}


class Desk:
    """State shared by all calls of a session: the working directory, and the files the model knows."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.write_lock = threading.RLock()
        """Lock held while a file is checked and written."""
        self._files: dict[str, KnownFile] = {}

    def know(self, path: str, version: str, *, whole: bool) -> None:
        """Note that the model was shown this version; a version known in full stays so after a partial read."""
        earlier = self._files.pop(path, None)
        whole = whole or (earlier is not None and earlier.version == version and earlier.whole)
        self._files[path] = KnownFile(version, whole)

    def known(self, path: str) -> KnownFile | None:
        """What the model knows of a file; None if it has not seen it."""
        return self._files.get(path)

    def forget(self) -> None:
        """Forget all files: after a compaction, only files read or restored from then on count as read."""
        self._files.clear()

    def state(self) -> DeskState:
        """The desk as data; files seen long ago are left out, so a later process must read them again."""
        return DeskState(str(self.cwd), dict(list(self._files.items())[-KEPT_FILES:]))

    def restore(self, state: DeskState) -> None:
        """Replace this desk's state with that of another desk."""
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
"""Asks the user; returns an answer (free text or labels) for each question, or None if the user does not answer."""


class Todo(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do.

    Args:
        content: The task, in the imperative.
    """

    content: Annotated[str, Meta(min_length=1, max_length=1_000)]
    status: Literal["pending", "in_progress", "completed"]


class Context(Struct, frozen=True, kw_only=True):
    """Everything that one tool call can use."""

    workspace: Path
    """The folder the agent works in, with links resolved."""
    desk: Desk
    roots: tuple[Path, ...] = ()
    """Further folders that count as the workspace."""
    environ: Callable[[], Mapping[str, str]] = dict
    """Returns the environment for commands; computed only when needed."""
    call: str = ""
    """The id of the call."""
    permitted: PermissionRequest | None = None
    """The request that was permitted; the tool must do nothing else. None: no permission was requested."""
    abort: Abort = field(default_factory=Abort)
    progress: Callable[[str], None] = lambda text: None
    """Called with output while the tool still runs."""
    unchanged: Callable[[str, str], str | None] = lambda path, version: None
    """Given a path and a version, returns the id of the call whose result still shows all of it, or None."""
    room: int = ROOM
    """The most characters a result should have; less in small windows."""
    may_read: Callable[[str], bool] = lambda path: True
    """Whether a search may show a file, by its resolved path."""
    may_follow: Callable[[str, str], bool] = lambda permitted, address: True
    """Whether a redirect from a permitted address may be followed without asking."""
    ask: AskUser | None = None
    recall: StoreRecall | None = None
    todos: TodoList | None = None
    plans: PlanFile | None = None
    memory: MemoryCommands | None = None

    def for_call(self, call: str, **changes: Any) -> Context:
        """A copy for one call, with a child of the current abort signal and the given changes."""
        return replace(self, call=call, abort=Abort(self.abort), **changes)

    def inside(self, path: str | Path) -> bool:
        """Whether a resolved path is in the workspace or one of ``roots``."""
        return any(Path(path).is_relative_to(root) for root in (self.workspace, *self.roots))
