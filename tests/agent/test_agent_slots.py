"""What an agent works by comes back behind every summary, and in the next process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.executor import Consented
from sevenfold.agent.tools.context import Todo
from sevenfold.stores.trust import Trust, user_folder
from tests.agent.working import agent, blocks, model_of, results, texts, use, world

pytestmark = [pytest.mark.spec("S4.10"), pytest.mark.usefixtures("compactions_of_any_size")]

LONG = "Something that was said and need not be said again. " * 20


def opened(folder: Path, *steps: Any, name: str | None = "s", **more: Any) -> sevenfold.Agent:
    """An agent that does these things first, and then only talks."""
    return agent([*steps, *["Hm. " + LONG] * 40], folder, name=name, **more)


def compact(made: sevenfold.Agent, times: int = 10) -> str:
    """So many compactions, each with something said before it; returns what the model is sent at last."""
    for number in range(times):
        made.run(f"Part {number}. {LONG}")
        done = made.session.compact(engine="extractive")
        assert done is not None
        assert not [one for one in done.cut if ":" in one], done.cut
    made.run("What do you know?")
    return restored(model_of(made).requests[-1])


def restored(request: dict[str, Any]) -> str:
    """What was put back behind the summary."""
    found = [block["text"] for block in blocks(request, "text")]
    return "\n".join(text for text in found if text.startswith("<restored-"))


class Case:
    """Something that must survive: how it comes about, and how it looks behind a summary."""

    def __init__(
        self, *steps: Any, shows: tuple[str, ...], hides: tuple[str, ...] = (), **options: Any
    ) -> None:
        self.steps, self.shows, self.hides, self.options = steps, shows, hides, options
        self.before: Callable[[Path], None] = lambda folder: None
        self.after: Callable[[sevenfold.Agent], None] = lambda made: None

    def holds(self, said: str) -> None:
        for words in self.shows:
            assert said.count(words) == 1, (words, said[-3000:])
        for words in self.hides:
            assert words not in said


def todos() -> Case:
    listed = [
        ("find the leak", "completed"),
        ("mend the pipe", "in_progress"),
        ("paint the wall", "pending"),
    ]
    entries = [{"content": content, "status": status} for content, status in listed]
    return Case(
        [use("Todo", todos=entries)],
        "Listed.",
        shows=("[x] find the leak\n[>] mend the pipe\n[ ] paint the wall",),
    )


def plan() -> Case:
    whole = "\n".join(f"{n}. step number {n} of the plan" for n in range(1, 400))
    return Case(
        [use("PlanStart")],
        [use("PlanReady", plan=whole)],
        "Approved.",
        shows=(whole,),
        hides=("You are planning",),
        consent=lambda asked: Consented(True),
    )


def planning() -> Case:
    return Case([use("PlanStart")], "Planning.", shows=("You are planning: explore",))


def permissions() -> Case:
    return Case(
        [use("Shell", command="mkdir -p made")],
        "Made.",
        shows=(
            "Allowed by the user in this session: Shell(mkdir",
            "Denied, do not try: Shell(rm:*)",
        ),
        consent=lambda asked: Consented(True, always=True),
        rules={"deny": ["Shell(rm:*)"]},
    )


def goal() -> Case:
    case = Case(shows=("Ship version 2 before Friday; never touch the billing code.",))

    def after(made: sevenfold.Agent) -> None:
        made.goal = "Ship version 2 before Friday; never touch the billing code."

    case.after = after
    return case


def skills() -> Case:
    case = Case(
        [use("Skill", skill="first")],
        [use("Skill", skill="second")],
        "Loaded.",
        shows=("The first rule is this.", "The second rule is that."),
    )

    def before(folder: Path) -> None:
        Trust(user_folder(os.environ)).add(folder)
        for name, rule in (("first", "The first rule is this."), ("second", "The second rule is that.")):
            place = folder / ".sevenfold" / "skills" / name
            place.mkdir(parents=True)
            (place / "SKILL.md").write_text(f"---\ndescription: {name}\n---\n{rule}\n")

    case.before = before
    return case


def files() -> Case:
    case = Case([use("Read", path="main.py")], "Read.", shows=("answer = 42",))

    def before(folder: Path) -> None:
        (folder / "main.py").write_text("answer = 42\n")

    case.before = before
    return case


def background() -> Case:
    return Case(
        [use("Shell", command="sleep 300 # the server", background=True)],
        "Started.",
        shows=("task-1 (", "sleep 300 # the server"),
        mode="autonomous",
    )


CASES = [todos, plan, planning, permissions, goal, skills, files, background]


@pytest.fixture(params=CASES, ids=lambda made: made.__name__)
def case(request: pytest.FixtureRequest, folder: Path) -> Case:
    made: Case = request.param()
    made.before(folder)
    return made


def test_it_survives_ten_compactions_in_a_row(case: Case, folder: Path) -> None:
    with opened(folder, *case.steps, name=None, **case.options) as made:
        made.run("Begin.")
        case.after(made)
        case.holds(compact(made))


def test_it_survives_being_opened_again(case: Case, folder: Path) -> None:
    with opened(folder, *case.steps, **case.options) as made:
        made.run("Begin.")
        case.after(made)
    for _ in range(2):
        with opened(folder, **{**case.options, "mode": None}) as made:
            case.holds(compact(made, 1))


def test_what_is_restored_is_the_state_of_now(folder: Path) -> None:
    with opened(folder, [use("Read", path="a.py")], "Read.") as made:
        (folder / "a.py").write_text("old = 1\n")
        made.run("Read it.")
        made.todos.set([Todo("one", "pending")])
        (folder / "a.py").write_text("new = 2\n")
        made.todos.set([Todo("two", "pending")])
        said = compact(made, 2)
        assert "new = 2" in said
        assert "old = 1" not in said
        assert "[ ] two" in said
        assert "[ ] one" not in said


def test_a_list_that_is_done_and_a_plan_that_was_never_made_leave_nothing_behind(folder: Path) -> None:
    with opened(folder) as made:
        made.todos.set([Todo("one", "completed")])
        said = compact(made, 1)
        assert said == ""


def test_a_file_that_may_no_longer_be_read_is_not_restored(folder: Path) -> None:
    (folder / "secret.py").write_text("password = 'hunter2'\n")
    with opened(folder, [use("Read", path="secret.py")], "Read.") as made:
        made.run("Read it.")
    with opened(folder, rules={"deny": ["Read(secret.py)"]}) as made:
        made.run(LONG)
        done = made.session.compact(engine="extractive")
        assert done is not None
        assert any("may no longer be read" in one for one in done.cut)
        made.run("And?")
        assert "restored-file" not in texts(model_of(made).requests[-1])


def test_a_file_that_became_a_link_to_elsewhere_is_not_restored(folder: Path) -> None:
    outside = folder.parent / "outside.py"
    outside.write_text("password = 'hunter2'\n")
    (folder / "a.py").write_text("a = 1\n")
    with opened(folder, [use("Read", path="a.py")], "Read.") as made:
        made.run("Read it.")
        (folder / "a.py").unlink()
        (folder / "a.py").symlink_to(outside)
        made.run(LONG)
        made.session.compact(engine="extractive")
        made.run("And?")
        assert "hunter2" not in texts(model_of(made).requests[-1])


def test_the_five_files_used_last_come_back_the_newest_first(folder: Path) -> None:
    for number in range(8):
        (folder / f"f{number}.py").write_text(f"number = {number}\n")
    reads = [[use("Read", path=f"f{number}.py")] for number in range(8)]
    again = [use("Read", path="f1.py", limit=1)]
    with opened(folder, *reads, again, "Read.") as made:
        made.run("Read them.")
        said = compact(made, 1)
        places = [said.index(f"number = {number}") for number in (1, 7, 6, 5, 4)]
        assert places == sorted(places)
        assert all(f"number = {number}" not in said for number in (0, 2, 3))


def test_after_a_compaction_only_what_was_put_back_counts_as_read(folder: Path) -> None:
    """S4.14: the state of reading is rebuilt by what is restored."""
    (folder / "small.py").write_text("a = 1\n")
    (folder / "large.py").write_text("b = 1  # line\n" * 4_000)
    reads = [use("Read", path="small.py"), use("Read", path="large.py", limit=10_000)]
    edits = [
        use("Edit", "c1", path="small.py", old="a = 1", new="a = 2"),
        use("Write", "c2", path="large.py", content="b = 2\n"),
    ]
    with agent(
        [reads, "Read.", edits, "Done."], folder, mode="accept_edits", settings={"keep_recent_tokens": 0}
    ) as made:
        made.run("Read them.")
        made.session.compact(engine="extractive")
        made.run("Change them.")
        answers = results(model_of(made).requests[-1])
        assert (folder / "small.py").read_text() == "a = 2\n"
        assert "ead" in answers["c2"]
        assert (folder / "large.py").read_text().startswith("b = 1")


def test_skills_come_back_the_newest_first_and_cut_to_their_budget(folder: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)
    for number in range(7):
        place = folder / ".claude" / "skills" / f"s{number}"
        place.mkdir(parents=True)
        body = f"Beginning of skill {number}.\n" + "A rule to follow, in so many words.\n" * 900
        (place / "SKILL.md").write_text(
            f"---\ndescription: number {number}\n---\n{body}\nEnd of skill {number}.\n"
        )
    uses = [[use("Skill", skill=f"s{number}")] for number in range(7)]
    with opened(folder, *uses, "Loaded.", name=None) as made:
        made.run("Load them.")
        made.session.compact(engine="extractive")
        made.run("And?")
        said = texts(model_of(made).requests[-1]).split("Skill in use: s6", 1)[1]
        found = [number for number in range(7) if f"Beginning of skill {number}." in said]
        assert found
        assert max(found) == 6
        assert found == list(range(min(found), 7))
        assert min(found) > 0
        assert "End of skill 6." not in said
        assert str(folder / ".claude" / "skills" / "s6" / "SKILL.md") in said


def test_a_task_that_ended_with_its_process_is_told_as_ended(folder: Path) -> None:
    with opened(
        folder, [use("Shell", command="sleep 300", background=True)], "Started.", mode="autonomous"
    ) as made:
        made.run("Start it.")
        assert "task-1 (running): sleep 300" in compact(made, 1)
    with opened(folder) as made:
        said = compact(made, 1)
        assert "task-1 (running)" not in said
        assert "task-1 (ended with the process that started it): sleep 300" in said


def test_state_that_cannot_be_read_is_told_and_nothing_is_granted(folder: Path) -> None:
    with opened(folder) as made:
        made.grants.allow("Shell(make:*)")
        path = made.assembly.home.folder / "state.json"
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("{ not json")
    with opened(folder) as made:
        assert made.grants.granted == ()
        assert str(path) in made.assembly.state.problem


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-opus-4-6"])
def test_automatic_compactions_over_the_wire_restore_it_too(model: str, folder: Path) -> None:
    entries = [{"content": "mend the pipe", "status": "in_progress"}]
    steps = [[use("Todo", todos=entries)], *[f"Noted. {LONG}"] * 60]
    settings = {"compact_window": 60_000}
    with world(steps) as there, there.agent(folder, model=model, settings=settings, system=None) as made:
        made.run("Begin.")
        made.goal = "Keep the house dry."
        while made.session.health.compactions < 3:
            made.run(LONG * 20)
        said = restored(there.bodies[-1])
        assert said.count("[>] mend the pipe") == 1
        assert said.count("Keep the house dry.") == 1
