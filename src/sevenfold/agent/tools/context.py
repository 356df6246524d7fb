"""What a tool may lean on while it runs: the workspace, what lasts from call to call, and services of the session.

A `Context` is frozen and belongs to one call; `for_call` makes the next one. The two things tools change between
them, the working directory and which files the model knows, are on the `Desk`, one for the whole session.
Services are small protocols: whoever runs the loop brings the real ones, and a tool whose service is missing says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from sevenfold.agent.permissions.request import Wish
from sevenfold.recall.recall import Hit

ROOM = 48_000
"""Characters of one result, where the window has its full size."""
KEPT_FILES = 200
"""Files the model knows, the newest, that are kept for another process."""


class Abort:
    """Says that a call should stop; one that has a parent stops with it."""

    def __init__(self, parent: Abort | None = None) -> None:
        self._event = threading.Event()
        self._parent = parent

    def set(self) -> None:
        """Stop this and all that descends from it."""
        self._event.set()

    def is_set(self) -> bool:
        """Should it stop?"""
        return self._event.is_set() or (self._parent is not None and self._parent.is_set())


class Known(Struct, frozen=True):
    """What the model knows of a file."""

    version: str
    whole: bool


class DeskState(Struct, frozen=True):
    """A desk as data: what a session keeps to go on with."""

    cwd: str
    files: Mapping[str, Known] = {}


class Desk:
    """What lasts from call to call."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.changing = threading.RLock()
        """Held while a file is checked and written."""
        self._files: dict[str, Known] = {}

    def know(self, path: str, version: str, *, whole: bool) -> None:
        """The model was shown this version; having seen all of it is not undone by seeing a part."""
        before = self._files.pop(path, None)
        whole = whole or (before is not None and before.version == version and before.whole)
        self._files[path] = Known(version, whole)

    def known(self, path: str) -> Known | None:
        """What the model knows of a file; None if it has not read it."""
        return self._files.get(path)

    def recent(self) -> list[str]:
        """The files the model knows, the one it saw or changed last first."""
        return list(reversed(self._files))

    def forget(self) -> None:
        """After a compaction nothing counts as read but what is read, or put back, from now on."""
        self._files.clear()

    def state(self) -> DeskState:
        """As data; of files that were seen long ago the model needs another look in another process."""
        return DeskState(str(self.cwd), dict(list(self._files.items())[-KEPT_FILES:]))

    def restore(self, state: DeskState) -> None:
        """Go on where another desk stopped."""
        self.cwd = Path(state.cwd)
        self._files = dict(state.files)


class Option(Struct, frozen=True):
    """One answer a user may choose."""

    label: str
    description: str = ""


class Question(Struct, frozen=True):
    """A question to the user."""

    question: str
    options: tuple[Option, ...] = ()
    several: bool = False
    """More than one option may be chosen."""


class AskUser(Protocol):
    """Puts questions to the user."""

    def __call__(self, questions: Sequence[Question], abort: Abort) -> Sequence[str] | None:
        """One answer for each, in the user's words or the labels chosen; None if the user will not answer."""
        ...


class Recall(Protocol):
    """Finds what has left the context."""

    def search(self, query: str, *, kind: str | None = None, k: int = 10) -> Sequence[Hit]:
        """The records that fit, the best first."""
        ...

    def fetch(self, reference: str) -> bytes:
        """The whole of a record, or of a stored result; raises `sevenfold.errors.UserError` if there is none."""
        ...


class Todo(Struct, frozen=True):
    """One thing to do."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


class Todos(Protocol):
    """Keeps the list of what there is to do."""

    def get(self) -> Sequence[Todo]:
        """The list as it stands."""
        ...

    def set(self, todos: Sequence[Todo]) -> None:
        """The list from now on."""
        ...


class Verdict(Struct, frozen=True):
    """What the user says to a plan."""

    approved: bool
    remark: str = ""


class Plans(Protocol):
    """Planning: on or off, and the file the plan is in."""

    @property
    def planning(self) -> bool:
        """Is nothing to be changed yet?"""
        ...

    @property
    def path(self) -> Path:
        """Where the plan is kept."""
        ...

    def enter(self) -> None:
        """Begin to plan."""
        ...

    def submit(self, plan: str, abort: Abort) -> Verdict:
        """Keep the plan and ask for approval; planning ends with it."""
        ...


def _never(path: str, version: str) -> str | None:
    return None


def _always(path: str) -> bool:
    return True


def _nobody(text: str) -> None:
    return None


class Context(Struct, frozen=True, kw_only=True):
    """What one call may lean on."""

    workspace: Path
    """The folder the work is about, with links resolved."""
    desk: Desk
    roots: tuple[Path, ...] = ()
    """Further folders that count as the workspace."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment commands run in."""
    call: str = ""
    """The id of the call."""
    wish: Wish | None = None
    """What was permitted. A tool does that and nothing else."""
    abort: Abort = field(default_factory=Abort)
    progress: Callable[[str], None] = _nobody
    """Told of output while it is still coming."""
    unchanged: Callable[[str, str], str | None] = _never
    """The call that still shows this version of a file, whole; None: it must be shown again."""
    room: int = ROOM
    """The most characters a result should have; small windows leave less."""
    may_read: Callable[[str], bool] = _always
    """Whether a file a search comes across may be shown; by its resolved path."""
    ask: AskUser | None = None
    recall: Recall | None = None
    todos: Todos | None = None
    plans: Plans | None = None

    def for_call(
        self, call: str, *, wish: Wish | None = None, progress: Callable[[str], None] | None = None
    ) -> Context:
        """The same for one call, with a stop signal of its own beneath the present one."""
        return replace(
            self, call=call, wish=wish, abort=Abort(self.abort), progress=progress or self.progress
        )

    def inside(self, path: str | Path) -> bool:
        """Does a resolved path lie in the workspace or one of its further folders?"""
        return any(Path(path).is_relative_to(root) for root in (self.workspace, *self.roots))
