"""Memory: the entries of one scope, with all their versions.

The files in the folder are for people and tools to read and edit. The generation defines which contents are valid and
where they come from. A file that differs from it was changed by something else: the next access to memory stores that
as a new version, with an untrusted origin.

    <folder>/MEMORY.md            the index
    <folder>/<name>.md            an entry
    <folder>/pinned/<name>.md     an entry that nothing automatic changes
    <folder>/logs/YYYY/MM/        one file per day, with a line for each finished request
    <folder>/.versions/           current.json, changes.jsonl, applied, objects/<hash>, usage.json, spent.json
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from difflib import unified_diff
from itertools import chain
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from sevenfold.errors import InputError, Refused, TranscriptError
from sevenfold.memory.entry import MAX_BYTES, PINNED, MemoryEntry, is_entry, parse_entry
from sevenfold.memory.generation import Author, Generation, MemoryChange, Provenance, digest
from sevenfold.memory.index import render_index
from sevenfold.ports import Clock, Folder
from sevenfold.record.decoding import NOT_JSON
from sevenfold.record.redact import mask_text

INDEX = "MEMORY.md"
CURRENT = ".versions/current.json"
CHANGES = ".versions/changes.jsonl"
APPLIED = ".versions/applied"
OBJECTS = ".versions/objects/"
TOLD = ".versions/told"
USAGE = ".versions/usage.json"
SPENT = ".versions/spent.json"
LOGS = "logs/"
LARGEST_LOG = 100_000
"""The most bytes in one day's log."""
LOG_IS_FULL = b"- the log of this day is full"
DAYS_OF_SPENDING = 31
"""Days for which spending is recorded."""
LONGEST_HISTORY = 1 << 30
"""The most bytes read from the list of changes."""
ANSWERS = 10
"""How many of the answers that used an entry are remembered."""
WAIT = 10.0
"""Seconds that a change waits for the lock of another process."""

_Count = TypeVar("_Count")
Checked = Callable[[bytes], str]
"""Returns why content must not be stored (it has a secret, for example); empty if it may be."""


class EntryUse(Struct, frozen=True):
    """How often an entry was shown to a model, and how often the answer used it."""

    used: int = 0
    helped: int = 0
    last: float = 0.0
    answers: tuple[str, ...] = ()
    """The newest answers that used it, as ``session/record``."""


class KnownEntry(Struct, frozen=True):
    """An entry with everything known about it."""

    entry: MemoryEntry
    stamp: Provenance
    usage: EntryUse = EntryUse()
    scope: str = ""
    """The folder of its memory."""

    @property
    def when(self) -> float:
        """When the user last stated or confirmed it; if never, when it was created."""
        return self.stamp.verified or self.stamp.created


class EntryEdit(Struct, frozen=True):
    """New content for an entry, and its provenance."""

    content: bytes
    stamp: Provenance


Edits: TypeAlias = Mapping[str, EntryEdit | None]
"""Edits by file; None removes the entry."""


def difference(file: str, old_content: bytes | None, new_content: bytes | None) -> str:
    """A unified diff between two versions of a file; None means that it does not exist."""
    old_lines, new_lines = (
        (text or b"").decode(errors="replace").splitlines(keepends=True)
        for text in (old_content, new_content)
    )
    old_name, new_name = ("/dev/null" if text is None else file for text in (old_content, new_content))
    lines = unified_diff(old_lines, new_lines, old_name, new_name)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _replayed(recorded: Mapping[str, MemoryChange], at: str) -> Generation | None:
    """The generation that the recorded changes lead to; None if one of them is missing."""
    chain: list[MemoryChange] = []
    while at:
        if (change := recorded.get(at)) is None or len(chain) > len(recorded):
            return None
        chain.append(change)
        at = change.parent
    generation = Generation()
    for change in reversed(chain):
        generation = generation.after(change)
    return generation


def _supported(changes: Iterable[MemoryChange], claimed: Generation) -> Generation:
    """The part of a generation that some recorded change made."""
    recorded: set[tuple[str, Provenance | None]] = set()
    for change in changes:
        recorded.update((file, after) for file, (_, after) in change.entries.items())
    entries = {file: stamp for file, stamp in claimed.entries.items() if (file, stamp) in recorded}
    return Generation(claimed.number, claimed.id, entries)


