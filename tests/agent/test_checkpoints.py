"""Files the agent changed can be brought back, and what the user changed is never touched unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sevenfold.agent import checkpoints as module
from sevenfold.agent.checkpoints import LARGEST_FILE, YOURS, Checkpoints, may_change
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.errors import Refused
from tests.support import PROVING

pytestmark = pytest.mark.spec("S13.1")


class Desk:
    """A workspace and its checkpoints; messages are numbers, and so are records."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "work"
        self.workspace.mkdir(parents=True)
        self.folder = folder / "kept"
        self.tip = 0
        self.ignored = "ignored"
        self.open()

    def open(self) -> None:
        self.kept = Checkpoints(self.folder, self.workspace, self.listing, lambda: str(self.tip))

    def listing(self) -> Iterator[str]:
        for path in sorted(self.workspace.rglob("*")):
            if path.is_file() and path.relative_to(self.workspace).parts[0] != self.ignored:
                yield str(path)

    def write(self, name: str, content: str | None) -> None:
        path = self.workspace / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def message(self) -> int:
        self.tip += 1
        return self.tip

    def edit(self, name: str, content: str | None) -> None:
        """The agent changes one file with a tool that names it."""
        paths = (str(self.workspace / name),)
        self.kept.begin(paths)
        self.write(name, content)
        self.kept.end(paths)

    def shell(self, **changes: str | None) -> None:
        """The agent runs a command."""
        self.kept.begin()
        for name, content in changes.items():
            self.write(name, content)
        self.kept.end()

    def plan(self, message: int) -> module.RestorePlan:
        return self.kept.plan(lambda tip: int(tip) >= message)

    def files(self) -> dict[str, str]:
        return {
            path.relative_to(self.workspace).as_posix(): path.read_text()
            for path in self.workspace.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_edits_and_what_a_command_did_are_brought_back(desk: Desk) -> None:
    for name in "abc":
        desk.write(name, f"{name} of the user")
    before = desk.files()
    message = desk.message()
    desk.edit("a", "edited")
    desk.shell(b="changed", c=None, d="new")
    plan = desk.plan(message)
    assert {file.path for file in plan.files} == set("abcd")
    assert not plan.ask
    assert "-edited" in "".join(desk.kept.difference(plan))
    assert desk.kept.restore(plan) == {}
    assert desk.files() == before


def test_going_back_to_a_later_message_keeps_what_was_done_before_it(desk: Desk) -> None:
    desk.message()
    desk.edit("a", "first")
    second = desk.message()
    desk.edit("a", "second")
    desk.kept.restore(desk.plan(second))
    assert desk.files() == {"a": "first"}


def test_what_the_user_changed_since_is_asked_about(desk: Desk) -> None:
    desk.write("a", "old")
    message = desk.message()
    desk.edit("a", "by the agent")
    desk.edit("b", "by the agent")
    desk.write("a", "by the user")
    plan = desk.plan(message)
    assert plan.ask == {"a": YOURS}
    desk.kept.restore(plan, but=plan.ask)
    assert desk.files() == {"a": "by the user"}


def test_what_the_user_changed_before_the_agent_did_stays_as_the_user_left_it(desk: Desk) -> None:
    desk.write("a", "old")
    desk.message()
    desk.edit("a", "first")
    desk.write("a", "by the user, between two messages")
    second = desk.message()
    desk.edit("a", "second")
    plan = desk.plan(second)
    assert not plan.ask
    desk.kept.restore(plan)
    assert desk.files() == {"a": "by the user, between two messages"}


def test_files_the_user_made_are_never_removed(desk: Desk) -> None:
    message = desk.message()
    desk.shell(a="by the agent")
    desk.write("mine", "by the user")
    desk.shell(a="again")
    desk.kept.restore(desk.plan(message))
    assert desk.files() == {"mine": "by the user"}


def test_a_folder_that_was_ignored_is_not_taken_for_the_agents_work(desk: Desk) -> None:
    desk.write("ignored/data", "precious")
    old = (desk.workspace / "ignored/data").stat().st_ctime_ns
    message = desk.message()
    desk.shell(a="x")
    while (made := desk.workspace / "tick").write_text(
        ""
    ) or made.stat().st_ctime_ns < old + 2 * module.CLOCK_STEP:
        pass
    made.unlink()
    desk.kept.begin()
    desk.ignored = ""
    desk.kept.end()
    desk.kept.restore(desk.plan(message))
    assert desk.files() == {"ignored/data": "precious"}


def test_a_file_that_is_too_large_is_named_with_the_reason(desk: Desk) -> None:
    desk.write("large", "x" * (LARGEST_FILE + 1))
    message = desk.message()
    desk.edit("large", "small")
    plan = desk.plan(message)
    assert plan.files == ()
    assert "2 MB" in plan.lost["large"]
    desk.message()
    desk.edit("new", "y" * (LARGEST_FILE + 1))
    assert "could not be brought back" in desk.plan(message + 1).ask["new"]


def test_a_file_with_a_secret_is_not_copied_where_secrets_must_not_go(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("key = hunter2")
    kept = Checkpoints(
        tmp_path / "kept", tmp_path, lambda: (), lambda: "1", is_secret=lambda text: "hunter2" in text
    )
    kept.begin((str(tmp_path / "a"),))
    (tmp_path / "a").write_text("key = none")
    kept.end((str(tmp_path / "a"),))
    assert kept.plan(lambda _: True).lost == {"a": "its earlier content was not kept: it holds a secret"}
    assert not any(
        b"hunter2" in path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()
    )


def test_a_call_that_was_killed_is_the_agents(desk: Desk) -> None:
    desk.write("a", "old")
    message = desk.message()
    desk.kept.begin()
    desk.write("a", "half done")
    desk.open()  # the process was killed, and another one goes on
    plan = desk.plan(message)
    assert not plan.ask
    desk.kept.restore(plan)
    assert desk.files() == {"a": "old"}


def test_a_restore_that_was_killed_is_finished(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    message = desk.message()
    for name in "abc":
        desk.edit(name, "by the agent")
    plan = desk.plan(message)
    unlink = Path.unlink
    removed: list[Path] = []

    def killed(path: Path, missing_ok: bool = False) -> None:
        if removed:
            raise KeyboardInterrupt
        removed.append(path)
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            desk.kept.restore(plan)
    assert len(desk.files()) == 2
    desk.open()
    assert desk.files() == {}


def test_a_torn_journal_loses_one_line_at_most(desk: Desk) -> None:
    message = desk.message()
    desk.edit("a", "one")
    with (desk.folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"type":"chan')
    desk.open()
    desk.edit("b", "two")
    desk.open()
    desk.kept.restore(desk.plan(message))
    assert desk.files() == {}


def test_modes_come_back_too(desk: Desk) -> None:
    desk.write("run", "#!/bin/sh\n")
    (desk.workspace / "run").chmod(0o750)
    message = desk.message()
    desk.kept.begin()
    (desk.workspace / "run").chmod(0o600)
    desk.kept.end()
    desk.kept.restore(desk.plan(message))
    assert (desk.workspace / "run").stat().st_mode & 0o777 == 0o750


def test_a_folder_that_became_a_link_out_of_the_workspace_is_not_written_through(desk: Desk) -> None:
    desk.write("docs/a", "old")
    message = desk.message()
    desk.edit("docs/a", "new")
    outside = desk.workspace.parent / "outside"
    (desk.workspace / "docs").rename(outside)
    (desk.workspace / "docs").symlink_to(outside)
    failed = desk.kept.restore(desk.plan(message))
    assert "leads out" in failed["docs/a"]
    assert (outside / "a").read_text() == "new"


def test_while_files_are_being_changed_nothing_is_brought_back(desk: Desk) -> None:
    desk.kept.begin()
    with pytest.raises(Refused, match="being changed"):
        desk.plan(0)


def test_a_folder_that_cannot_be_written_stops_no_agent(desk: Desk) -> None:
    desk.folder.write_text("a file where the folder should be")
    desk.edit("a", "x")
    assert desk.kept.problem
    assert desk.files() == {"a": "x"}


@pytest.mark.parametrize(
    ("request_", "files"),
    [
        (PermissionRequest("Read", "read", "/w/a"), ()),
        (PermissionRequest("Edit", "write", "/w/a"), ("/w/a",)),
        (PermissionRequest("Shell", "run", "cat a | wc -l && ls -la"), ()),
        (PermissionRequest("Shell", "run", "make"), None),
        (PermissionRequest("Shell", "run", "ls > out", writes=("/w/out",)), None),
        (PermissionRequest("Shell", "run", "ls $(rm x)"), None),
        (PermissionRequest("mcp__x__y", "call"), None),
    ],
)
def test_only_calls_that_may_change_files_are_looked_at(request_: PermissionRequest, files: object) -> None:
    assert may_change(request_) == files


NAMES = st.sampled_from(["a", "b", "d/c", "d/e/f"])
CONTENTS = st.one_of(st.none(), st.sampled_from(["", "1", "2", "3"]))


class Rewinding(RuleBasedStateMachine):
    """Any order of edits, commands, kills, restores and changes by the user; the model says what each file must be."""

    @initialize()
    def start(self) -> None:
        self.room = TemporaryDirectory()
        self.desk = Desk(Path(self.room.name))
        self.now: dict[str, str] = {}
        self.history: list[tuple[int, str, str, str | None]] = []
        """Message, who, file, and what it was before."""
        self.user_writes("a", "of the user")

    def teardown(self) -> None:
        if hasattr(self, "room"):
            self.room.cleanup()

    def note(self, who: str, name: str, content: str | None) -> None:
        if self.now.get(name) == content:
            return
        self.history.append((self.desk.tip, who, name, self.now.get(name)))
        if content is None:
            del self.now[name]
        else:
            self.now[name] = content

    @rule()
    def message(self) -> None:
        self.desk.message()

    @rule(name=NAMES, content=CONTENTS)
    def user_writes(self, name: str, content: str | None) -> None:
        self.desk.write(name, content)
        self.note("user", name, content)

    @rule(name=NAMES, content=CONTENTS)
    def agent_edits(self, name: str, content: str | None) -> None:
        self.desk.edit(name, content)
        self.note("agent", name, content)

    @rule(changes=st.dictionaries(NAMES, CONTENTS, max_size=3), killed=st.booleans())
    def agent_runs_a_command(self, changes: dict[str, str | None], killed: bool) -> None:
        self.desk.kept.begin()
        for name, content in changes.items():
            self.desk.write(name, content)
            self.note("agent", name, content)
        if killed:
            self.desk.open()
        else:
            self.desk.kept.end()

    @rule()
    def killed_between(self) -> None:
        self.desk.open()

    @precondition(lambda self: self.desk.tip)
    @rule(data=st.data(), everything=st.booleans())
    def rewinds(self, data: st.DataObject, everything: bool) -> None:
        self.rewind_to(data.draw(st.integers(1, self.desk.tip)), everything=everything)

    def rewind_to(self, message: int, *, everything: bool) -> None:
        plan = self.desk.plan(message)
        since = [one for one in self.history if one[0] >= message]
        then: dict[str, str | None] = {}
        touched: set[str] = set()
        for _, who, name, before in since:
            if who != "user":
                then.setdefault(name, before)
            elif name in then:
                touched.add(name)
        differing = {name for name, was in then.items() if self.now.get(name) != was}
        assert {file.path for file in plan.files} == differing
        assert set(plan.ask) <= touched
        assert self.desk.kept.restore(plan, but=() if everything else plan.ask) == {}
        for name in differing - (set() if everything else set(plan.ask)):
            self.note("rewind", name, then[name])

    @invariant()
    def files_are_as_they_should_be(self) -> None:
        if hasattr(self, "desk"):
            assert self.desk.files() == self.now


TestRewinding = Rewinding.TestCase
TestRewinding.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.spec("S13.1")
@pytest.mark.parametrize("seed", range(5 if PROVING else 1))
def test_after_a_thousand_edits_commands_rewinds_and_kills_every_file_is_as_it_should_be(seed: int) -> None:
    chance = Random(seed)
    names, contents = ("a", "b", "d/c", "d/e/f"), (None, "", "1", "2", "3")
    walk = Rewinding()
    walk.start()
    for _ in range(1_000):
        name, content, odd = chance.choice(names), chance.choice(contents), chance.random() < 0.5
        match chance.randrange(6):
            case 0:
                walk.message()
            case 1:
                walk.user_writes(name, content)
            case 2:
                walk.agent_edits(name, content)
            case 3:
                walk.agent_runs_a_command(
                    {name: content, chance.choice(names): chance.choice(contents)}, odd
                )
            case 4:
                walk.killed_between()
            case _ if walk.desk.tip:
                walk.rewind_to(chance.randint(1, walk.desk.tip), everything=odd)
        walk.files_are_as_they_should_be()
    walk.teardown()
