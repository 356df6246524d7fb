"""Dreaming: memory is tidied and nothing true is lost, whatever the model suggests (S5.9, S7.6–S7.9)."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

import sevenfold
from sevenfold import OfflineClient, Script
from sevenfold.cli.main import main
from sevenfold.clock import ManualClock
from sevenfold.events import Acted
from sevenfold.memory.consolidation import Proposal, dream, prepare, read_proposal, words_held
from sevenfold.memory.entry import new_entry, quoted
from sevenfold.memory.generation import Provenance, digest
from sevenfold.memory.memory import EntryEdit, Memory
from sevenfold.stores.folder import FileFolder, MemoryFolder

from .test_memory import Dies, Stops

NIGHTS = int(os.environ.get("SEVENFOLD_DREAMS", "100"))
START = 1_790_000_000.0
DAY = 86_400.0


def memory(folder=None, at: float = START) -> Memory:
    return Memory(folder or MemoryFolder(), ManualClock(at), lambda: "2026-11-16")


def say(held: Memory, name: str, words: str, at: float = START, origin="user") -> None:
    entry = new_entry(name, "project", words, quoted([words]))
    stamp = Provenance(digest(entry.render()), origin, (f"s/{name}",), created=at, verified=at)
    held.write(entry, "user", "said", stamp=stamp)


@pytest.mark.spec("S7.8")
def test_entries_that_say_the_same_become_one_with_all_their_words_and_evidence():
    held = memory()
    say(held, "tabs", "Always indent Makefiles with tabs.")
    say(held, "again", "Always indent a Makefile with tabs, please.", START + DAY)
    made = dream(held)
    assert made.done == ("merged again, tabs",)
    (one,) = held.entries()
    assert one.entry.name == "tabs"
    assert set(one.entry.quotations) == {
        "Always indent Makefiles with tabs.",
        "Always indent a Makefile with tabs, please.",
    }
    assert set(one.stamp.evidence) == {"s/tabs", "s/again"}


@pytest.mark.spec("S5.10", "S7.8")
def test_what_a_later_entry_contradicts_is_told_and_only_the_user_ends_it():
    held = memory()
    say(held, "old", "The staging server listens on port 8080.")
    say(held, "new", "The staging server listens on port 9090.", START + 3 * DAY)
    made = dream(held, Proposal(replaced=(("old.md", "new.md"),)))
    assert made.done == ()
    assert made.proposed == ("old: new seems to say otherwise; `sevenfold memory close old` ends it",)
    assert not held.entry("old").entry.until
    held.close("old")
    assert dream(held).proposed == ()
    assert "8080" not in held.index()
    held.undo()
    assert "8080" in held.index()


def test_a_second_dream_finds_nothing_left_to_do():
    held = memory()
    say(held, "old", "The staging server listens on port 8080.")
    say(held, "new", "The staging server listens on port 9090.", START + 3 * DAY)
    dream(held)
    again = dream(held)
    assert (again.done, again.refused) == ((), ())


@pytest.mark.spec("S5.9")
def test_a_dream_is_undone_to_the_byte():
    folder = MemoryFolder()
    held = memory(folder)
    say(held, "old", "The staging server listens on port 8080.")
    say(held, "new", "The staging server listens on port 9090.", START + 3 * DAY)
    say(held, "tabs", "Always indent Makefiles with tabs.")
    say(held, "again", "Always indent a Makefile with tabs.", START + DAY)
    before = {name: folder.read(name) for name in folder.names() if not name.startswith(".")}
    dream(held)
    assert {name: folder.read(name) for name in folder.names() if not name.startswith(".")} != before
    held.undo()
    assert {name: folder.read(name) for name in folder.names() if not name.startswith(".")} == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We deploy the billing service on Tuesdays.", "We paint the office walls on Fridays."),
        ("Ada reviews every change of the parser.", "The parser tests need four minutes each."),
    ],
)
@pytest.mark.parametrize("kind", ["same", "replaced"])
def test_a_model_cannot_merge_or_retire_what_speaks_of_other_things(one, other, kind):
    held = memory()
    say(held, "one", one)
    say(held, "other", other, START + DAY)
    files = ("one.md", "other.md")
    suggested = Proposal(same=(files,)) if kind == "same" else Proposal(replaced=(files,))
    made = dream(held, suggested)
    assert made.done == ()
    assert made.refused or kind == "replaced"
    assert {known.entry.name for known in held.entries() if not known.entry.until} == {"one", "other"}
    assert len(list(held.changes())) == 2


def test_entries_that_say_nothing_are_not_the_same():
    held = memory()
    contents = {"a.md": b"\n", "b.md": b"   \n"}
    edits = {file: EntryEdit(text, Provenance(digest(text), "outside")) for file, text in contents.items()}
    held.commit(edits, "outside", "")
    assert not dream(held, Proposal(same=(("a.md", "b.md"),))).done


def test_no_merge_raises_trust():
    held = memory()
    say(held, "mine", "Always indent Makefiles with tabs.")
    say(held, "page", "Always indent Makefiles with tabs, and push.", START + DAY, origin="web")
    made = dream(held, Proposal(same=(("mine.md", "page.md"),)))
    assert {one.entry.name: one.stamp.origin for one in held.entries()} == {"mine": "user", "page": "web"}
    assert "kind of source" in made.refused[0]


def test_what_a_page_says_does_not_end_what_the_user_said():
    held = memory()
    say(held, "mine", "The staging server listens on port 8080.")
    say(held, "page", "The staging server listens on port 9090.", START + DAY, origin="web")
    assert dream(held).done == ()


def test_a_suggestion_names_entries_and_nothing_else():
    held = memory()
    say(held, "a", "Always indent Makefiles with tabs.")
    say(held, "b", "Never push on Fridays.")
    known = held.entries()
    text = "<same>a, b, made-up</same><replaced by='x'>a</replaced><replaced by=\"b\">a, ghost</replaced><same>a</same>"
    assert read_proposal(text, known) == Proposal((("a.md", "b.md"),), (("a.md", "b.md"),))
    assert read_proposal("I deleted 23 files for you.", known) is None
    assert read_proposal("<nothing/>", known) == Proposal()


TOPICS = (
    "billing",
    "parser",
    "search",
    "harbour",
    "lanterns",
    "kettles",
    "violins",
    "orchards",
    "bridges",
    "ferries",
)


def bad_model(way: int, known, chance: random.Random) -> str:
    names = [one.entry.name for one in known]
    some = chance.sample(names, min(len(names), 23))
    match way:
        case 0:  # deletes
            return f"<same>{', '.join(some)}</same>"
        case 1:  # invents
            return '<same>moon-is-cheese, ghost</same><replaced by="ghost">moon-is-cheese</replaced>'
        case 2:  # hardens hedges, by retiring them
            return "".join(f'<replaced by="{chance.choice(names)}">{name}</replaced>' for name in some)
        case 3:  # merges strangers
            return "".join(f"<same>{a}, {b}</same>" for a, b in zip(some[::2], some[1::2], strict=False))
        case 4:  # raises trust
            web = [one.entry.name for one in known if not one.stamp.trusted]
            return "".join(f"<same>{name}, {chance.choice(names)}</same>" for name in web)
        case _:  # writes nothing
            return ""


@pytest.mark.spec("S7.8")
def test_dreams_with_a_bad_model_lose_nothing_that_is_true():
    chance, folder = random.Random(7), MemoryFolder()
    held = memory(folder)
    true: dict[str, str] = {}
    for night in range(NIGHTS):
        topic = TOPICS[night % len(TOPICS)]
        words = f"The {topic} team may meet in room {night} near the {chance.choice(TOPICS)} hall."
        origin = "web" if night % 7 == 6 else "user"
        say(held, f"fact-{night}", words, START + night * DAY, origin=origin)
        if origin == "user":
            true[f"fact-{night}"] = words
        known = held.entries()
        suggested = read_proposal(bad_model(night % 6, known, chance), known)
        dream(held, suggested)
        trusted = [one.entry for one in held.entries() if one.stamp.trusted]
        for words in true.values():
            assert any(words_held(entry, words) and not entry.until for entry in trusted)
        assert not any(one.stamp.trusted and one.entry.name == "fact-6" for one in held.entries())
    index = held.index()
    assert len(index.splitlines()) <= 200
    assert len(index.encode()) <= 25_000
    files = {name for name in folder.names() if name.endswith(".md") and name != "MEMORY.md"}
    assert files == set(held.generation().entries)


@pytest.mark.spec("S5.9")
@pytest.mark.parametrize("after", range(9))
def test_killed_at_any_write_a_dream_happened_as_a_whole_or_not_at_all(tmp_path, after):
    folder = FileFolder(tmp_path / "memory")
    held = memory(folder)
    say(held, "tabs", "Always indent Makefiles with tabs.")
    say(held, "again", "Always indent a Makefile with tabs.", START + DAY)
    before = held.generation().entries
    with suppress(Stops):
        dream(memory(Dies(tmp_path / "memory", after)))
    now = memory(folder)
    assert now.generation().entries == before or len(now.entries()) == 1
    assert all(one.by != "outside" for one in now.changes())
    assert any("Makefiles" in one.entry.body for one in now.entries())


def test_what_changes_during_a_dream_keeps_its_new_text():
    class Slow(MemoryFolder):
        """Somebody else writes just before the dream counts."""

        def lock(self, *, wait: float = 0.0):
            if self.meddle:
                self.meddle, words = False, "Always indent Makefiles with eight spaces."
                super().write("tabs.md", new_entry("tabs", "project", words, quoted([words])).render())
            return super().lock(wait=wait)

        meddle = False

    folder = Slow()
    held = memory(folder)
    say(held, "tabs", "Always indent Makefiles with tabs.")
    say(held, "again", "Always indent a Makefile with tabs.", START + DAY)
    folder.meddle = True
    dream(held)
    assert "eight spaces" in held.entry("tabs").entry.body
    assert "again" in {one.entry.name for one in held.entries()}


# -- when -------------------------------------------------------------------------------------------


def agent(work: Path, name: str, clock: ManualClock, events: list[object], **options):
    jobs = {"dream": lambda request: "<nothing/>", "extract_memories": lambda request: "<nothing/>"}
    client = OfflineClient(Script(["Fine."], jobs=jobs))
    return sevenfold.Agent(
        model="claude-sonnet-5-5",
        name=name,
        folder=work,
        clock=clock,
        client=client,
        listen=[events.append],
        **options,
    )


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def fill(work: Path) -> Memory:
    held = sevenfold.open_memory(work)
    say(held, "tabs", "Always indent Makefiles with tabs.")
    say(held, "again", "Always indent a Makefile with tabs.", START + DAY)
    say(held, "deploys", "We deploy on Tuesdays.")
    say(held, "ada", "Ada reviews the parser.")
    return held


def dreams(events: list[object]) -> list[str]:
    return [one.what for one in events if isinstance(one, Acted) and one.layer == "dream"]


@pytest.mark.spec("S7.6")
def test_it_dreams_after_five_other_sessions_and_not_again_for_a_day(work):
    held, events = fill(work), list[object]()
    clock = ManualClock(time.time())
    for number in range(7):
        with agent(work, f"s{number}", clock, events) as one:
            one.run("Hello there.")
            one.session.settle()
        assert bool(dreams(events)) == (number >= 5)
    assert dreams(events) == ["dream: merged again, tabs"]
    assert len(held.entries()) == 3


@pytest.mark.spec("S7.6")
def test_a_switch_stops_it(work):
    fill(work)
    events, clock = list[object](), ManualClock(time.time())
    for number in range(7):
        with agent(work, f"s{number}", clock, events, settings={"dream": False}) as one:
            one.run("Hello there.")
            one.session.settle()
    assert dreams(events) == []


def test_the_command_shows_the_difference_dreams_and_is_undone(work, capsys, monkeypatch):
    monkeypatch.chdir(work)
    held = fill(work)
    assert main(["dream", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "merged again, tabs" in shown
    assert "+> Always indent a Makefile with tabs." in shown
    assert len(held.entries()) == 4
    assert main(["dream"]) == 0
    assert len(held.entries()) == 3
    assert main(["dream"]) == 0
    assert "nothing to tidy" in capsys.readouterr().out
    held.undo()
    assert len(held.entries()) == 4


def test_a_preparation_changes_nothing(work):
    held = fill(work)
    before = held.generation()
    assert prepare(held).edits
    assert held.generation() == before
