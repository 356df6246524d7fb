"""Every tool against what it must withstand: odd paths, files that are none, links, floods, and small windows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sevenfold.agent.executor import Consented
from sevenfold.agent.permissions.engine import Grants, Permissions
from sevenfold.agent.permissions.rules import PermissionRequest, PermissionRules
from sevenfold.agent.processes import LocalProcesses
from sevenfold.agent.standard_tools import standard_tools
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.session_tools import PlanFile, TodoList
from sevenfold.agent.tools.skills import SkillCatalog
from sevenfold.agent.tools.tool import Toolbox
from sevenfold.recall.search import Hit
from tests.tools.handling import context_in

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX files")

PATHS = {"Read": {}, "Edit": {"old": "a", "new": "b"}, "Write": {"content": "x"}}
SEARCHES = {"Grep": {"pattern": "x"}, "Glob": {"pattern": "*"}}


class Recalled:
    """Finds something long."""

    def search(self, query: str, *, kind: str | None = None, k: int = 10) -> list[Hit]:
        return [Hit(f"u{n}", "user", "", "", -1, n, 1.0, False, "words " * 2_000) for n in range(k)]

    def fetch(self, reference: str) -> bytes:
        return b"words " * 50_000


@pytest.fixture
def box(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    skill = tmp_path_factory.mktemp("skills") / "long"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\ndescription: long\n---\n" + "A rule.\n" * 20_000)
    processes = LocalProcesses(tmp_path_factory.mktemp("tasks"))
    yield Toolbox(standard_tools(processes, skills=SkillCatalog([skill.parent])))
    processes.close()


def run(box: Toolbox, context: Context, name: str, /, **sent: Any) -> ToolOutput:
    requested = box.permission_request(name, sent, context)
    if isinstance(requested, ToolOutput):
        return requested
    return box.run(name, sent, context.for_call("c", permitted=requested))


@pytest.mark.parametrize(
    "path", ["a\0b", "", "x" * 5_000, "a/" * 3_000, "\ud800", "~nobody-at-all/x", "/dev/null/x"]
)
@pytest.mark.parametrize("name", [*PATHS, *SEARCHES])
def test_what_cannot_be_a_path_is_an_error_result(
    box: Toolbox, tmp_path: Path, name: str, path: str
) -> None:
    more = PATHS.get(name) or SEARCHES.get(name) or {}
    output = run(box, context_in(tmp_path), name, path=path, **more)
    # A search without a path looks in the working directory.
    assert output.is_error or (name in SEARCHES and not path)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(
    "path", ["../outside.txt", "a/../../outside.txt", "link/outside.txt", "{real}/outside.txt"]
)
def test_a_path_out_of_the_workspace_is_wished_for_by_where_it_leads(
    box: Toolbox, tmp_path: Path, name: str, path: str
) -> None:
    work = tmp_path / "work"
    (work / "a").mkdir(parents=True)
    (work / "link").symlink_to(tmp_path)
    outside = tmp_path / "outside.txt"
    outside.write_text("a secret\n")
    requested = box.permission_request(
        name, {"path": path.format(real=tmp_path), **PATHS[name]}, context_in(work)
    )
    assert isinstance(requested, PermissionRequest)
    assert requested.subject == str(outside.resolve())
    for mode in ("ask", "accept_edits", "plan", "autonomous"):
        permissions = Permissions(
            workspace=str(work), mode=mode, rules=PermissionRules(), home=str(tmp_path / "home")
        )
        assert permissions.decide(requested).verdict != "allow"


def test_a_pipe_a_device_and_a_socket_hold_no_tool_up(box: Toolbox, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    context = context_in(tmp_path)
    for path in ("pipe", "/dev/zero", "/dev/tty", "/dev/stdin"):
        for name, more in PATHS.items():
            assert run(box, context, name, path=path, **more).is_error, (name, path)
    for name, more in SEARCHES.items():
        assert not run(box, context, name, path=".", **more).is_error


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/1/environ", "/proc/kmsg", "/proc", "/sys/kernel", "link"]
)
def test_what_the_system_makes_up_is_no_file(
    box: Toolbox, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("/proc/self/environ")
    monkeypatch.setenv("OPENAI_API_KEY", "the-key-itself")
    for name, more in {"Read": {}, "Grep": {"pattern": "KEY", "show": "lines"}}.items():
        output = run(box, context_in(tmp_path), name, path=path, **more)
        assert output.is_error
        assert "the-key-itself" not in str(output.content)


def test_a_folder_swapped_for_a_link_after_permission_leads_nowhere(box: Toolbox, tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "a.txt").write_text("a secret\n")
    (work / "sub" / "a.txt").write_text("a\n")
    context = context_in(work)
    run(box, context, "Read", path="sub/a.txt")
    for name, more in PATHS.items():
        sent = {"path": "sub/a.txt", **more}
        requested = box.permission_request(name, sent, context)
        assert isinstance(requested, PermissionRequest)
        (work / "sub").rename(work / "kept")
        (work / "sub").symlink_to(outside)
        output = box.run(name, sent, context.for_call("c", permitted=requested))
        assert output.is_error
        assert "secret" not in str(output.content)
        assert (outside / "a.txt").read_text() == "a secret\n"
        (work / "sub").unlink()
        (work / "kept").rename(work / "sub")


@pytest.mark.parametrize("room", [1_000, 4_000, 48_000])
def test_no_result_has_more_than_its_room(box: Toolbox, tmp_path: Path, room: int) -> None:
    (tmp_path / "wide.txt").write_text("needle " * 30_000)
    (tmp_path / "long.txt").write_text("needle\n" * 30_000)
    for number in range(300):
        (tmp_path / f"{'f' * 100}{number}.txt").write_text("needle\n")
    context = context_in(tmp_path, room=room, recall=Recalled())
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"path": "wide.txt"}),
        ("Read", {"path": "long.txt", "limit": 2_000}),
        ("Grep", {"pattern": "needle", "show": "lines", "limit": 5_000}),
        ("Grep", {"pattern": "needle", "limit": 5_000}),
        ("Glob", {"pattern": "*.txt"}),
        ("Recall", {"query": "words", "limit": 30}),
        ("Recall", {"record": "u1"}),
        ("Skill", {"skill": "long"}),
        ("Shell", {"command": "yes needle | head -c 300000", "background": True}),
        ("ShellOutput", {"task": "task-1", "wait": 30.0}),
    ]
    for name, sent in calls:
        output = run(box, context, name, **sent)
        assert not output.is_error, (name, output.content)
        assert len(str(output.content)) <= room + 500, (name, len(str(output.content)))


STRANGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_tool_is_brought_down_by_any_input(box: Toolbox, tmp_path: Path, data: st.DataObject) -> None:
    """Inputs that fit the schema by name and not by sense; nothing that would run or fetch anything."""
    context = context_in(
        tmp_path,
        todos=TodoList(),
        plans=PlanFile(
            tmp_path / "plan.md",
            Grants(Permissions(workspace="/ws")),
            lambda plan: Consented(True),
        ),
    )
    for tool in box:
        if tool.name in ("Shell", "WebFetch", "PlanReady"):
            continue
        names = list(tool.schema.get("properties", {}))
        sent = {name: data.draw(STRANGE) for name in names}
        output = run(box, context, tool.name, **sent)
        assert isinstance(output, ToolOutput)
