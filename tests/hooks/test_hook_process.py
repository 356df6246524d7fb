"""Commands as real processes: what goes in, what comes out, and that they end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sevenfold.agent.hooks.registry import run_command
from sevenfold.agent.programs import MOST_BYTES, CommandResult
from tests.hooks.hooking import PLENTY, script

pytestmark = pytest.mark.skipif(os.name != "posix", reason="commands need a POSIX system")

FOR_EVER = "import time\nwhile True: time.sleep(1000)"


def never() -> bool:
    return False


def ran(
    command: str,
    folder: Path,
    *,
    args: tuple[str, ...] | None = None,
    stdin: bytes = b"",
    seconds: float = PLENTY,
    stopped: Callable[[], bool] = never,
    **environ: str,
) -> CommandResult:
    environment = {**os.environ, **environ}
    return run_command(
        command, args, stdin=stdin, cwd=str(folder), environ=environment, seconds=seconds, stopped=stopped
    )


class Witness:
    """A pipe that all processes of a hook hold open: its end is theirs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "witness"
        os.mkfifo(self.path)
        self._opened = threading.Event()
        self._said = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with self.path.open("rb", buffering=0) as pipe:
            self._said = pipe.read(1)
            self._opened.set()
            self._said += pipe.read()

    def spoken_to(self) -> bool:
        """Waits until somebody has."""
        return self._opened.wait(PLENTY)

    def said_until_all_had_ended(self) -> bytes:
        self._thread.join(PLENTY)
        assert not self._thread.is_alive(), "some process still holds the pipe"
        return self._said


def test_a_line_of_shell_gets_its_input_folder_and_environment(tmp_path):
    ended = ran("cat; pwd; echo $TOLD; echo oops >&2; exit 3", tmp_path, stdin=b"in\n", TOLD="yes")
    assert ended.stdout.decode().split() == ["in", str(tmp_path.resolve()), "yes"]
    assert (ended.stderr, ended.code, ended.problem) == (b"oops\n", 3, "")


def test_a_program_with_arguments_gets_them_as_they_are(tmp_path):
    ended = ran(sys.executable, tmp_path, args=("-c", "import sys; print(sys.argv[1])", "$HOME; *"))
    assert ended.stdout == b"$HOME; *\n"


@pytest.mark.parametrize("size", [1, 10_000_000])
def test_input_nobody_reads_holds_nobody_up(tmp_path, size):
    ended = ran("exec true", tmp_path, stdin=b"x" * size)
    assert (ended.code, ended.problem) == (0, "")


def test_long_input_reaches_a_command_that_closed_its_outputs(tmp_path):
    ended = ran("exec >/dev/null 2>&1; wc -c > count", tmp_path, stdin=b"x" * 1_000_000)
    assert ended.code == 0
    assert (tmp_path / "count").read_text().strip() == "1000000"


def test_input_and_output_larger_than_any_pipe_pass_each_other(tmp_path):
    ended = ran("cat", tmp_path, stdin=b"x" * 900_000)
    assert (len(ended.stdout), ended.cut) == (900_000, False)


@pytest.mark.spec("S8.1")
def test_of_endless_output_only_the_beginning_is_kept(tmp_path):
    ended = ran("head -c 100000000 /dev/zero; head -c 100000000 /dev/zero >&2", tmp_path)
    assert ended.code == 0
    assert (len(ended.stdout), len(ended.stderr), ended.cut) == (MOST_BYTES, MOST_BYTES, True)


def test_output_of_exactly_the_limit_is_whole(tmp_path):
    ended = ran(f"head -c {MOST_BYTES} /dev/zero", tmp_path)
    assert (len(ended.stdout), ended.cut) == (MOST_BYTES, False)


@pytest.mark.parametrize(
    ("command", "args"), [("/no/such/program", ()), ("nul\0byte", None), ("x", ("nul\0byte",))]
)
def test_what_cannot_be_started_is_a_problem_and_no_error(tmp_path, command, args):
    ended = ran(command, tmp_path, args=args)
    assert ended.code is None
    assert "could not be started" in ended.problem


def test_a_folder_that_is_gone_is_a_problem_and_no_error(tmp_path):
    assert "gone" in ran("true", tmp_path / "gone").problem


@pytest.mark.spec("S8.1")
@pytest.mark.parametrize("leaves_the_group", [False, True])
def test_time_out_ends_a_command_with_all_it_started(tmp_path, leaves_the_group):
    if leaves_the_group and not sys.platform.startswith("linux"):
        pytest.skip("whoever leaves the group is found on Linux only")
    witness = Witness(tmp_path)
    detached = "True" if leaves_the_group else "False"
    child = script(
        tmp_path,
        "import subprocess, sys\n"
        f"code = '''{FOR_EVER}'''\n"
        "out = open('witness', 'wb', buffering=0)\n"
        f"subprocess.Popen([sys.executable, '-c', code], stdout=out, start_new_session={detached})\n"
        "out.write(b'grandchild runs')\n" + FOR_EVER,
    )
    ended = ran(child, tmp_path, seconds=0.2, stopped=lambda: not witness.spoken_to())
    assert ended.code is None
    assert "0.2 s" in ended.problem
    assert witness.said_until_all_had_ended() == b"grandchild runs"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_time_out_ends_even_a_daemon_whose_parent_is_gone(tmp_path):
    witness = Witness(tmp_path)
    daemon = script(
        tmp_path,
        "import os\n"
        "out = open('witness', 'wb', buffering=0)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        out.write(b'daemon runs')\n"
        "    else:\n"
        "        os._exit(0)\n" + FOR_EVER,
    )
    ran(daemon, tmp_path, seconds=0.2, stopped=lambda: not witness.spoken_to())
    assert witness.said_until_all_had_ended() == b"daemon runs"


@pytest.mark.spec("S8.1")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_time_out_ends_a_command_that_keeps_running_away(tmp_path):
    witness = Witness(tmp_path)
    runaway = script(
        tmp_path,
        "import os\n"
        "out = open('witness', 'wb', buffering=0)\n"
        "if os.fork() == 0:\n"
        "    out.write(b'runs')\n"
        # Each generation leaves the group, starts the next and is gone before anybody can look at it.
        "    for _ in range(300):\n"
        "        os.setsid()\n"
        "        if os.fork():\n"
        "            os._exit(0)\n" + FOR_EVER,
    )
    ran(runaway, tmp_path, seconds=0.2, stopped=lambda: not witness.spoken_to())
    assert witness.said_until_all_had_ended() == b"runs"


@pytest.mark.spec("S8.1")
def test_a_stop_ends_a_command_that_ignores_signals(tmp_path):
    witness = Witness(tmp_path)
    stubborn = script(
        tmp_path,
        "import signal\n"
        "for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)\n"
        "out = open('witness', 'wb', buffering=0)\n"
        "out.write(b'deaf')\n" + FOR_EVER,
    )
    ended = ran(stubborn, tmp_path, stopped=witness.spoken_to)
    assert (ended.code, ended.problem) == (None, "it was stopped")
    assert witness.said_until_all_had_ended() == b"deaf"


def test_a_command_that_leaves_something_running_is_not_waited_for_beyond_its_end(tmp_path):
    os.mkfifo(tmp_path / "go")
    ended = ran("(read line < go; echo $line > left) & echo done", tmp_path)
    assert (ended.code, ended.stdout) == (0, b"done\n")
    os.mkfifo(tmp_path / "left")
    (tmp_path / "go").write_text("alive\n")
    assert (tmp_path / "left").read_text() == "alive\n"
