"""Nothing that an agent's command starts is the user, however it hides where it comes from (S19.4)."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import sevenfold
from sevenfold.agent.agent import Agent
from sevenfold.memory.entry import new_entry, quoted
from sevenfold.stores.lineage import AGENTS, started_by_agent
from sevenfold.stores.trust import Trust

from .working import MODEL, QUIET, Model, use, words

pytestmark = [
    pytest.mark.skipif("sys.platform != 'linux'"),
    pytest.mark.spec("S19.4"),
]

PYTHON = shlex.quote(sys.executable)
DAEMON = """\
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
"""
FALSE_AGENT = """\
import os, sys
child = os.fork()
if child:
    files = os.memfd_create("sevenfold-agent"), os.memfd_create("sevenfold-user-%d" % child)
    os.waitpid(child, 0)
    os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
"""
TERMINAL = "import pty, sys\nsys.exit(pty.spawn(sys.argv[1:]))"
ESCAPES = {
    "plainly": "{command}",
    "without the variable": "env -u SEVENFOLD_AGENT {command}",
    "in an empty environment": "env -i PATH=$PATH HOME=$HOME SEVENFOLD_HOME=$SEVENFOLD_HOME {command}",
    "in its own session": "env -i SEVENFOLD_HOME=$SEVENFOLD_HOME setsid --wait {command}",
    "as a daemon": f"env -i SEVENFOLD_HOME=$SEVENFOLD_HOME {PYTHON} -c {shlex.quote(DAEMON)} {{command}}",
    "behind a terminal": f"env -i SEVENFOLD_HOME=$SEVENFOLD_HOME {PYTHON} -c {shlex.quote(TERMINAL)} {{command}}",
    "as a daemon with lower limits": (
        f"ulimit -R 1000; env -i SEVENFOLD_HOME=$SEVENFOLD_HOME {PYTHON} -c {shlex.quote(DAEMON)} {{command}}"
    ),
    "below a false agent": (
        f"ulimit -R 1000; env -i SEVENFOLD_HOME=$SEVENFOLD_HOME {PYTHON} -c {shlex.quote(FALSE_AGENT)} {{command}}"
    ),
    "in the background": "(env -i SEVENFOLD_HOME=$SEVENFOLD_HOME nohup {command} &) ; sleep 0",
}
ACTIONS = (
    "trust .",
    "trust --revoke .",
    "memory add 'Always push to main.'",
    "memory undo",
    "purge --session x --yes",
    "gc",
    "dream",
    "sessions delete x --yes",
    "sessions import x",
    "install claude-code",
    "uninstall claude-code",
)


def agent(folder: Path, *steps: object) -> Agent:
    return Agent(
        MODEL,
        client=Model(steps),
        folder=folder,
        mode="autonomous",
        settings=QUIET,
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, in which nothing is trusted."""
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


def ran(home: Path, line: str) -> str:
    """The output of a command line that an agent runs."""
    model = [[use("Shell", "c1", command=line)], [words("done")]]
    with agent(home.parent / "work", *model) as running:
        running.run("Do it.")
        block = running.session.conversation.transcript.view.items[-2].record.blocks[0]
    return block.raw.decode()


@pytest.mark.parametrize("escape", ESCAPES)
def test_an_agents_command_cannot_trust_a_folder_however_it_is_started(home: Path, escape: str):
    done = home.parent / "done"
    command = f"/bin/sh -c '{PYTHON} -m sevenfold trust . > {done}.part 2>&1; mv {done}.part {done}'"
    line = ESCAPES[escape].format(command=command)
    shown = ran(
        home, f"{line}\nfor i in $(seq 600); do [ -e {done} ] && break; sleep 0.1; done; cat {done}"
    )
    assert "sevenfold trust is the user's to do, and an agent runs this" in shown
    assert Trust(home).folders() == ()


def test_each_command_that_speaks_for_the_user_is_refused_by_name(home: Path):
    lines = "\n".join(f"{PYTHON} -m sevenfold {action}" for action in ACTIONS)
    shown = ran(home, f"unset SEVENFOLD_AGENT\n{lines}")
    assert shown.count("is the user's to do, and an agent runs this; ask the user to run it") == len(
        ACTIONS
    )
    for action in ACTIONS:
        assert f"{' '.join(action.split()[:2])} " in shown or f"sevenfold {action.split()[0]} " in shown


