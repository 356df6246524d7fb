"""What an agent keeps beside its transcript does not grow without end, and is written once for each round of calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from sevenfold.agent.state import MOST_FILES, OpenFile, RecentUse, SavedState
from sevenfold.agent.tools.context import KEPT_FILES, Desk
from tests.agent.working import async_agent, use
from tests.engine.test_growing import counting


def test_of_many_files_the_newest_are_kept_and_all_count_while_it_works() -> None:
    desk, recent = Desk(Path("/w")), RecentUse()
    for number in range(1_000):
        desk.know(f"/w/{number}.py", "v", whole=True)
        recent.file(f"/w/{number}.py", f"c{number}", "v")
    recent.file("/w/900.py", "again", "v2")
    assert desk.known("/w/0.py") is not None
    assert list(desk.state().files) == [f"/w/{number}.py" for number in range(1_000 - KEPT_FILES, 1_000)]
    assert len(recent.files) == MOST_FILES
    assert list(recent.files.values())[-1] == OpenFile("/w/900.py", "again", "v2")
    state = SavedState(files=tuple(recent.files.values()), desk=desk.state())
    assert len(msgspec.json.encode(state)) < 40_000
    other = Desk(Path("/"))
    other.restore(desk.state())
    assert list(other.state().files)[-1] == "/w/999.py"


def test_how_things_stand_is_not_written_in_the_event_loop(folder: Path) -> None:
    for number in range(3):
        (folder / f"{number}.txt").write_text("text", encoding="utf-8")
    steps = [[use("Read", f"c{number}", path=str(folder / f"{number}.txt"))] for number in range(3)]

    async def main() -> list[str]:
        made = async_agent([*steps, "Done."], folder, name="s", tools=None)
        with counting() as called:
            assert (await made.run("Read them.")).text == "Done."
        assert len(made.assembly.state.recent.files) == 3
        kept = (made.assembly.home.folder / "state.json").read_bytes()
        assert len(msgspec.json.decode(kept, type=SavedState).files) == 3
        await made.close()
        return called

    assert "write_whole" not in asyncio.run(main())
