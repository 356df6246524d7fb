"""Shell: real commands, their output while it comes, and that they end with all they started."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from pathlib import Path

import pytest

from sevenfold.agent.processes import KEPT_AT_EACH_END, MOST_IN_A_FILE, LocalProcesses
from sevenfold.agent.tools.context import Abort
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.shell import ShellOutputTool, ShellStopTool, ShellTool
from tests.tools.handling import Hands, context_in

pytestmark = pytest.mark.skipif(os.name != "posix", reason="commands need a POSIX system")

PLENTY = 60.0


@pytest.fixture
def processes(tmp_path_factory):
    processes = LocalProcesses(tmp_path_factory.mktemp("tasks"))
    yield processes
    processes.close()


@pytest.fixture
def hands(tmp_path, processes):
    return Hands(
        context_in(tmp_path), ShellTool(processes), ShellOutputTool(processes), ShellStopTool(processes)
    )


class Witness:
    """A pipe that all processes of a command hold open: its end is theirs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "witness"
        os.mkfifo(self.path)
        self.begun = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with self.path.open("rb", buffering=0) as pipe:
            pipe.read(1)
            self.begun.set()
            pipe.read()

    def assert_all_ended(self) -> None:
        self._thread.join(PLENTY)
        assert not self._thread.is_alive(), "some process still holds the pipe"


@pytest.fixture
def witness(tmp_path):
    return Witness(tmp_path)


def test_both_outputs_come_in_the_order_they_were_written(hands):
    assert hands.good("Shell", command="echo a; echo b >&2; echo c") == "a\nb\nc"


def test_an_exit_code_is_an_error_result_that_names_it(hands):
    output = hands("Shell", command="echo no; exit 3")
    assert (output.is_error, output.content) == (True, "Exit code 3\nno")
    assert output.facts[0].code == 3


def test_silence_is_said(hands):
    assert hands.good("Shell", command="true") == "(no output)"


def test_nobody_can_be_asked(hands):
    assert hands.good("Shell", command="read x; echo got:$x") == "got:"


def test_the_working_directory_is_kept_and_nothing_else(hands, tmp_path):
    (tmp_path / "sub dir\n").mkdir()
    hands.good("Shell", command="X=1; f() { :; }; cd sub*")
    assert hands.context.desk.cwd == tmp_path.resolve() / "sub dir\n"
    assert hands.good("Shell", command="pwd; echo x$X; type f 2>&1 | head -1").splitlines()[-2] == "x"


@pytest.mark.parametrize(
    "command", ["cd sub; exit 4", "cd sub; false", "cd sub; exec true; x", "cd sub && ("]
)
def test_however_a_command_ends_there_is_a_working_directory(hands, tmp_path, command):
    (tmp_path / "sub").mkdir()
    hands("Shell", command=command)
    assert hands.good("Shell", command="pwd").splitlines()[0] in {
        str(tmp_path.resolve()),
        str(tmp_path.resolve() / "sub"),
    }


def test_a_command_cannot_lead_out_of_the_workspace_for_good(hands, tmp_path):
    assert "outside the workspace" in hands.good("Shell", command="cd /; pwd")
    assert hands.good("Shell", command="pwd") == str(tmp_path.resolve())
    (tmp_path / "out").symlink_to("/usr")
    assert "outside the workspace" in hands.good("Shell", command="cd out")


def test_a_working_directory_that_is_gone_becomes_the_workspace_again(hands, tmp_path):
    (tmp_path / "sub").mkdir()
    hands.good("Shell", command="cd sub")
    (tmp_path / "sub").rmdir()
    shown = hands.good("Shell", command="pwd")
    assert "is gone" in shown
    assert str(tmp_path.resolve()) in shown


def test_output_is_told_while_it_comes(hands, tmp_path):
    os.mkfifo(tmp_path / "gate")
    said: list[str] = []

    def listen(text: str) -> None:
        said.append(text)
        if "first" in "".join(said) and len(said) == 1:
            (tmp_path / "gate").write_text("go\n")

    hands.context = context_in(tmp_path, progress=listen)
    # The second word is only printed once somebody has heard the first.
    assert hands.good("Shell", command="echo first; cat gate > /dev/null; echo second") == "first\nsecond"
    assert "".join(said) == "first\nsecond\n"


def test_of_much_output_both_ends_are_kept(hands):
    command = "echo begin; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end"
    shown = hands.good("Shell", command=command, timeout=120)
    assert shown.startswith("begin\n")
    assert shown.endswith("end")
    assert "bytes of output left out" in shown
    assert len(shown) < 2 * KEPT_AT_EACH_END + 200


