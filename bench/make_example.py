"""Writes the example session that comes with the package: `python bench/make_example.py`.

Everything in it is invented: a coding agent works on the code of a tide display. The session is defined at the
end of this file; its texts come from small generators with a fixed seed, so that the file is the same on
every run. Usage is derived from the content as on a server: a rough tokenizer counts each prompt (not
Sevenfold's estimator, which is checked against it), and a prompt cache with a lifetime of one hour decides
what is read and what is written.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

TARGET = Path(__file__).resolve().parent.parent / "src/sevenfold/lab/examples/coding-session.jsonl"
ROOT = "/home/mira/tidemark"
CLEARED = "[Old tool result content cleared]"
WORDS = json.loads("""{
  "nouns": ["tide", "gauge", "station", "harbour", "reading", "level", "datum", "forecast", "sample",
            "offset", "clock", "chart", "buoy", "sensor", "record", "series", "batch", "calendar"],
  "verbs": ["load", "parse", "merge", "trim", "shift", "scale", "align", "fold", "render", "publish"],
  "reasons": ["the sensor reports in local time", "the feed repeats its last line",
              "midnight belongs to the next day", "a gap may be longer than one tide"]}""")
FUNCTIONS = [
    """    if not {a}s:
        return []
    newest = max(item.at for item in {a}s)
    return [item for item in {a}s if newest - item.at < timedelta(hours={n})]
""",
    """    total = sum(item.{b} for item in {a}s)
    log.debug("%s {a}s, {b} %.2f", len({a}s), total)
    return [item._replace({b}=item.{b} / max(total, 0.0{n})) for item in {a}s]
""",
    """    day = clock.today()
    path = folder / f"{{day:%Y-%m-%d}}.{a}.json"
    if path.exists():
        return decode(path.read_text())
    return fetch_{b}(day, retries={n})
""",
]
FAILURE = """____________ test_{name}_at_midnight ____________
    def test_{name}_at_midnight():
        clock = FixedClock("2026-03-14T00:04:00+01:00")
>       assert panel(clock).level == {low}
E       assert {high} == {low}
tests/test_{name}.py:{line}: AssertionError
"""
SUMMARY = """This session is being continued from an earlier conversation. Summary of that part:

1. Request: the harbour display showed yesterday's tide for an hour after midnight; later a CSV export.
2. Cause: the date was taken in UTC. The station's zone is now passed to panel, clock, calendar and feed.
3. Files changed: those four, alerts.py, export_0.py to export_3.py, three test files, README.md.
4. State: 232 tests pass. Next: rewrite docs/time.md; check the change to summer time.

