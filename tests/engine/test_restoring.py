"""What comes back behind a summary, compaction after compaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.slots import State, StateSlot
from sevenfold.conversation.restore import FilesSlot, Moment, Restored, Seen, Slot
from sevenfold.errors import TranscriptDenied
from sevenfold.events import Compacted
from sevenfold.stores.memory import MemoryStore
from tests.engine.working import begun, body, texts, uuids, world

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")


def count(text: str) -> int:
    return len(text) // 4


def words(restored: Restored) -> str:
    return "\n".join(block.raw.decode() for one in restored.attachments for block in one.blocks)


def slot(files: dict[str, str], **more: Any) -> FilesSlot:
    return FilesSlot(lambda: [Seen(path) for path in files], files.__getitem__, **more)


@pytest.mark.spec("S4.10")
def test_the_five_newest_files_come_back_within_their_budgets() -> None:
    files = {f"f{n}.py": f"content {n}\n" * 3_000 for n in range(8)}
    restored = slot(files).restore(Moment((), count))
    assert [one.facts["filename"] for one in restored.attachments] == [f"f{n}.py" for n in range(5)]
    assert all(count(block.raw.decode()) <= 5_200 for one in restored.attachments for block in one.blocks)
    tight = slot(files).restore(Moment((), count, room=9_000))
    assert len(tight.attachments) == 2
    assert "f4.py: no room" in tight.left
    small = slot(files).restore(Moment((), count, budget=lambda tokens: tokens // 10))
    assert small.tokens < 5_000


@pytest.mark.spec("S4.10")
def test_files_that_may_not_be_read_or_cannot_be_or_are_our_own_are_not_restored() -> None:
    def read(path: str) -> str:
        if path == "gone":
            raise FileNotFoundError("no such file")
        if path == "denied":
            raise TranscriptDenied("denied")
        return f"text of {path}"

    names = ["secret", "gone", "denied", "notes.md", "fine"]
    made = FilesSlot(
        lambda: [Seen(name) for name in names],
        read,
        may_read=lambda path: path != "secret",
        own={"notes.md"}.__contains__,
    )
    restored = made.restore(Moment((), count))
    assert "text of fine" in words(restored)
    assert len(restored.attachments) == 1
    assert [one.partition(":")[0] for one in restored.left] == ["secret", "gone", "denied"]


def with_files(here: Any, tmp_path: Path, monkeypatch: Any, **more: Any) -> sevenfold.Session:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    session: sevenfold.Session = here.open(tmp_path / "s.jsonl", **more)
    return session


@pytest.mark.spec("S4.10", "S2.10")
def test_a_file_whose_reading_is_kept_whole_is_not_sent_twice(tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text(f"the text of {name}\n")
    with world() as here, with_files(here, tmp_path, monkeypatch) as session:
        session.user("begin")
        for turn in range(4):
            done = session.complete()
            path = tmp_path / ("new.py" if turn == 3 else "old.py")
            session.tool_results({call.id: path.read_text() for call in done.calls})
            session.conversation.remember_read(str(path), done.calls[0].id, "1")
        made = session.compact(engine="extractive")
        assert made is not None
        assert made.restored == ("files",)
        said = texts(body(session))
        assert "re-read just now" in said
        assert said.count("the text of old.py") == 1
        assert said.count("the text of new.py") == 1
        assert here.told(Compacted)[0].restored == ("files",)


@pytest.mark.spec("S4.10", "S25.31")
@pytest.mark.parametrize("in_files", [True, False], ids=["in files", "in no file"])
def test_files_of_the_workspace_come_back_whatever_store_the_session_is_in(
    tmp_path: Path, monkeypatch: Any, in_files: bool
) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    file = tmp_path / "tides.txt"
    file.write_text("the text of the tide table\n")
    client = sevenfold.OfflineClient(sevenfold.Script(["Hello.", "Yes."]))
    place = tmp_path / "sessions" if in_files else MemoryStore()
    with sevenfold.Session.open(
        "s", model="claude-sonnet-5-5", client=client, store=place, folder=tmp_path
    ) as session:
        for _ in range(2):
            session.user("Go on. " * 200)
            session.complete()
        session.conversation.remember_read(str(file), "toolu_1", "1")
        made = session.compact(engine="extractive")
        assert made is not None
        assert made.restored == ("files",)
        session.user("And now?")
        assert texts(body(session)).count("the text of the tide table") == 1


@pytest.mark.spec("S4.10", "S4.14")
def test_slots_hold_after_ten_compactions_as_after_the_first(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "a.py").write_text("version 0\n")
    todo = ["write the tests"]
    slots: list[StateSlot] = [
        StateSlot("plan", lambda: [State("The plan", "first this, then that", "/plan.md")], needed=True),
        StateSlot("todo", lambda: [State("To-do list", "\n".join(todo))]),
        StateSlot("agents", lambda: [State("Agent scout", "running since noon")]),
    ]
    with world() as here, with_files(here, tmp_path, monkeypatch) as session:
        session.conversation.restore((*session.conversation.slots, *slots))
        forgotten: list[int] = []
        session.conversation.call_after_compaction(lambda: forgotten.append(1))
        session.pin(session.user("Always answer in verse."))
        for turn in range(10):
            here.work(session, 2, 300)
            if turn == 0:
                session.conversation.remember_read(str(tmp_path / "a.py"), "toolu_1", "1")
            (tmp_path / "a.py").write_text(f"version {turn}\n")
            todo.append(f"step {turn}")
            made = session.compact(engine="extractive")
            assert made is not None
            assert made.restored == ("pins", "files", "plan", "todo", "agents")
            said = texts(body(session))
            for expected in (
                "first this, then that",
                f"step {turn}",
                "running since noon",
                f"version {turn}",
            ):
                assert said.count(expected) == 1
            assert said.count("<pinned>") == 1
            assert "Always answer in verse." in said
        assert len(forgotten) == 10


@pytest.mark.spec("S4.10")
def test_a_state_over_its_budget_keeps_its_head_and_says_where_the_rest_is() -> None:
    skills = StateSlot(
        "skills",
        lambda: [State(f"Skill {n}", "how to do it\n" * 3_000, f"/skills/{n}.md") for n in range(14)],
        each=5_000,
        together=25_000,
        kind="invoked_skills",
    )
    restored = skills.restore(Moment((), count))
    assert restored.tokens <= 25_000
    assert 5 <= len(restored.attachments) < 14
    assert {one.kind for one in restored.attachments} == {"invoked_skills"}
    assert "The full text is in /skills/0.md" in words(restored)
    assert restored.left


@pytest.mark.spec("S4.10", "S8.5")
def test_what_finds_no_room_goes_cheapest_first_and_a_slot_that_fails_stops_nothing() -> None:
    class Broken:
        name, needed, kinds = "broken", False, frozenset[str]()

        def restore(self, moment: Moment) -> Restored:
            raise RuntimeError("no")

    big: Callable[[], list[State]] = lambda: [State("Big", "x " * 40_000)]  # noqa: E731
    with world() as here, begun(here, 6) as session:
        slots: list[Slot] = [
            StateSlot("plan", lambda: [State("The plan", "short")]),
            Broken(),
            StateSlot("huge", big, each=1_000_000),
        ]
        session.conversation.restore((*session.conversation.slots, *slots))
        made = session.compact(engine="extractive")
        assert made is not None
        assert "plan" in made.restored
        assert "broken: no" in made.cut
        assert made.tokens_after < session.gauge.threshold * 0.75
        assert uuids(session)