def test_endless_output_ends_with_its_time(hands):
    output = hands("Shell", command="yes", timeout=0.3)
    assert output.is_error
    assert "longer than 0.3 s" in output.content
    assert len(output.content) < 2 * KEPT_AT_EACH_END + 300


def test_output_that_is_no_text_is_shown_as_far_as_it_is(hands):
    assert hands.good("Shell", command=r"printf 'a\xffb'") == "a\ufffdb"


FOR_EVER = "import time\nwhile True: time.sleep(1000)"
IGNORES = (
    f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('!', flush=True)\n{FOR_EVER}"
)
FORKS = "if os.fork(): os._exit(0)"
LEAVES = f"import os\n{FORKS}\nos.setsid()\n{FORKS}\nprint('!', flush=True)\n{FOR_EVER}"
SPAWNS = """
import subprocess, sys
depth = int(sys.argv[1])
children = [subprocess.Popen([sys.executable, sys.argv[0], str(depth - 1)], start_new_session=True, close_fds=False)
            for _ in range(2 if depth else 0)]
print("!", flush=True)
while True: __import__("time").sleep(1000)
"""


def stopped_once_begun(hands: Hands, command: str, witness: Witness) -> ToolOutput:
    abort = Abort()
    hands.context = context_in(hands.context.workspace, abort=abort)

    def once_begun() -> None:
        witness.begun.wait(PLENTY)
        abort.set()

    stop = threading.Thread(target=once_begun)
    stop.start()
    output = hands("Shell", command=command, timeout=PLENTY)
    stop.join()
    return output


def python(folder: Path, text: str) -> str:
    script = folder / "script.py"
    script.write_text(text)
    return shlex.join([sys.executable, str(script)])


@pytest.mark.parametrize("text", [IGNORES, LEAVES], ids=["ignores the signal", "leaves the group"])
def test_a_stopped_command_ends_with_all_it_started(hands, tmp_path, witness, text):
    output = stopped_once_begun(hands, f"{python(tmp_path, text)} > witness; sleep 1000", witness)
    assert "it was stopped" in output.content
    witness.assert_all_ended()


@pytest.mark.skipif(sys.platform != "linux", reason="strays are found in /proc")
def test_a_daemon_that_sheds_its_environment_is_found_by_the_pipe_it_holds(hands, tmp_path, witness):
    script = tmp_path / "daemon.py"
    script.write_text(LEAVES)
    line = f"env -i {shlex.join([sys.executable, str(script)])} > witness; sleep 1000"
    output = stopped_once_begun(hands, line, witness)
    assert "it was stopped" in output.content
    witness.assert_all_ended()


def test_a_daemon_left_behind_by_a_command_out_of_time_is_ended_with_it(hands, tmp_path, witness):
    script = tmp_path / "daemon.py"
    script.write_text(LEAVES)
    line = f"setsid {shlex.join([sys.executable, str(script)])} > witness; sleep 1000"
    assert "longer than 2 s" in hands.bad("Shell", command=line, timeout=2.0)
    witness.assert_all_ended()


def test_ending_one_command_touches_nobody_else(hands, tmp_path, witness):
    other = hands("Shell", command="echo x > witness; exec sleep 1000 3> witness", background=True).facts[0]
    assert witness.begun.wait(PLENTY)
    assert "longer than" in hands.bad("Shell", command="sleep 1000", timeout=0.2)
    assert "running" in hands.good("ShellOutput", task=other.task)
    hands("ShellStop", task=other.task)
    witness.assert_all_ended()


def test_a_stopped_spawner_leaves_nobody_behind(hands, tmp_path, witness):
    output = stopped_once_begun(hands, f"{python(tmp_path, SPAWNS)} 3 > witness", witness)
    assert "it was stopped" in output.content
    witness.assert_all_ended()


def test_a_command_out_of_time_ends_with_all_it_started(hands, witness):
    output = hands("Shell", command="exec > witness; echo x; sleep 1000 & sleep 1000", timeout=1)
    assert "longer than 1 s" in output.content
    witness.assert_all_ended()


def test_a_command_gets_the_chance_to_tidy_up(hands, tmp_path):
    abort = Abort()
    hands.context = context_in(tmp_path, abort=abort, progress=lambda _: abort.set())
    command = "trap 'echo tidy; exit 1' TERM; echo ready; while :; do sleep 0.01; done"
    assert "tidy" in hands("Shell", command=command, timeout=PLENTY).content


def test_what_was_left_running_on_purpose_holds_nobody_up(hands, witness):
    assert (
        hands.good("Shell", command="(echo x > witness; sleep 0.2) & echo done", timeout=PLENTY) == "done"
    )
    witness.assert_all_ended()