"""
_PIECES = re.compile(r" ?[a-z]{1,6}|[A-Z][a-z]{0,4}|\d{1,2}|\n[ \t]*|[^\w\s]|\s|_")

Call = tuple[str, dict[str, Any], str]
"""A tool, its input, and the result it will give."""


def tokens(text: str) -> int:
    return len(_PIECES.findall(text))


def numbered(text: str) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(text.splitlines(), 1))


# -- generated project files -------------------------------------------------------------------------


class Author:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def one(self, kind: str) -> str:
        return str(self.chance.choice(WORDS[kind]))

    def name(self) -> str:
        return f"{self.one('verbs')}_{self.one('nouns')}"

    def module(self, functions: int) -> str:
        head = f'"""Each {self.one("nouns")} of the harbour display."""\n\nfrom tidemark.log import log\n'
        return "\n\n".join([head, *(self.function() for _ in range(functions))])

    def function(self) -> str:
        a, b, n = self.one("nouns"), self.one("nouns"), self.chance.randint(2, 96)
        doc = f"{self.one('verbs').capitalize()} every {a} of a station; {self.one('reasons')}."
        body = self.chance.choice(FUNCTIONS).format(a=a, b=b, n=n)
        return f'def {self.name()}({a}s, clock, folder):\n    """{doc}"""\n{body}'

    def prose(self, sentences: int) -> str:
        return " ".join(
            f"The {self.one('nouns')} must {self.one('verbs')} the {self.one('nouns')} before the "
            f"{self.one('nouns')} is shown, because {self.one('reasons')}."
            for _ in range(sentences)
        )

    def test_run(self, passed: int, failed: int) -> str:
        lines = [f"collected {passed + failed} items\n"]
        lines += [f"tests/test_{self.name()}.py ........   [{row:3d}%]" for row in range(0, 100, 4)]
        for _ in range(failed):
            line = self.chance.randint(10, 400)
            lines.append(FAILURE.format(name=self.name(), low=line / 100, high=line / 100 + 1.5, line=line))
        return "\n".join([*lines, f"==== {failed} failed, {passed} passed in {passed / 40:.2f}s ===="])

    def matches(self, number: int) -> str:
        return "\n".join(
            f"{ROOT}/tidemark/{self.one('nouns')}.py:{self.chance.randint(1, 300)}:    {self.name()}(clock)"
            for _ in range(number)
        )


# -- a client that writes a transcript, with the usage that a server would report -----------------------


@dataclass
class Block:
    content: dict[str, Any]
    size: int


@dataclass
class Lane:
    """A conversation: the blocks of its prompt, and how much of it is in the cache."""

    system: int
    agent: str = ""
    blocks: list[Block] = field(default_factory=list)
    cached: int = 0
    cached_at: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    parent: str | None = None

    @property
    def prompt(self) -> int:
        return self.system + sum(block.size for block in self.blocks)


class Recorder:
    def __init__(self) -> None:
        self.author, self.chance = Author(2026), random.Random(7)
        self.lines: list[str] = []
        self.now = datetime(2026, 3, 14, 8, 2, 11, tzinfo=UTC)
        self.main = self.lane = Lane(17_320)
        self.miss = ""
        """Why the next request will miss the cache; empty if it will not."""

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def write(self, kind: str, **fields: Any) -> None:
        uuid = str(UUID(int=self.chance.getrandbits(128), version=4))
        record = {
            "parentUuid": self.lane.parent,
            "isSidechain": bool(self.lane.agent),
            "type": kind,
            **({"agentId": self.lane.agent} if self.lane.agent else {}),
            **fields,
            "uuid": uuid,
            "timestamp": self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "cwd": ROOT,
            "sessionId": "5e7f01d0-0000-4000-8000-71de3a4c0001",
            "version": "0.1.0",
        }
        self.lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")))
        self.lane.parent = uuid

    def say(self, content: dict[str, Any], size: int) -> None:
        self.lane.blocks.append(Block(content, size))

    def user(self, text: str, **fields: Any) -> None:
        self.write("user", **fields, message={"role": "user", "content": text})
        self.say({"type": "text", "text": text}, tokens(text) + 4)

    def reminder(self, text: str) -> None:
        self.write("attachment", attachment={"type": "task_reminder", "content": text, "itemCount": 3})
        self.say({"type": "text", "text": text}, tokens(text) + 20)

    def answer(self, text: str = "", *calls: tuple[str, dict[str, Any]], thought: int = 0) -> list[str]:
        """Write one response of the model with thinking, text and tool calls; return the ids of the calls."""
        self.wait(self.chance.uniform(3, 14) + thought / 60)
        blocks = []
        if thought:
            sealed = "".join(
                self.chance.choices("ABCDEFGHabcdefgh0123456789+/", k=int(3.5 * (thought + 80)))
            )
            blocks.append(Block({"type": "thinking", "thinking": "", "signature": sealed}, thought))
        if text:
            blocks.append(Block({"type": "text", "text": text}, tokens(text) + 3))
        for name, given in calls:
            call = f"toolu_{self.chance.getrandbits(96):024x}"
            content = {"type": "tool_use", "id": call, "name": name, "input": given}
            blocks.append(Block(content, tokens(name + json.dumps(given)) + 30))
        message = {
            "id": f"msg_{self.chance.getrandbits(96):024x}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "content": [block.content for block in blocks],
            "stop_reason": "tool_use" if calls else "end_turn",
            "diagnostics": {"cache_miss_reason": {"type": self.miss}} if self.miss else None,
            "usage": self.usage(sum(block.size for block in blocks)),
        }
        self.write("assistant", message=message)
        self.lane.blocks += blocks
        return [block.content["id"] for block in blocks if block.content["type"] == "tool_use"]

    def usage(self, output: int) -> dict[str, Any]:
        """Return the usage a server would report for the current prompt; a sub-agent's cache lives five minutes."""
        lane, fresh = self.lane, 3
        lifetime = timedelta(minutes=5 if lane.agent else 60)
        warm = self.now - lane.cached_at < lifetime and not self.miss
        read = min(lane.cached, lane.prompt) if warm else 0
        written = lane.prompt - read - fresh
        lane.cached, lane.cached_at, self.miss = lane.prompt - fresh, self.now, ""
        short = written if lane.agent else 0
        return {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": short,
                "ephemeral_1h_input_tokens": written - short,
            },
            "output_tokens": output,
        }

    def result(self, call: str, text: str) -> None:
        self.wait(self.chance.uniform(0.2, 2.5))
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        self.write("user", message={"role": "user", "content": [block]})
        self.say(block, tokens(text) + 12)

    def use(self, text: str, *calls: Call, thought: int = 0) -> None:
        """Write a response that calls tools, and their results."""
        ids = self.answer(text, *[(name, given) for name, given, _ in calls], thought=thought)
        for call, (_, _, result) in zip(ids, calls, strict=True):
            self.result(call, result)

    def clear(self, keep: int) -> None:
        """Clear all results but the newest ``keep``; the cache stays valid up to the first cleared one."""
        results = [block for block in self.lane.blocks if block.content["type"] == "tool_result"]
        old = [block for block in results[:-keep] if block.size > 60]
        about = {
            "trigger": "auto",
            "preTokens": self.lane.prompt,
            "tokensSaved": sum(block.size for block in old),
            "compactedToolIds": [block.content["tool_use_id"] for block in old],
            "clearedAttachmentUUIDs": [],
        }
        for block in old:
            block.size = tokens(CLEARED) + 12
        first = self.lane.blocks.index(old[0])
        self.lane.cached = self.lane.system + sum(block.size for block in self.lane.blocks[:first])
        self.write("system", subtype="microcompact_boundary", isMeta=False, microcompactMetadata=about)

    def compact(self, summary: str) -> None:
        about = {"trigger": "manual", "preTokens": self.lane.prompt}
        behind, self.lane.parent = self.lane.parent, None
        fields = {"logicalParentUuid": behind, "isMeta": False, "compactMetadata": about}
        self.write("system", subtype="compact_boundary", **fields)
        self.lane.blocks, self.lane.cached = [], self.lane.system
        self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)