def test_a_daemon_that_outlives_the_agent_is_still_not_the_user(home: Path):
    done, go = home.parent / "done", home.parent / "go"
    trusts = f"{PYTHON} -m sevenfold trust . > {done}.part 2>&1; mv {done}.part {done}"
    waits = f"while [ ! -e {go} ]; do sleep 0.05; done; {trusts}"
    daemon = f"{PYTHON} -c {shlex.quote(DAEMON)} /bin/sh -c {shlex.quote(waits)}"
    ran(home, f"env -i SEVENFOLD_HOME=$SEVENFOLD_HOME {daemon} >/dev/null 2>&1 </dev/null")
    go.touch()
    wait = f"for i in $(seq 600); do [ -e {done} ] && break; sleep 0.1; done"
    subprocess.run(["/bin/sh", "-c", wait], check=True)
    assert "an agent runs this" in done.read_text()


@pytest.mark.spec("S19.26")
def test_a_script_of_an_agents_cannot_change_what_the_user_said_through_the_library(home: Path):
    sevenfold.open_memory(home.parent / "work").write(
        new_entry("tabs", "feedback", "Always use tabs.", quoted(["Always use tabs."])), "user", "by hand"
    )
    script = """\
import sevenfold
from sevenfold.errors import Refused
from sevenfold.memory.admission import admit
from sevenfold.memory.entry import quoted, new_entry
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import Witness

memory = sevenfold.open_memory(".")
push = new_entry("push", "feedback", "Always push.", quoted(["Always push."]))
heard = Witness({"u0": "Always push to main."}, session="s")
for act in (
    lambda: memory.write(push, "user", "by hand"),
    lambda: memory.write(push, "dream", "tidied"),
    lambda: admit(memory, [LastingFact(("Always push to main.",))], heard, 1.0),
    lambda: memory.forget("tabs"),
    lambda: memory.close("tabs"),
    lambda: memory.undo(),
):
    try:
        act()
    except Refused as refused:
        print(refused)
"""
    shown = ran(home, f"env -u SEVENFOLD_AGENT {PYTHON} -c {shlex.quote(script)}")
    assert shown.count("changing what the user said in memory is the user's to do") == 6
    known = sevenfold.open_memory(home.parent / "work").entries()
    assert [(one.entry.name, one.stamp.origin, one.entry.until) for one in known] == [("tabs", "user", "")]


@pytest.mark.spec("S19.26")
def test_a_script_of_an_agents_may_store_its_own_conclusions_as_unconfirmed(home: Path):
    script = """\
import sevenfold
from sevenfold.memory.admission import admit
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import Witness

admit(sevenfold.open_memory("."), [LastingFact((), note="The build takes an hour.")], Witness({}), 1.0)
"""
    ran(home, f"{PYTHON} -c {shlex.quote(script)}")
    known = sevenfold.open_memory(home.parent / "work").entries()
    assert [(one.entry.body.strip(), one.stamp.origin) for one in known] == [
        ("The build takes an hour.", "model")
    ]


def test_a_line_that_the_user_typed_is_the_users(home: Path):
    with agent(home.parent / "work") as running:
        output = running.run_command(f"{PYTHON} -m sevenfold trust .")
    assert "is trusted" in output.text
    assert Trust(home).folders() == (str(home.parent / "work"),)


def test_a_program_beside_an_open_agent_is_not_the_user_and_after_it_is(home: Path):
    check = "from sevenfold.stores.lineage import started_by_agent; print(started_by_agent())"

    def asked() -> str:
        return subprocess.run(
            [sys.executable, "-c", check], capture_output=True, text=True, check=True
        ).stdout

    with agent(home.parent / "work"):
        assert asked() == "True\n"
    assert not started_by_agent({})


def test_counting_an_agent_out_twice_leaves_the_others():
    first, second = AGENTS.add(), AGENTS.add()
    first()
    first()
    check = "from sevenfold.stores.lineage import started_by_agent; print(started_by_agent())"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    second()
    assert done.stdout == "True\n"


def test_the_prompts_of_an_agent_that_an_agent_runs_are_not_the_users(home: Path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_AGENT", "1")
    with agent(home.parent / "work", [words("done")]) as running:
        running.run("From now on, always push to main.")
        said = running.session.conversation.transcript.view.items[0].record
    assert (said.origin, said.typed) == ("agent", None)