def _in_words(change: MemoryChange) -> str:
    """What a change from outside did, for the user."""
    edited: list[str] = []
    removed: list[str] = []
    for file, (_, after) in change.entries.items():
        names = removed if after is None else edited
        names.append(file.removesuffix(".md"))
    deeds = [f"wrote {', '.join(edited)} (unconfirmed now)"] if edited else []
    deeds += [f"removed {', '.join(removed)}"] if removed else []
    number = change.number
    return (
        f"something other than Sevenfold {' and '.join(deeds)} in memory; "
        f"sevenfold memory diff {number} shows it, undo {number} takes it back"
    )


class Memory:
    """The entries of one scope (a project's, or the user's)."""

    def __init__(
        self,
        folder: Folder,
        clock: Clock,
        today: Callable[[], str],
        refuse: Checked | None = None,
        must_be_user: Callable[[str], None] | None = None,
    ) -> None:
        """``today`` returns the date as YYYY-MM-DD; ``refuse`` returns why content must not be stored.

        ``must_be_user`` is called with an action before anything that counts as the user's words is changed, and raises
        if it is not the user who acts.
        """
        self._folder = self.folder = folder
        self.clock = clock
        self.today = today
        self.refuses = refuse or (lambda content: "")
        """Returns why content must not be stored; empty if it may be."""
        self._must_be_user = must_be_user or (lambda action: None)
        self.path = folder.path
        self.damage = ""
        """What was found damaged or edited, and what counts instead; empty if nothing was."""
        self._verified: tuple[bytes, Generation] | None = None
        """The current generation as its file had it, and as far as it counts."""

    # -- reading -----------------------------------------------------------------------------------

    def entries(self) -> list[KnownEntry]:
        """All entries, sorted by file."""
        current, files = self._generation_and_files()
        usage = self._counted(USAGE, EntryUse)
        listed = []
        for file, stamp in current.entries.items():
            content = files.get(file)
            if content is None or digest(content) != stamp.sha256:
                content = self._content(file, stamp)
            if content is not None:
                parsed = parse_entry(file, content)
                listed.append(KnownEntry(parsed, stamp, usage.get(file, EntryUse()), self.path))
        return listed

    def entry(self, name: str) -> KnownEntry:
        """One entry by name; raises `InputError` that lists existing ones."""
        entries = self.entries()
        for candidate in entries:
            if name in (candidate.entry.name, candidate.entry.file):
                return candidate
        names = ", ".join(candidate.entry.name for candidate in entries[:10])
        there = f"there is: {names}" if names else "memory is empty"
        raise InputError(f"there is no memory entry {name[:80]!r}; {there}")

    def index(self) -> str:
        """The index, as it appears in the prompt."""
        return render_index(self.entries(), self.today())

    def generation(self) -> Generation:
        """The current generation, after recording changes that others made to the files."""
        return self._generation_and_files()[0]

    def _generation_and_files(self) -> tuple[Generation, dict[str, bytes | None]]:
        """The current generation, and the files that were read to check it."""
        current = self._current()
        files = self._files()
        if self._applied() == current.id and not self.damage and not self._outside(current, files):
            return current, files
        try:
            with self._folder.lock(wait=WAIT):
                return self._reconciled(), files
        except TranscriptError:
            return current, files  # in a read-only folder, memory is what was last written

    def problems(self) -> list[str]:
        """Files that cannot be entries, and entries whose content is lost, each with what to do."""
        problems = []
        for file in self._folder.names():
            if file.startswith((".", LOGS)) or file == INDEX:
                continue
            if not is_entry(file):
                problems.append(
                    f"{file}: not an entry; use lower case, end in .md, and put it here or in pinned/"
                )
            elif self._folder.read(file, most=MAX_BYTES) is None:
                problems.append(f"{file}: larger than {MAX_BYTES:,} bytes, so it is not used; shorten it")
        for file, stamp in self.generation().entries.items():
            if self._content(file, stamp) is None:
                problems.append(f"{file}: its content is missing or damaged; undo the change, or forget it")
        return problems

    def changes(self) -> Iterator[MemoryChange]:
        """All changes, newest first; one that was never completed is skipped."""
        at = self.generation().id  # first, because this may add a change
        by_id = {change.id: change for change in self._recorded()}
        while at and at in by_id:
            yield by_id[at]
            at = by_id[at].parent

    def change(self, number: int) -> MemoryChange:
        """One change by its number; raises `InputError`."""
        for change in self.changes():
            if change.number == number:
                return change
        raise InputError(f"there is no change {number}; `sevenfold memory log` lists them")

    def diff(self, change: MemoryChange) -> str:
        """What a change did, as a unified diff."""
        differences = []
        for file, stamps in change.entries.items():
            content_before, content_after = (
                self._object(stamp.sha256) if stamp else None for stamp in stamps
            )
            differences.append(
                difference(file, content_before, content_after) or f"{file}: only its origin changed\n"
            )
        return "".join(differences)

    def corrected_share(self) -> float | None:
        """The share of entries remembered automatically, not written by the user, that turned out to be wrong.

        An entry was wrong if the user or another program changed or removed it, if it was undone, or if a change ended
        its validity. None if nothing was remembered.
        """
        remembered: set[str] = set()
        wrong: set[str] = set()
        for change in reversed(list(self.changes())):
            hashes_after = {after.sha256 for _, after in change.entries.values() if after}
            for file, (before, after) in change.entries.items():
                if before is None:
                    remembered.update([file] if change.by in ("remember", "agent") else [])
                    continue
                changed = before.sha256 not in hashes_after  # otherwise it was only confirmed or pinned
                by_hand = change.by in ("user", "outside") or (change.by == "undo" and after is None)
                if changed and (by_hand or self._closes(file, before, after)):
                    wrong.add(file)
        return len(remembered & wrong) / len(remembered) if remembered else None

    def _closes(self, file: str, before: Provenance, after: Provenance | None) -> bool:
        """Whether a change sets or changes the last valid day of an entry."""
        contents = (self._content(file, stamp) for stamp in (before, after) if stamp)
        untils = [parse_entry(file, content).until if content else "" for content in contents]
        return len(untils) == 2 and untils[0] != untils[1]

    # -- writing -----------------------------------------------------------------------------------

    def commit(
        self,
        edits: Edits,
        by: Author,
        reason: str,
        *,
        session: str = "",
        based_on: Generation | None = None,
        whole: bool = False,
    ) -> Generation:
        """Apply all edits in one change; None removes an entry.

        An entry that changed since ``based_on`` keeps its new text: its edit is skipped, or all are with ``whole``.
        Raises `InputError` or `Refused`, without changing anything, if an edit is not allowed.
        """
        for file, edit in edits.items():
            self._check(file, edit, by)
        with self._folder.lock(wait=WAIT):
            current = self._reconciled()
            if based_on is not None:
                fresh = {file for file in edits if current.entries.get(file) == based_on.entries.get(file)}
                if whole and len(fresh) < len(edits):
                    return current
                edits = {file: edit for file, edit in edits.items() if file in fresh}
            self._check_whose(
                (current.entries.get(file), edit.stamp if edit else None) for file, edit in edits.items()
            )
            return self._change(current, edits, by, reason, session)

    def write(
        self, entry: MemoryEntry, by: Author, reason: str, *, stamp: Provenance | None = None
    ) -> Generation:
        """Write one entry. Without a stamp, it counts as the user's own."""
        content = entry.render()
        at = self.clock.now()
        stamp = stamp or Provenance("", "user", created=at, verified=at)
        stamp = msgspec.structs.replace(stamp, sha256=digest(content))
        return self.commit({entry.file: EntryEdit(content, stamp)}, by, reason)

    def forget(self, name: str, by: Author = "user") -> Generation:
        """Remove an entry. Its versions are kept, so this can be undone."""
        return self.commit({self.entry(name).entry.file: None}, by, "forgotten")

    def confirm(self, name: str) -> Generation:
        """Mark an entry as confirmed by the user: from now on it counts as theirs."""
        known_entry = self.entry(name)
        stamp = msgspec.structs.replace(known_entry.stamp, origin="user", verified=self.clock.now())
        edit = EntryEdit(known_entry.entry.render(), stamp)
        return self.commit({known_entry.entry.file: edit}, "user", f"confirmed {name}")

    def pin(self, name: str, *, pinned: bool = True) -> Generation:
        """Move an entry to the folder that nothing automatic changes, or back."""
        known_entry = self.entry(name)
        if known_entry.entry.pinned == pinned:
            return self.generation()
        file = f"{PINNED if pinned else ''}{known_entry.entry.name}.md"
        edits = {
            known_entry.entry.file: None,
            file: EntryEdit(known_entry.entry.render(), known_entry.stamp),
        }
        return self.commit(edits, "user", f"{'pinned' if pinned else 'unpinned'} {name}")

    def close(self, name: str) -> Generation:
        """End an entry as of today: it is kept, and neither listed nor recalled any more."""
        known_entry = self.entry(name)
        last = date.fromisoformat(self.today()) - timedelta(days=1)
        content = known_entry.entry.with_until(last.isoformat()).render()
        edit = EntryEdit(content, msgspec.structs.replace(known_entry.stamp, sha256=digest(content)))
        return self.commit({known_entry.entry.file: edit}, "user", f"closed {name}")

    def undo(self, number: int | None = None) -> Generation:
        """Restore what was there before a change, to the byte; by default, before the newest one that is not undone.

        Raises `Refused` if an entry was changed again since then: undo the later change first.
        """
        change = self._last() if number is None else self.change(number)
        with self._folder.lock(wait=WAIT):
            current = self._reconciled()
            later = [
                file for file, (_, after) in change.entries.items() if current.entries.get(file) != after
            ]
            if later:
                raise Refused(
                    f"change {change.number} cannot be undone: {later[0]} was changed again since"
                )
            self._check_whose(change.entries.values())
            return self._apply(
                current, change.reversed(current.entries, self.clock.now(), current.number + 1, current.id)
            )

    def count_use(self, file: str, *, helped: bool, answer: str = "") -> None:
        """Count that an entry was shown to a model, and whether it helped in this ``answer``."""
        with self._folder.lock(wait=WAIT):
            usage = self._counted(USAGE, EntryUse)
            was = usage.get(file, EntryUse())
            answers = (*was.answers, answer)[-ANSWERS:] if helped and answer else was.answers
            usage[file] = EntryUse(was.used + 1, was.helped + helped, self.clock.now(), answers)
            self._folder.write(USAGE, msgspec.json.encode(usage))

    def log_request(self, line: str) -> None:
        """Add a line to today's log; secrets are masked."""
        day = self.today()
        file = f"{LOGS}{day[:4]}/{day[5:7]}/{day}.md"
        added = mask_text(line).encode(errors="replace")
        with self._folder.lock(wait=WAIT):
            there = self._folder.read(file) or b""
            if len(there) + len(added) < LARGEST_LOG:
                self._folder.append(file, added)
            elif not there.rstrip().endswith(LOG_IS_FULL):
                self._folder.append(file, LOG_IS_FULL)

    def spend(self, usd: float) -> None:
        """Add to today's cost of maintaining this memory with a model."""
        with self._folder.lock(wait=WAIT):
            spent = self._counted(SPENT, float)
            spent[self.today()] = spent.get(self.today(), 0.0) + usd
            remembered = dict(sorted(spent.items())[-DAYS_OF_SPENDING:])
            self._folder.write(SPENT, msgspec.json.encode(remembered))

    @property
    def spent(self) -> float:
        """Today's cost of maintaining this memory with models, in dollars."""
        return self._counted(SPENT, float).get(self.today(), 0.0)

    def affords(self, daily_budget: float | None) -> bool:
        """Whether today's cost is below a daily budget; always, if that is None."""
        return daily_budget is None or self.spent < daily_budget

    # -- keeping files and generation consistent -------------------------------------------------------

    def _check(self, file: str, edit: EntryEdit | None, by: Author) -> None:
        if not is_entry(file):
            raise InputError(f"{file[:120]!r} is not a valid memory file name (expected NAME.md)")
        if file.startswith(PINNED) and by not in ("user", "undo", "import", "outside"):
            raise Refused(f"{file} is pinned: only the user changes it")
        if edit is not None and len(edit.content) > MAX_BYTES:
            raise InputError(f"{file}: an entry has at most {MAX_BYTES:,} bytes; keep one fact in it")
        if edit is not None and (problem := self.refuses(edit.content)):
            raise Refused(f"{file} is not stored: {problem}")

    def _check_whose(self, stamps: Iterable[tuple[Provenance | None, Provenance | None]]) -> None:
        """Raise `Refused` if what counts as the user's words would change, and it is not the user who acts.

        ``stamps`` are those of each entry before and after the change.
        """
        if any(stamp is not None and stamp.trusted for stamp in chain.from_iterable(stamps)):
            self._must_be_user("changing what the user said in memory")

    def _current(self) -> Generation:
        """The current generation, as far as recorded changes led to it.

        The file that holds it says whose words an entry states. So it counts only where the changes say the same: each
        is named by a hash of all that it did, so neither can be edited alone.
        """
        written = self._folder.read(CURRENT) or b""
        if self._verified is not None and written == self._verified[0]:
            return self._verified[1]
        try:
            claimed = msgspec.json.decode(written, type=Generation) if written else Generation()
            problem = "" if written else "is gone"
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            claimed = Generation()
            problem = f"is damaged ({error})"
        recorded = {change.id: change for change in self._recorded() if change.identified() == change}
        at = claimed.id if claimed.id in recorded or not recorded else next(reversed(recorded))
        generation = _replayed(recorded, at)
        if generation is None:  # a change is missing: what others recorded still counts
            generation = _supported(recorded.values(), claimed)
        if generation.entries != claimed.entries and not problem:
            problem = "was edited by something else"
        if problem and (recorded or claimed.entries):
            self.damage = f"{self.path}/{CURRENT} {problem}; what the recorded changes say counts instead"
        self._verified = (written, generation)
        return generation

    def _applied(self) -> str:
        """The id of the last change whose files were written completely; whatever cannot be read is no id."""
        return (self._folder.read(APPLIED) or b"").decode(errors="replace")

    def news(self) -> list[str]:
        """What something other than Sevenfold did to memory since this was last called, in words."""
        self.generation()
        told_until = self._told()
        changes: list[MemoryChange] = []
        for change in self.changes():
            if change.number <= told_until:
                break
            if change.by == "outside":
                changes.append(change)
        if changes:
            with self._folder.lock(wait=WAIT):
                self._folder.write(TOLD, str(changes[0].number).encode())
        lines = [_in_words(change) for change in reversed(changes)]
        damage = self.damage
        self.damage = ""
        return [damage, *lines] if damage else lines

    def _told(self) -> int:
        """The number of the newest change from outside that the user was told of."""
        with suppress(ValueError):
            return int(self._folder.read(TOLD) or b"0")
        return 0

    def _files(self) -> dict[str, bytes | None]:
        """The files that can be entries; None for one that cannot be read or is too large."""
        there = filter(is_entry, self._folder.names())
        return {file: self._folder.read(file, most=MAX_BYTES) for file in there}

    def _outside(
        self, current: Generation, files: Mapping[str, bytes | None]
    ) -> dict[str, EntryEdit | None]:
        """Changes that something else made to the files."""
        at = self.clock.now()
        edits: dict[str, EntryEdit | None] = {}
        for file, content in files.items():
            before = current.entries.get(file)
            if content is not None and (before is None or before.sha256 != digest(content)):
                stamp = Provenance(digest(content), "outside", created=before.created if before else at)
                edits[file] = EntryEdit(content, stamp)
        return edits | {file: None for file in current.entries if file not in files}

    def _reconciled(self) -> Generation:
        """Complete an interrupted change, and record changes from outside. The lock must be held."""
        current = self._current()
        if self._applied() != current.id:
            self._complete(current)
        written = msgspec.json.encode(current)
        if self.damage and written != self._folder.read(CURRENT):
            self._folder.write(CURRENT, written)
        return self._change(
            current, self._outside(current, self._files()), "outside", "changed outside Sevenfold"
        )

    def _change(
        self, current: Generation, edits: Edits, by: Author, reason: str, session: str = ""
    ) -> Generation:
        """Apply those edits that change something, if any. The lock must be held."""
        stamps = {
            file: (current.entries.get(file), edit.stamp if edit else None) for file, edit in edits.items()
        }
        changed = {file: (before, after) for file, (before, after) in stamps.items() if before != after}
        if not changed:
            return current
        for edit in filter(None, edits.values()):
            self._keep(edit.content)
        at = self.clock.now()
        return self._apply(
            current, MemoryChange(current.number + 1, current.id, at, by, reason, changed, session)
        )

    def _complete(self, current: Generation) -> None:
        """Write the files of an interrupted change; those that others changed meanwhile are left alone."""
        last = {change.id: change for change in self._recorded()}.get(current.id)
        for file, (before, after) in last.entries.items() if last else ():
            content = self._folder.read(file)
            there = digest(content) if content is not None else None
            if after is not None and self._content(file, after) is None:
                continue  # the new content is lost, so what the file has now counts
            if there == (before.sha256 if before else None):
                self._materialise(file, after)
        self._finish(current)

    def _apply(self, current: Generation, change: MemoryChange) -> Generation:
        """Record a change, which makes it valid, then write its files. The lock must be held."""
        change = change.identified()
        following = current.after(change)
        self._folder.append(CHANGES, msgspec.json.encode(change))
        written = msgspec.json.encode(following)
        self._folder.write(CURRENT, written)
        self._verified = (written, following)
        for file, (_, after) in change.entries.items():
            self._materialise(file, after)
        self._finish(following)
        return following

    def _materialise(self, file: str, stamp: Provenance | None) -> None:
        if stamp is None:
            self._folder.remove(file)
        elif (content := self._object(stamp.sha256)) != self._folder.read(file):
            self._folder.write(file, content)

    def _finish(self, current: Generation) -> None:
        usage = self._counted(USAGE, EntryUse)
        entries = []
        for file, stamp in current.entries.items():
            content = self._content(file, stamp)
            if content is not None:  # `problems` names those whose content is lost
                entry = parse_entry(file, content)
                entries.append(KnownEntry(entry, stamp, usage.get(file, EntryUse())))
        text = render_index(entries, self.today()).encode()
        if text != (self._folder.read(INDEX) or b""):
            self._folder.write(INDEX, text)
        self._folder.write(APPLIED, current.id.encode())

    def _recorded(self) -> Iterator[MemoryChange]:
        """All recorded changes; unreadable lines are skipped."""
        for line in (self._folder.read(CHANGES, most=LONGEST_HISTORY) or b"").splitlines():
            with suppress(*NOT_JSON):
                yield msgspec.json.decode(line, type=MemoryChange)

    def _last(self) -> MemoryChange:
        """The newest change that is neither undone nor an undo; raises `Refused` if there is none."""
        undone: set[str] = set()
        for change in self.changes():
            if change.by == "undo":
                undone.add(change.reason)
            elif f"undo {change.number}" not in undone:
                return change
        raise Refused("there is nothing to undo")

    def _keep(self, content: bytes) -> None:
        name = OBJECTS + digest(content)
        if self._folder.read(name) is None:
            self._folder.write(name, content)

    def _object(self, sha256: str) -> bytes:
        content = self._folder.read(OBJECTS + sha256)
        if content is None or digest(content) != sha256:
            raise Refused(
                f"{self.path}/{OBJECTS}{sha256[:16]}… is missing or damaged; restore it from a backup"
            )
        return content

    def _content(self, file: str, stamp: Provenance) -> bytes | None:
        """The content of an entry; None if it is lost."""
        for content in (self._folder.read(OBJECTS + stamp.sha256), self._folder.read(file)):
            if content is not None and digest(content) == stamp.sha256:
                return content
        return None

    def _counted(self, file: str, kind: type[_Count]) -> dict[str, _Count]:
        """The counts in a file; empty if it cannot be read."""
        with suppress(*NOT_JSON):
            return msgspec.json.decode(self._folder.read(file) or b"{}", type=dict[str, kind])  # type: ignore[valid-type]
        return {}