# -- the session ---------------------------------------------------------------------------------------


class Story:
    def __init__(self) -> None:
        self.session = Recorder()
        self.author = self.session.author
        names = ("panel", "clock", "feed", "codec", "station", "forecast", "calendar", "alerts", "store")
        self.files = {
            f"tidemark/{name}.py": self.author.module(9 + number % 4 * 6)
            for number, name in enumerate(names)
        }
        self.files |= {f"tests/test_{name}.py": self.author.module(9) for name in names[:6]}
        self.files["README.md"] = "\n\n\n".join(["# Tidemark", *(self.author.prose(3) for _ in range(8))])
        self.files["docs/time.md"] = "\n\n\n".join(["# Time", *(self.author.prose(4) for _ in range(9))])

    def read(self, path: str) -> Call:
        return "Read", {"file_path": f"{ROOT}/{path}"}, numbered(self.files[path])

    def grep(self, pattern: str, found: int) -> Call:
        given = {"pattern": pattern, "path": ROOT, "output_mode": "content"}
        return "Grep", given, self.author.matches(found)

    def pytest(self, passed: int, failed: int) -> Call:
        given = {"command": "python -m pytest -q", "description": "Run the tests"}
        return "Bash", given, self.author.test_run(passed, failed)

    def edit(self, path: str) -> Call:
        old = self.author.chance.choice(self.files[path].split("\n\n")[1:])
        new = f"{old.replace('today()', 'local_day(zone)').rstrip()}  # {self.author.one('reasons')}\n"
        self.files[path] = self.files[path].replace(old, new)
        given = {"file_path": f"{ROOT}/{path}", "old_string": old, "new_string": new}
        return "Edit", given, f"The file {ROOT}/{path} has been updated.\n{numbered(new)}"

    def find_the_fault(self) -> None:
        use = self.session.use
        fault = "After midnight the harbour display still shows yesterday's tide for about an hour."
        self.session.user(f"{fault} Find out why and fix it, with a test. The stations are in three zones.")
        listing = ("Glob", {"pattern": "**/*", "path": ROOT}, "\n".join(sorted(self.files)))
        use("I'll get an overview of the project first.", listing, self.read("README.md"), thought=260)
        likely = [self.read(f"tidemark/{name}.py") for name in ("panel", "clock", "feed")]
        use("The display, the clock and the feed are the likely places.", *likely, thought=180)
        use("", self.grep(r"today\(\)", 24), self.grep("midnight", 9))
        use("", self.read("docs/time.md"), self.read("tidemark/calendar.py"), thought=420)
        use("Running the tests to see where we stand.", self.pytest(212, 0))
        self.delegate()
        for name in ("station", "forecast", "store"):
            use("", self.read(f"tidemark/{name}.py"), self.grep(f"{name}\\.", 14))
        use("A test that shows the fault first.", self.edit("tests/test_panel.py"), thought=350)
        use("", self.pytest(211, 3))

    def delegate(self) -> None:
        task = "List every place that asks for today's date, with the time zone it believes to be in."
        given = {"description": "Find date look-ups", "prompt": task, "subagent_type": "explore"}
        (call,) = self.session.answer("A sub-agent can list all date look-ups meanwhile.", ("Task", given))
        self.session.lane = Lane(6_140, agent="a7d31c")
        self.session.user(task)
        self.session.use("", self.grep(r"date\.today|today\(", 31), self.grep("timezone", 18))
        for name in ("codec", "alerts", "feed"):
            self.session.use("", self.read(f"tidemark/{name}.py"))
        self.session.answer(found := f"Four places ask for the date without a zone. {self.author.prose(5)}")
        self.session.lane = self.session.main
        self.session.result(call, found)

    def fix_it(self) -> None:
        use = self.session.use
        for name in ("panel", "clock", "calendar", "feed", "alerts"):
            path = f"tidemark/{name}.py"
            use("", self.read(path), thought=140 if name == "clock" else 0)
            use(f"Passing the station's zone through `{name}`.", self.edit(path))
            use("", self.pytest(208, 2))
        self.session.reminder("Open: zone for the alerts; test the change to summer time; docs/time.md.")
        # A repeated read: the file has not changed since it was read before.
        use("Checking the store once more.", self.read("tidemark/store.py"), thought=90)
        use("", self.read("tests/test_clock.py"), self.read("tests/test_feed.py"))
        use("", self.edit("tests/test_clock.py"), thought=300)
        use("", self.pytest(214, 0))
        self.session.answer(
            "The display asked for the date in UTC while the feed had already turned to the station's day. "
            "The station's zone is now passed on, and a test covers the hour after midnight."
        )

    def export(self) -> None:
        use = self.session.use
        self.session.wait(4_260)
        self.session.user("Good. Now add a CSV export of the forecast, one file for each station.")
        for name in ("forecast", "codec", "station", "calendar"):
            use("", self.read(f"tidemark/{name}.py"), thought=110 if name == "codec" else 0)
        self.session.clear(keep=5)
        for number in range(4):
            path, code = f"tidemark/export_{number}.py", self.author.module(4 + number)
            given = {"file_path": f"{ROOT}/{path}", "content": code}
            use("", ("Write", given, f"File created: {ROOT}/{path}"))
            use("", self.pytest(214 + 6 * number, number % 2), thought=160)
            use("", self.edit("tests/test_forecast.py"))
        self.session.miss = "tools_changed"
        rows = [{"station": self.author.one("nouns"), "level": number / 8} for number in range(60)]
        opened = ("mcp__sheets__open", {"path": f"{ROOT}/out/forecast.csv"}, json.dumps(rows))
        use("The spreadsheet server is connected now, so the files can be opened as a check.", opened)
        for name in ("station", "alerts"):
            use("", self.read(f"tidemark/{name}.py"), self.edit("README.md"))
        self.session.answer(f"The export is in place, with tests. {self.author.prose(2)}")

    def finish(self) -> None:
        use = self.session.use
        self.session.compact(SUMMARY + self.author.prose(14))
        self.session.user("Now bring docs/time.md up to date and check the change to summer time.")
        use("", self.read("docs/time.md"), self.read("tidemark/clock.py"), thought=240)
        for _ in range(3):
            use("", self.edit("docs/time.md"), thought=80)
            use("", self.pytest(232, 1))
            use("", self.edit("tidemark/clock.py"), self.grep("local_day", 11))
        use("", self.pytest(233, 0))
        self.session.answer("docs/time.md is up to date, and summer time has a test of its own.")


def build() -> str:
    """Return the whole file."""
    story = Story()
    story.find_the_fault()
    story.fix_it()
    story.export()
    story.finish()
    return "\n".join(story.session.lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")
