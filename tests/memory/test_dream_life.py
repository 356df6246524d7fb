"""Memory under everything that happens to it: any order of writes, edits, dreams, undoing and kills (S5.5–S5.9)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sevenfold.errors import InputError, Refused
from sevenfold.memory.consolidation import Proposal, dream, words_held
from sevenfold.memory.entry import is_entry, new_entry, quoted
from sevenfold.memory.generation import Origin, Provenance, digest
from sevenfold.memory.index import MAX_BYTES, MAX_LINES
from sevenfold.memory.memory import INDEX
from sevenfold.stores.folder import MemoryFolder

from .test_dream import DAY, START, memory, say
from .test_memory import Stops

ENTRIES = ["a", "b", "c", "d"]
NAMES = st.sampled_from(ENTRIES)
SAID = (
    "The deadline is 2026-12-01.",
    "The deadline is 2026-12-15.",
    "Always indent Makefiles with tabs.",
    "Always indent a Makefile with tabs.",
    "We may deploy the parser on Fridays.",
    "Issue 4512 is fixed in the parser.",
    "Issue 4513 is fixed in the parser.",
)


class DyingFolder(MemoryFolder):
    """A folder whose process dies at its nth write, if it is told to."""

    left = 10**9

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stops

    def write(self, name: str, content: bytes) -> None:
        self._step()
        super().write(name, content)

    def append(self, name: str, line: bytes) -> None:
        self._step()
        super().append(name, line)

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)


class Life(RuleBasedStateMachine):
    """What the user said is never lost but by the user, and what others said never becomes the user's."""

    @initialize(said=st.lists(st.sampled_from(SAID), min_size=4, max_size=4))
    def start(self, said: list[str]) -> None:
        self.folder = DyingFolder()
        self.held = memory(self.folder)
        self.day = 0
        self.true: dict[str, str] = {}
        """The user's words that must be held, and the entry each was written to."""
        self.foreign: set[str] = set()
        """Words that no user said or confirmed."""
        for name, words in zip(ENTRIES[:3], said, strict=False):
            self.say(name, words, "user")
        self.say("d", f"A page claims: {said[3]}", "web")

    def say(self, name: str, words: str, origin: Origin) -> None:
        self.day += 1
        at = START + self.day * DAY
        entry = new_entry(name, "project", words, quoted([words]))
        stamp = Provenance(digest(entry.render()), origin, (f"s/{self.day}",), created=at, verified=at)
        try:
            before = self.held.entry(name)
        except InputError:
            before = None
        if before is not None and before.entry.pinned:
            return
        self.true = {said: home for said, home in self.true.items() if home != entry.file}
        if before is not None:
            # What was merged into this entry goes with it, since it was the user who replaced it.
            self.true = {
                said: home for said, home in self.true.items() if not words_held(before.entry, said)
            }
        self.held.write(entry, "user", "said", stamp=stamp)
        if origin == "user":
            self.true[words] = entry.file
            self.foreign.discard(words)
        elif words not in self.true:
            self.foreign.add(words)

    @rule(name=NAMES, words=st.sampled_from(SAID))
    def user_says(self, name: str, words: str) -> None:
        self.say(name, words, "user")

    @rule(name=NAMES, words=st.sampled_from(SAID))
    def page_says(self, name: str, words: str) -> None:
        self.say(name, f"A page claims: {words}", "web")

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        with suppress(InputError):
            gone = self.held.entry(name).entry
            self.held.forget(name)
            self.true = {said: home for said, home in self.true.items() if not words_held(gone, said)}

    @rule(name=NAMES, pinned=st.booleans())
    def pin(self, name: str, pinned: bool) -> None:
        with suppress(InputError):
            self.held.pin(name, pinned=pinned)

    @rule(name=NAMES, content=st.binary(max_size=12))
    def edit_outside(self, name: str, content: bytes) -> None:
        with suppress(InputError):
            gone = self.held.entry(name).entry
            if gone.file == f"{name}.md":
                self.folder.write(gone.file, content)
                self.true = {said: home for said, home in self.true.items() if not words_held(gone, said)}

    @rule(names=st.lists(NAMES, min_size=2, max_size=4, unique=True), kills=st.none() | st.integers(0, 8))
    def dream(self, names: list[str], kills: int | None) -> None:
        """A model that suggests anything; its process may be killed at any write."""
        files = tuple(f"{name}.md" for name in names)
        pairs = tuple((one, other) for one in files for other in files if one != other)
        pinned = {one.entry.file: one for one in self.held.entries() if one.entry.pinned}
        self.folder.left = 10**9 if kills is None else kills
        with suppress(Stops):
            dream(self.held, Proposal(same=(files,), replaced=pairs))
        self.folder.left = 10**9
        assert {one.entry.file: one for one in self.held.entries() if one.entry.pinned} == pinned

    @precondition(lambda self: self.held.generation().number)
    @rule()
    def undo_a_dream(self) -> None:
        """Undoing the newest change brings back what was before it, to the byte."""
        newest = next(self.held.changes())
        if newest.by == "dream":
            before = {file: stamp for file, (stamp, _) in newest.entries.items()}
            self.held.undo()
            now = self.held.generation().entries
            assert {file: now.get(file) for file in before} == before

    @invariant()
    def nothing_true_is_lost_and_nothing_gains_trust(self) -> None:
        if not hasattr(self, "held"):
            return
        trusted = [one.entry for one in self.held.entries() if one.stamp.trusted]
        for words in self.true:
            assert any(words_held(entry, words) for entry in trusted), words
        for words in self.foreign:
            assert not any(words_held(entry, words) for entry in trusted), words

    @invariant()
    def files_are_what_counts(self) -> None:
        if not hasattr(self, "held"):
            return
        now = self.held.generation()
        assert {name for name in self.folder.names() if is_entry(name)} == set(now.entries)
        for file, stamp in now.entries.items():
            assert digest(self.folder.read(file) or b"") == stamp.sha256
        listed = (self.folder.read(INDEX) or b"").decode()
        assert len(listed.splitlines()) <= MAX_LINES
        assert len(listed.encode()) <= MAX_BYTES

    @invariant()
    def only_what_was_ended_is_closed(self) -> None:
        if not hasattr(self, "held"):
            return
        for one in self.held.entries():
            if one.entry.until and "claims" not in one.entry.body:
                assert not any(hedge in one.entry.body for hedge in ("may", "Issue")), one.entry.body


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=120, stateful_step_count=10, deadline=None)


def test_a_dream_that_may_not_go_on_changes_nothing():
    held = memory()
    say(held, "one", "Always indent Makefiles with tabs.")
    say(held, "other", "Always indent a Makefile with tabs.", START + DAY)
    before = held.generation()
    with pytest.raises(Refused, match="stopped"):
        dream(held, goes_on=lambda: False)
    assert held.generation() == before
