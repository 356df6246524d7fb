"""Small sessions to search."""

from __future__ import annotations

from typing import Any

from sevenfold.recall.index import RecallIndex
from sevenfold.record import entries
from sevenfold.stores.memory import MemoryLog
from tests.support import Story, call, result


def harbour() -> Story:
    """A session about a harbour display."""
    story = Story()
    story.user("After midnight the harbour display shows yesterday's tide.", uuid="ask")
    story.assistant(
        "I look at the date first.", call("t1", "Grep", pattern="date.today()", path="src/"), uuid="look"
    )
    story.user(
        [result("t1", "src/tidemark/clock_face.py:41: day = date.today()  # --local-zone")], uuid="found"
    )
    story.assistant("The day is taken in UTC.", uuid="cause")
    story.user("Never touch generated files under build/, please.", uuid="rule")
    story.assistant(call("t2", "Bash", command="pytest -q tests/test_panel.py --maxfail=1"), uuid="run")
    story.user(
        [result("t2", "E   TypeError: getLocalDay() missing 1 argument", is_error=True)], uuid="failed"
    )
    story.assistant(
        call("t3", "Edit", file_path="src/panel.py", new_string="zone = station.zone"), uuid="fix"
    )
    story.user([result("t3", "The file has been updated.")], uuid="fixed")
    story.assistant("港の表示は現在正しい時刻を示します。", uuid="cjk")
    return story


def indexed(story: Story, **how: Any) -> RecallIndex:
    index = RecallIndex(MemoryLog(story.lines), **how)
    index.catch_up()
    return index


def read(story: Story) -> list[tuple[int, entries.Entry]]:
    """The entries of a session with their places."""
    return [(offset, entries.read(line)) for offset, line in MemoryLog(story.lines).read()]
