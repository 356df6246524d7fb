"""Dreams in real processes: two at once, killed in every phase and before every write, on folders of every kind
(S5.9, S7.7)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import sevenfold
from sevenfold.cli.main import main
from sevenfold.memory.consolidation import dream
from sevenfold.stores.folder import FileFolder

from .test_dream import DAY, START, fill, memory, say

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

WRITING = {"os.rename", "os.remove", "tempfile.mkstemp", "os.utime", "os.truncate"}
MOST_WRITES = 60


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def two_that_say_the_same(folder) -> None:
    held = memory(folder)
    say(held, "tabs", "Always indent Makefiles with tabs.")
    say(held, "again", "Always indent a Makefile with tabs.", START + DAY)
    say(held, "old", "The deadline is 2026-12-01.")
    say(held, "new", "The deadline is 2026-12-15.", START + DAY)


def in_child(work) -> int:
    """Do something in a process of its own; returns its exit status."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            work()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def killed_before(number: int):
    """Kill this process before its nth step that changes a file."""
    left = number

    def watch(event: str, given: tuple[object, ...]) -> None:
        nonlocal left
        writes = event in WRITING or (
            event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if writes:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


@pytest.mark.spec("S5.9", "S7.7")
def test_killed_before_any_step_a_dream_happened_as_a_whole_or_not_at_all(tmp_path):
    killed = 0
    two_that_say_the_same(FileFolder(tmp_path / "memory"))
    before = memory(FileFolder(tmp_path / "memory")).generation().entries
    for number in range(MOST_WRITES):
        place = Path(shutil.copytree(tmp_path / "memory", tmp_path / str(number)))

        def one(place=place, number=number) -> None:
            folder = FileFolder(place)
            lock = folder.dream_lock()
            killed_before(number)
            assert lock.take(time.time())
            dream(memory(folder))
            lock.finish(time.time())

        status = in_child(one)
        held, lock = memory(FileFolder(place)), FileFolder(place).dream_lock()
        now = held.generation().entries
        whole = now != before
        assert set(now) == ({"tabs.md", "old.md", "new.md"} if whole else set(before))
        assert all(held.folder.read(name) == held.entry(name).entry.render() for name in now)
        assert {change.by for change in held.changes()} <= {"user", "dream"}
        assert lock.last() is None or whole
        assert lock.take(time.time())
        lock.fail()
        assert len(dream(held).done) == (0 if whole else 1)
        if status == 0:
            break
        killed += 1
    assert status == 0, "it writes more often than was tried"
    assert killed > 10


PHASES = """
import os, signal, sys, time
import sevenfold
from sevenfold import OfflineClient, Script
from sevenfold.events import Dreaming

def listen(event):
    if isinstance(event, Dreaming) and event.phase == sys.argv[2] and event.state == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

answers = iter([[{"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}], "<same>tabs, again</same>"])
jobs = {"dream": lambda request: next(answers), "extract_memories": lambda request: "<nothing/>"}
agent = sevenfold.Agent(model="claude-sonnet-5-5", name="main", folder=sys.argv[1], listen=[listen],
                        client=OfflineClient(Script(["Fine."], jobs=jobs)))
agent.run("Hello there.")
agent.session.settle()
time.sleep(60)
"""


@pytest.mark.spec("S7.7", "S7.9")
@pytest.mark.parametrize(
    ("phase", "state", "whole"),
    [
        ("orient", "running", False),
        ("gather", "running", False),
        ("consolidate", "running", False),
        ("prune", "running", True),
        ("prune", "completed", True),
    ],
)
def test_killed_in_any_phase_the_next_process_takes_over(work, phase, state, whole):
    held = fill(work)
    for number in range(5):
        (work.parent / "home").mkdir(exist_ok=True)
        _session(work, f"s{number}")
    ended = subprocess.run([sys.executable, "-c", PHASES, str(work), phase, state], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert ("again" in {one.entry.name for one in held.entries()}) != whole
    lock = held.folder.dream_lock()
    assert (lock.last() is None) == (state == "running")
    assert lock.take(time.time() + 2 * DAY)
    lock.fail()


def _session(work, name: str) -> None:
    with sevenfold.Session.open(
        name,
        model="claude-sonnet-5-5",
        folder=work,
        client=sevenfold.OfflineClient(sevenfold.Script(["Fine."])),
    ) as one:
        one.user("Hello.")
        one.complete()


@pytest.mark.spec("S7.7")
def test_of_processes_that_dream_at_once_one_does_and_nothing_is_lost(work):
    held = fill(work)
    command = [sys.executable, "-m", "sevenfold", "dream", "--folder", str(work)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    ended = [one.communicate(timeout=60) and one.returncode for one in running]
    assert set(ended) <= {0, 2}
    assert 0 in ended
    assert [change.by for change in held.changes()].count("dream") == 1
    assert {one.entry.name for one in held.entries()} == {"tabs", "deploys", "ada"}
    lock = held.folder.dream_lock()
    assert lock.last() is not None
    assert lock.take(time.time() + 2 * DAY)


@pytest.mark.spec("S7.7")
def test_of_many_processes_one_at_a_time_holds_the_lock(tmp_path):
    two_that_say_the_same(FileFolder(tmp_path / "memory"))
    inside = tmp_path / "inside"

    def work() -> None:
        lock = FileFolder(tmp_path / "memory").dream_lock()
        for _ in range(20):
            if lock.take(time.time()):
                with inside.open("x"):
                    pass
                inside.unlink()
                lock.finish(time.time())
        os._exit(7)

    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                work()
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [7] * 4


def _without_rights(folder) -> int:
    """What a dream says in a folder that may only be read, as a user who is not root."""

    def one() -> None:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            held = memory(FileFolder(folder))
            names = {known.entry.name for known in held.entries()}
            taken = held.folder.dream_lock().take(time.time())
        except Exception as error:  # noqa: BLE001
            os._exit(3 if "permissions" in str(error) and names == {"tabs", "again", "old", "new"} else 4)
        os._exit(5 if taken else 6)

    return os.waitstatus_to_exitcode(in_child(one))


@pytest.mark.spec("S7.7")
def test_a_folder_that_may_only_be_read_is_read_and_not_dreamt_in(tmp_path):
    place = tmp_path / "memory"
    two_that_say_the_same(FileFolder(place))
    above = [one for one in tmp_path.parents if one.stat().st_uid == os.geteuid()]
    modes = {one: one.stat().st_mode for one in above}
    for path in [place, *place.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    tmp_path.chmod(0o555)
    (tmp_path / "memory.lock").chmod(0o444)
    for one in above:
        if os.geteuid() == 0 and not modes[one] & 0o001:
            one.chmod(0o755)
    try:
        assert _without_rights(place) == 3
    finally:
        for one, mode in modes.items():
            one.chmod(mode & 0o7777)
        tmp_path.chmod(0o700)
        for path in [place, *place.rglob("*")]:
            path.chmod(0o700 if path.is_dir() else 0o600)


HOSTILE = {
    "hash": b"---\nname: hash # not\ndescription: # nothing\n---\n> Keep # in names.\n",
    "colons": b"---\nname: a: b: c\ntype: user: root\n---\n> Keep : in names.\n",
    "broken": b"---\nname: [unclosed\n\tkey: {\n- - -\n---\n> Keep broken heads.\n",
    "unclosed": b"---\nname: never\n> Keep what is not closed.\n",
    "links": b"---\nname: ../../etc/passwd\n---\n> See [x](../../../etc/passwd) and [[tabs]].\n",
    "anchors": b"---\na: &a [*a, *a]\nvalid_until: not-a-day\n---\n> Keep anchors.\n",
    "bytes": b"---\nname: \xff\xfe\n---\n> Keep \xff bytes.\n",
    "empty": b"",
    "wide": b"---\nname: wide\n---\n> " + b"w" * 99_000 + b"\n",
    "huge": b"---\nname: huge\n---\n> " + b"h" * 10_000_000 + b"\n",
}


@pytest.mark.spec("S5.9")
def test_files_of_any_kind_survive_a_dream_to_the_byte(tmp_path):
    folder = FileFolder(tmp_path / "memory")
    two_that_say_the_same(folder)
    for name, content in HOSTILE.items():
        (tmp_path / f"memory/{name}.md").write_bytes(content)
    (tmp_path / "elsewhere").write_text("> Always indent Makefiles with tabs.")
    (tmp_path / "memory/link.md").symlink_to(tmp_path / "elsewhere")
    held = memory(folder)
    made = dream(held)
    assert made.done
    for name, content in HOSTILE.items():
        assert (tmp_path / f"memory/{name}.md").read_bytes() == content
    assert (tmp_path / "memory/link.md").is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "> Always indent Makefiles with tabs."
    assert "huge" not in {one.entry.name for one in held.entries()}


@pytest.mark.spec("S5.1")
def test_cleaning_up_sessions_leaves_memory_alone(work, capsys):
    fill(work)
    _session(work, "old")
    home = work.parent / "home"
    before = {path: path.read_bytes() for path in home.glob("projects/*/memory/**/*") if path.is_file()}
    long_ago = time.time() - 1_000 * DAY
    for path in home.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    left = next(home.glob("projects/*/memory/.versions")) / ".current.json.x.tmp"
    left.write_bytes(b"cut off")
    assert main(["gc", "--days", "0", "--megabytes", "0"]) == 0
    assert not left.exists()
    assert main(["sessions", "delete", "old", "--folder", str(work), "--yes"]) == 0
    assert "old" not in capsys.readouterr().err
    assert {
        path: path.read_bytes() for path in home.glob("projects/*/memory/**/*") if path.is_file()
    } == before
