"""The inspector with much to show: a session of 100,000 records, and a list of 500 sessions.

Beside every time stands the time of the processor that the server and the page took for it: where others use the
machine, too, that tells what is the inspector's own.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from bench.inspecting import ALL_READ, Machine, browser, machine, record

ROWS = "table.sessions tbody tr a"
MEMORY_PAGE = "() => document.querySelector('h1')?.textContent === 'What is remembered'"
LAST_DRAWN = "n => document.querySelector('#context-chart')?.uplot?.data[0].at(-1) === n"


class Spent(Struct, frozen=True):
    """Seconds that something took."""

    passed: float = 0.0
    server: float = 0.0
    """Of the processor, by the server."""
    page: float = 0.0
    """Of the processor, by the page's own thread."""

    def __str__(self) -> str:
        return f"{self.passed:.2f} ({self.server:.2f} of the processor by the server, {self.page:.2f} by the page)"


class Watch:
    """Measures what a page and its server take."""

    def __init__(self, page: Any, served: Machine) -> None:
        self._page = page
        self._served = served
        self._tools = page.context.new_cdp_session(page)
        self._tools.send("Performance.enable")

    def spent(self, act: Callable[[], None], *, rest: int = 0) -> Spent:
        """Do something; what is done within ``rest`` milliseconds afterwards counts as work, not as time."""
        server = self._served.processor_seconds()
        page = self._page_seconds()
        began = time.monotonic()
        act()
        passed = time.monotonic() - began
        self._page.wait_for_timeout(rest)
        return Spent(passed, self._served.processor_seconds() - server, self._page_seconds() - page)

    def _page_seconds(self) -> float:
        metrics = self._tools.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


class LargeSession(Struct):
    """What a long session takes."""

    megabytes: float = 0.0
    reading: Spent = Spent()
    """Until its page is there, the first time."""
    opening: Spent = Spent()
    """Until its chart is drawn, once it was read."""
    appends: list[Spent] = []
    """From a line to the page."""
    memory: float = 0.0
    """Megabytes of the server at its largest."""

    @property
    def appended(self) -> float:
        """Seconds from a line to the page, which 95 of 100 stay below."""
        times = sorted(spent.passed for spent in self.appends)
        return times[int(0.95 * len(times)) - 1]

    @property
    def work(self) -> float:
        """Seconds of the processor for a line, on average."""
        return sum(spent.server + spent.page for spent in self.appends) / len(self.appends)


def large(requests: int = 50_000, appends: int = 20) -> LargeSession:
    """Open a session of twice as many records as ``requests`` in the browser, and append to it."""
    measured = LargeSession()
    chance = random.Random(3)
    with machine() as served, browser() as page:
        path = served.claude / "large.jsonl"
        with path.open("wb") as log:
            for number in range(requests):
                log.write(_long_record(number, chance))
        measured.megabytes = path.stat().st_size / 1e6
        served.start()
        page.goto(served.address)
        page.wait_for_selector(ROWS, timeout=120_000)
        address = page.get_attribute(ROWS, "href")
        watch = Watch(page, served)

        def open_session() -> None:
            page.evaluate("address => { location.hash = address }", address)
            page.wait_for_selector("#context-chart canvas", timeout=240_000)

        for attempt in ("reading", "opening"):
            page.evaluate("location.hash = '#/memory'")
            page.wait_for_function(MEMORY_PAGE)
            setattr(measured, attempt, watch.spent(open_session))
        for number in range(requests, requests + appends):

            def append(number: int = number) -> None:
                with path.open("ab") as log:
                    log.write(_long_record(number, chance))
                page.wait_for_function(LAST_DRAWN, arg=number + 1, polling=10, timeout=30_000)

            measured.appends.append(watch.spent(append, rest=chance.randrange(50, 300)))
        measured.memory = served.peak_memory()
    return measured


def _long_record(number: int, chance: random.Random) -> bytes:
    """A request with the result of a tool and its answer, without a compaction ever."""
    lines = []
    for raw in record(number).splitlines():
        line = json.loads(raw)
        if line["type"] == "user" and number:
            output = "a line of output " * chance.randrange(5, 80)
            line["message"]["content"] = [
                {"type": "tool_result", "tool_use_id": f"t{number - 1}", "content": output}
            ]
        elif line["type"] == "assistant":
            line["message"]["usage"]["cache_read_input_tokens"] = 1000 + number % 900 * 200
            tool = chance.choice(["Bash", "Read", "Edit", "Grep"])
            given = {"file_path": f"/projects/harbour/file{chance.randrange(400)}.py"}
            call = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": given}
            line["message"]["content"] = [{"type": "text", "text": "I look at it. " * 4}, call]
        lines.append(json.dumps(line).encode() + b"\n")
    return b"".join(lines)


class LongList(Struct):
    """What a list of many sessions takes, once their summaries are kept."""

    going_back: Spent = Spent()
    """From another page of the inspector to the list."""
    loading: Spent = Spent()
    """Until a page that was just opened has the list."""


def many(files: int = 500) -> LongList:
    """Show a list of many sessions."""
    measured = LongList()
    with machine() as served, browser() as page:
        for number in range(files):
            served.add(
                b"".join(record(part) for part in range(6)).replace(b'"m', b'"%d-m' % number), f"s{number}"
            )
        served.start()
        page.goto(served.address)
        page.wait_for_selector(ROWS, timeout=240_000)
        page.wait_for_function(ALL_READ, timeout=240_000, polling=500)
        watch = Watch(page, served)

        def go_back() -> None:
            page.evaluate("location.hash = '#/'")
            page.wait_for_selector(ROWS)

        def load() -> None:
            page.reload()
            page.wait_for_selector(ROWS)

        page.evaluate("location.hash = '#/memory'")
        page.wait_for_function(MEMORY_PAGE)
        measured.going_back = watch.spent(go_back)
        measured.loading = watch.spent(load)
    return measured
