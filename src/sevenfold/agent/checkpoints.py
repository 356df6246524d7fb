"""Checkpoints: copies of files from before the agent changed them, so that a rewind can restore them.

The workspace is scanned before and after each call that may change files. Differences after the call were made by the
agent; differences when the next call begins were made by the user. Contents are stored by hash in the agent's folder;
git and the workspace stay untouched. For a call that names its file, only that file is scanned. Any other call, such
as a command, needs a scan of all files; the first such call stores them all.

The journal records what was seen, begun and changed, in chronological order, so a killed process loses nothing: changes
of a call that never ended are attributed to the agent, and a restore that never ended is completed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import dropwhile
from pathlib import Path

from msgspec import Struct

from sevenfold.agent.checkpoint_files import (
    By,
    CallBegan,
    CallsEnded,
    FileChange,
    FilesChanged,
    FilesSeen,
    FileState,
    Journal,
    JournalLine,
    MirroredFolder,
    RestoreBegan,
    StoredContents,
)
from sevenfold.agent.permissions.known_programs import is_read_only
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.permissions.shell import parse
from sevenfold.errors import Refused, TranscriptError

LARGEST_FILE = 2 * 1024 * 1024
MOST_FILES = 100_000
TOO_LARGE = "larger than 2 MB"
FULL = "200 MB are kept already"
UNREADABLE = "cannot be read"
SECRET = "it holds a secret"
YOURS = "you have changed it since"
CLOCK_STEP = 50_000_000
"""Nanoseconds by which a file's timestamps may lag behind the clock: kernels advance theirs only with each tick."""


class RestorePlan(Struct, frozen=True):
    """The changes a restore would make."""

    files: tuple[FileChange, ...] = ()
    """Changes from the current to the earlier states."""
    ask: Mapping[str, str] = {}
    """Paths among them that the user should confirm, and why."""
    lost: Mapping[str, str] = {}
    """Paths of files that cannot be restored, and why."""