def test_a_background_command_is_looked_at_piece_by_piece(hands, tmp_path):
    os.mkfifo(tmp_path / "gate")
    output = hands("Shell", command="echo one; cat gate; echo two; exit 5", background=True)
    (fact,) = output.facts
    assert fact.state == "running"
    (tmp_path / "gate").write_text("between\n")
    shown = hands.good("ShellOutput", task=fact.task, wait=PLENTY)
    assert shown == f"{fact.task}: failed, exit code 5\none\nbetween\ntwo\n"
    assert "(nothing new)" in hands.good("ShellOutput", task=fact.task)


def test_a_background_command_is_ended_with_all_it_started(hands, tmp_path, witness):
    (fact,) = hands(
        "Shell", command=f"{python(tmp_path, LEAVES)} > witness; sleep 1000", background=True
    ).facts
    assert witness.begun.wait(PLENTY)
    (ended,) = hands("ShellStop", task=fact.task).facts
    assert ended.state == "killed"
    witness.assert_all_ended()
    assert "killed" in hands.good("ShellOutput", task=fact.task)


def test_closing_ends_what_runs_in_the_background(hands, tmp_path, witness, processes):
    hands.good("Shell", command="echo x; exec sleep 1000 3> witness", background=True)
    hands.good("Shell", command="echo x > witness; sleep 1000", background=True)
    assert witness.begun.wait(PLENTY)
    processes.close()
    witness.assert_all_ended()
    assert {task.state for task in processes.tasks()} == {"killed"}


def test_a_task_takes_no_name_whose_output_is_still_there(tmp_path):
    folder = tmp_path / "tasks"
    paths = []
    for word in ("one", "two"):
        processes = LocalProcesses(folder)
        task = processes.start(f"echo {word}", cwd=str(tmp_path), environ=os.environ)
        assert processes.wait(task.id, PLENTY, lambda: False).state == "completed"
        paths.append(Path(task.path))
    assert [path.read_text() for path in paths] == ["one\n", "two\n"]


def test_an_unknown_task_names_those_there_are(hands):
    assert "none" in hands.bad("ShellOutput", task="task-9")
    assert "none" in hands.bad("ShellStop", task="task-9")


def test_of_a_long_background_output_one_look_shows_a_part(hands):
    (fact,) = hands("Shell", command="head -c 100000 /dev/zero | tr '\\0' x", background=True).facts
    shown = hands.good("ShellOutput", task=fact.task, wait=PLENTY)
    assert len(shown) < 50_000
    assert "more bytes" in shown


def test_background_output_fills_no_disk(processes, tmp_path):
    task = processes.start(
        f"head -c {MOST_IN_A_FILE + 5_000_000} /dev/zero", cwd=str(tmp_path), environ=os.environ
    )
    assert processes.wait(task.id, PLENTY, lambda: False).state == "completed"
    assert Path(task.path).stat().st_size < MOST_IN_A_FILE + 100


@pytest.mark.parametrize(
    "given", [{}, {"command": ""}, {"command": "x", "timeout": 0}, {"command": "a\0b"}]
)
def test_what_cannot_be_run_is_an_error_result(hands, given):
    assert hands.bad("Shell", **given)


def test_without_bash_it_says_so(hands, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    hands.context = context_in(tmp_path)
    assert "need bash" in hands.bad("Shell", command="true")


@pytest.mark.parametrize(
    ("command", "outside"),
    [
        ("cat inner/a ./b --x=inner", ()),
        ("cat /etc/passwd", ("/etc/passwd",)),
        ("cat ../x", ("../x",)),
        ("cat link/hostname", ("link/hostname",)),
        ("grep --file=/etc/shadow x", ("--file=/etc/shadow",)),
        ("grep -f/etc/shadow x", ("-f/etc/shadow",)),
    ],
)
def test_words_that_lead_out_of_the_workspace_are_seen(hands, tmp_path, command, outside):
    (tmp_path / "link").symlink_to("/etc")
    assert hands.box.permission_request("Shell", {"command": command}, hands.context).outside == outside


def test_files_a_line_names_are_known_by_where_they_lead(hands, tmp_path):
    (tmp_path / ".env").touch()
    (tmp_path / "innocent").symlink_to(".env")
    requested = hands.box.permission_request(
        "Shell", {"command": "base64 --wrap=0 'inno'cent none"}, hands.context
    )
    assert requested.paths == (str(tmp_path.resolve() / "innocent"), str(tmp_path.resolve() / ".env"))