class Checkpoints:
    """Tracks the files of one workspace and the changes one agent makes to them."""

    def __init__(
        self,
        folder: Path | MirroredFolder,
        workspace: Path,
        listing: Callable[[], Iterable[str]],
        tip: Callable[[], str | None],
        busy: Callable[[], bool] = lambda: False,
        is_secret: Callable[[str], bool] = lambda text: False,
    ) -> None:
        """``listing`` returns the paths of all files to track; ``busy`` is True while background commands run.

        Content for which ``is_secret`` is True is not stored.
        """
        self.problem = ""
        """Why changes by commands cannot be restored; empty if they can."""
        mirrored = folder if isinstance(folder, MirroredFolder) else MirroredFolder(folder)
        self._contents = StoredContents(mirrored)
        self._journal = Journal(mirrored)
        self._workspace = workspace
        self._listing = listing
        self._tip = tip
        self._busy = busy
        self._is_secret = is_secret
        self._lock = threading.RLock()
        self._running_calls: list[Sequence[str] | None] = []
        """The files that each running call may change; None: any file."""
        self._first_began = 0
        """When the first of the running calls began, in nanoseconds since 1970."""
        self._states_read: dict[str, tuple[tuple[int, ...], FileState]] = {}
        """File states with the stat data they were read at, so that unchanged files are not read again."""
        self._known: dict[str, FileState | None] = {}
        """The state of each file when it was last scanned."""
        self._all_known = False
        """Whether all files of the workspace were scanned once."""
        self._changes: list[FilesChanged] = []
        self._unended_tip = ""
        """The tip when a call began that has not ended, in this process or an earlier one; empty if there is none."""
        self._restoring: Sequence[FileChange] = ()
        """The changes of a restore that has not ended."""
        self._load()

    # -- scanning -------------------------------------------------------------------------------------

    def begin(self, paths: Sequence[str] | None = None) -> None:
        """Scan and record the state before a call that may change these files; None: any file."""
        with self._lock:
            names = self._names(paths)
            # While anything of the agent's runs, its changes cannot be told from the user's: they count as the agent's.
            self._record_differences(names, "agent" if self._running_calls or self._busy() else "user")
            began = self._first_began if self._running_calls else time.time_ns()
            self._write(CallBegan(self._tip() or "?", began))
            self._running_calls.append(names)

    def end(self, paths: Sequence[str] | None = None) -> None:
        """Scan and record the changes of a call that has ended; ``paths`` as passed to `begin`."""
        with self._lock:
            names = self._names(paths)
            self._record_differences(names, "agent")
            self._running_calls.remove(names)
            if not self._running_calls:
                self._write(CallsEnded())

    def _record_differences(self, names: Sequence[str] | None, by: By) -> None:
        """Compare files (None: all files) with their known states, and record the differences as made by ``by``."""
        listed = self._all() if names is None else names
        current = {name: self._state(name) for name in listed}
        unknown = {name for name in current if name not in self._known}
        if self._all_known and names is None and by == "agent":
            # A new file that is older than the call existed before it, but was not listed: its folder was ignored.
            unknown = {name for name in unknown if self._stamp(name) < self._first_began - CLOCK_STEP}
        whole = names is None and not self.problem
        if unknown or (whole and not self._all_known):
            self._write(FilesSeen({name: current[name] for name in sorted(unknown)}, whole))
        changed: list[FileChange] = []
        for name, state in sorted(current.items()):
            known = self._known.get(name)
            if known != state:
                changed.append(FileChange(name, known, state))
        if changed:
            self._write(FilesChanged(self._unended_tip or self._tip() or "", by, tuple(changed)))

    def _tracked_names(self) -> list[str] | None:
        """The names to compare to cover all that is tracked: None (all files), or only the files scanned so far."""
        return None if self._all_known else list(self._known)

    def _all(self) -> list[str]:
        """The listed files and all files known already."""
        try:
            names = {name for path in self._listing() if (name := self._name(path))}
        except Refused as refusal:
            self.problem = f"the files of {self._workspace} could not be listed: {refusal}"
            names = set()
        if len(names) > MOST_FILES:
            self.problem = (
                f"{self._workspace} has more than {MOST_FILES:,} files, so only edits can be brought back"
            )
            names = set()
        return [*names, *(self._known.keys() - names)]

    def _names(self, paths: Sequence[str] | None) -> list[str] | None:
        return None if paths is None else [name for path in paths if (name := self._name(path))]

    def _stamp(self, name: str) -> int:
        """The time of a file's last change of content or metadata, in nanoseconds; 0 if it cannot be read."""
        try:
            return (self._workspace / name).lstat().st_ctime_ns
        except OSError:
            return 0

    def _name(self, path: str) -> str:
        """A file's path relative to the workspace; empty if it is outside, in ``.git``, or not valid Unicode."""
        try:
            name = Path(path).relative_to(self._workspace).as_posix()
            name.encode()
        except (ValueError, UnicodeEncodeError):
            return ""
        return "" if name == "." or name.split("/", 1)[0] == ".git" else name

    def _state(self, name: str) -> FileState | None:
        """The current state of a file, None if there is no regular file; stores its content if possible."""
        path = self._workspace / name
        try:
            file_stat = path.lstat()
            if not stat.S_ISREG(file_stat.st_mode):
                return None
            fingerprint = (
                file_stat.st_mode,
                file_stat.st_size,
                file_stat.st_mtime_ns,
                file_stat.st_ino,
                file_stat.st_ctime_ns,
            )
            if (cached := self._states_read.get(name)) is not None and cached[0] == fingerprint:
                return cached[1]
            state = self._read(path, file_stat)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return FileState("", 0, UNREADABLE)
        # A file that was changed this moment may be changed again without another timestamp, so it is read again.
        if time.time_ns() - file_stat.st_ctime_ns > CLOCK_STEP:
            self._states_read[name] = fingerprint, state
        return state

    def _read(self, path: Path, file_stat: os.stat_result) -> FileState:
        mode = stat.S_IMODE(file_stat.st_mode)
        rough_digest = f"{file_stat.st_size}-{file_stat.st_mtime_ns}"
        if file_stat.st_size > LARGEST_FILE:
            return FileState(rough_digest, mode, TOO_LARGE)
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if self._is_secret(content.decode(errors="replace")):
            return FileState(digest, mode, SECRET)
        try:
            stored = self._contents.add(digest, content)
        except (OSError, TranscriptError) as error:
            return FileState(digest, mode, f"it could not be kept ({error})")
        return FileState(digest, mode, "" if stored else FULL)

    # -- restoring ------------------------------------------------------------------------------------

    def plan(self, since: Callable[[str], bool]) -> RestorePlan:
        """Plan how to undo the agent's changes, beginning with the first one whose tip satisfies ``since``."""
        with self._lock:
            if self._running_calls:
                raise Refused("files are being changed; wait until that is done, or interrupt it")
            self._record_differences(self._tracked_names(), "agent" if self._busy() else "user")
            earlier_states, ask = self._before_the_agent(since)
            files: list[FileChange] = []
            lost: dict[str, str] = {}
            for path, earlier in sorted(earlier_states.items()):
                current = self._known.get(path)
                if current == earlier:
                    continue
                if earlier is not None and earlier.unkept:
                    lost[path] = f"its earlier content was not kept: {earlier.unkept}"
                    continue
                files.append(FileChange(path, current, earlier))
                if current is not None and current.unkept:
                    reason = f"what it holds now could not be brought back again: {current.unkept}"
                    ask.setdefault(path, reason)
            planned = {file.path for file in files}
            asked = {path: why for path, why in ask.items() if path in planned}
            return RestorePlan(tuple(files), asked, lost)

    def _before_the_agent(
        self, since: Callable[[str], bool]
    ) -> tuple[dict[str, FileState | None], dict[str, str]]:
        """The files that the agent has changed since, as they were before, and why to ask about some of them."""
        earlier_states: dict[str, FileState | None] = {}
        ask: dict[str, str] = {}
        for change in dropwhile(lambda change: not since(change.tip), self._changes):
            for file in change.files:
                if change.by != "user":
                    earlier_states.setdefault(file.path, file.before)
                elif file.path in earlier_states:
                    ask[file.path] = YOURS
        return earlier_states, ask

    def restore(self, plan: RestorePlan, *, but: Collection[str] = ()) -> Mapping[str, str]:
        """Carry out a plan, except for the files in ``but``; returns the files that could not be restored, and why."""
        with self._lock:
            chosen = tuple(file for file in plan.files if file.path not in but)
            self._write(RestoreBegan(chosen))
            return self._finish_restore()

    def _finish_restore(self) -> Mapping[str, str]:
        """Carry out the restore in progress; returns the files that could not be restored, and why."""
        done: list[FileChange] = []
        failed: dict[str, str] = {}
        for file in self._restoring:
            current = self._state(file.path)
            if current != file.before and current != file.after:
                failed[file.path] = "it has changed meanwhile"
                continue
            try:
                if current != file.after:
                    self._restore_file(file)
                done.append(file)
            except (Refused, OSError) as error:
                failed[file.path] = str(error)
        self._write(FilesChanged(self._tip() or "", "rewind", tuple(done)))
        return failed

    def _restore_file(self, file: FileChange) -> None:
        path = self._workspace / file.path
        content = self._contents.read(file.after)
        if file.after is None:
            path.unlink(missing_ok=True)
            # The folders that were created for the file go too, as far as they are empty.
            for folder in path.parents:
                if folder == self._workspace or any(folder.iterdir()):
                    return
                folder.rmdir()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # A folder on the way may have been replaced by a link since the plan was made.
        if not path.parent.resolve().is_relative_to(self._workspace):
            raise Refused("its folder is a link that leads out of the workspace now")
        temporary = path.with_name(f".{path.name[:80]}.sevenfold.tmp")
        try:
            temporary.write_bytes(content)
            temporary.chmod(file.after.mode)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def difference(self, plan: RestorePlan) -> Iterator[str]:
        """The changes of a plan as unified diffs."""
        for file in plan.files:
            old_text = self._text(file.before)
            new_text = self._text(file.after)
            old_name = file.path if file.before else "/dev/null"
            new_name = file.path if file.after else "/dev/null"
            if old_text is None or new_text is None or (file.before is not None and file.before.unkept):
                yield f"--- {old_name}\n+++ {new_name}\n(not shown: no text, or too large)\n"
            else:
                old_lines = old_text.splitlines(keepends=True)
                new_lines = new_text.splitlines(keepends=True)
                yield from unified_diff(old_lines, new_lines, old_name, new_name)

    def _text(self, state: FileState | None) -> str | None:
        """The text of a file state, empty if its content is not stored; None if it is not text."""
        content = b"" if state is None or state.unkept else self._contents.read(state)
        return None if b"\0" in content else content.decode(errors="replace")

    # -- the journal ----------------------------------------------------------------------------------

    def _write(self, line: JournalLine) -> None:
        """Apply a line to the state in memory, and add it to the journal.

        A failure is noted in `problem` and never stops the agent.
        """
        self._apply(line)
        try:
            self._journal.append(line)
        except (OSError, TranscriptError) as error:
            self.problem = f"changes cannot be written down: {error}"

    def _apply(self, line: JournalLine) -> None:
        match line:
            case FilesSeen(files=files, whole=whole):
                self._known.update(files)
                self._all_known = self._all_known or whole
            case FilesChanged(files=files, by=by):
                self._known.update({file.path: file.after for file in files})
                self._changes.append(line)
                self._restoring = () if by == "rewind" else self._restoring
            case CallBegan(tip=tip, at=at):
                self._unended_tip = tip
                self._first_began = at
            case CallsEnded():
                self._unended_tip = ""
            case RestoreBegan(files=files):
                self._restoring = files

    def _load(self) -> None:
        """Read the journal, and finish what an earlier process began but did not end."""
        try:
            for line in self._journal.lines():
                self._apply(line)
        except (OSError, TranscriptError) as error:
            self.problem = f"changes cannot be written down: {error}"
        if self._unended_tip:
            self._record_differences(self._tracked_names(), "agent")
            self._write(CallsEnded())
        if self._restoring:
            self._finish_restore()


def may_change(request: PermissionRequest) -> Sequence[str] | None:
    """The files that a call may change; empty if none, None if any."""
    match request.action:
        case "none" | "read" | "fetch":
            return ()
        case "write":
            return (request.subject,)
        case "run":
            line = parse(request.subject)
            only_looks = all(command.words and is_read_only(command.words) for command in line.commands)
            return () if line.plain and only_looks and not request.writes else None
        case _:
            return None
