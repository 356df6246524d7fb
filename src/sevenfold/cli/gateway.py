"""`sevenfold gateway`: passes on the requests of any program, and records what they cost and why."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.cli.text import not_installed, number, one_line, write
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.conversation.gate import Gate
from sevenfold.errors import UserError
from sevenfold.providers.anthropic import ANTHROPIC
from sevenfold.providers.openai.client import OPENAI
from sevenfold.record.known_secrets import secret_values
from sevenfold.stores.home import Project, user_home
from sevenfold.stores.jsonl.log import Sync
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.stores.lineage import AGENT_VARIABLE, brand
from sevenfold.stores.settings_files import FileSource

if TYPE_CHECKING:
    from sevenfold.doors.follower.kept_figures import KeptFigures
    from sevenfold.doors.gateway.desk import ProposalDesk
    from sevenfold.doors.gateway.server import Gateway

PROJECT = "gateway"
"""The project of sessions whose working directory is not known."""
LOOPBACK = "127.0.0.1,localhost,::1"
CODEX = "codex"
SWITCH_SECONDS = 0.0002


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    port = number(int, 1, "a whole number from 1 to 65535", high=65_536)
    command.add_argument("--port", type=port)
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument("--upstream", metavar="URL")
    command.add_argument("--broker", action="store_true")
    command.add_argument("--mode", choices=("watch", "ask", "keep"), default="watch")
    command.add_argument("command_line", nargs=argparse.REMAINDER, metavar="-- COMMAND")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    try:
        # The server needs packages of an extra.
        import h11  # noqa: F401
    except ModuleNotFoundError as error:
        raise not_installed("gateway", "gateway", error) from error
    command = list(options.command_line)
    if command[:1] == ["--"]:
        del command[0]
    # Bytes wait for the thread that records to give way, which by default takes it 5 ms each time.
    sys.setswitchinterval(SWITCH_SECONDS)
    started = SystemClock.now()
    folder = Path.cwd()
    project = user_home().project(folder) if command else Project(user_home().root / "projects" / PROJECT)
    asks = options.mode == "ask"
    gateway, desk, finish = _gateway(options, project, folder if command else None)
    if asks and command:
        _say("sevenfold gateway: what it proposes waits for you in another terminal: sevenfold decisions")
    with gateway, desk:
        code = _run(command, gateway.url, is_watched=asks) if command else _serve(gateway, desk)
    finish(started)
    return code


def _gateway(
    options: argparse.Namespace, project: Project, folder: Path | None
) -> tuple[Gateway, ProposalDesk, Callable[[float], None]]:
    """The gateway, where it proposes, and a function that prints its report, given the time of its start."""
    from sevenfold.doors.follower.follower import ConversationFollower
    from sevenfold.doors.follower.keeper import KeepingFollower, KeepingOptions
    from sevenfold.doors.follower.secret import secret_of
    from sevenfold.doors.gateway.broker import Broker
    from sevenfold.doors.gateway.desk import ProposalDesk
    from sevenfold.doors.gateway.keeper import GatewayKeeper
    from sevenfold.doors.gateway.recorder import Recorder
    from sevenfold.doors.gateway.relay import Handling
    from sevenfold.doors.gateway.report import broker_line, five_lines, kept_lines
    from sevenfold.doors.gateway.server import Gateway
    from sevenfold.doors.gateway.upstreams import Upstreams

    home = user_home()
    upstreams = Upstreams.chosen(options.upstream, os.environ)
    settings = FileSource(folder)
    store = JsonlStore(project.folder, sync=Sync(settings.current().fsync), user_memory=home.memory)
    known_secrets = secret_values(os.environ)
    placing = (store, str(folder or ""), secret_of(home.root / "gateway.key"))

    def gate() -> Gate | None:
        return Gate.of(settings.current(), known=known_secrets)

    def say(sentence: str) -> None:
        _say(f"sevenfold gateway: {sentence}")

    keeping: KeepingFollower | None = None
    follower = ConversationFollower(*placing, clock=SystemClock(), ids=RandomIds(), gate=gate)
    if options.mode != "watch":
        choices = KeepingOptions(
            settings,
            gate=gate,
            failed=lambda error: say(f"a request was sent as it came: {error}"),
            note=say,
            tell_figures=_status_line_told(),
            only_proposes=options.mode == "ask",
        )
        follower = keeping = KeepingFollower(*placing, choices, clock=SystemClock(), ids=RandomIds())
    recorder = Recorder(follower, say)
    keeper = GatewayKeeper(recorder, keeping) if keeping is not None else None
    broker = Broker() if options.broker else None
    handling = Handling(keeper, broker)
    gateway = Gateway(recorder, upstreams, host=options.host, port=options.port or 0, handling=handling)

    def finish(since: float) -> None:
        written = [store.files(name).transcript for name in follower.sessions]
        lines = five_lines(written, recorder.statistics, since)
        if keeper is not None and keeping is not None:
            lines += kept_lines(keeper.changed, keeping.figures)
        if broker is not None:
            lines.append(broker_line(broker.asked, broker.given_again))
        for line in lines:
            _say(line)

    # A program that we start has the terminal for itself.
    return gateway, ProposalDesk(keeping, recorder, store, _silently if folder else say), finish


def _status_line_told() -> Callable[[str, KeptFigures], None]:
    """A function that tells the status line of a session what was saved and spent in it."""
    from sevenfold.doors.plugins import kept

    kept.forget_old()
    return lambda session, figures: kept.tell(session, figures.saved_usd, figures.own_usd)


def _silently(sentence: str) -> None:
    """Say nothing."""


def _run(command: Sequence[str], url: str, *, is_watched: bool = False) -> int:
    """Run a program whose requests go through the gateway; returns its exit code.

    If it is watched, nothing that it starts can decide about what the gateway proposes.
    """
    env = environment(os.environ, url) | ({AGENT_VARIABLE: "gateway"} if is_watched else {})
    # Ctrl-C is for the program, which shares our terminal; we end when it does.
    previous_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = subprocess.Popen(with_address(command, url), env=env, preexec_fn=_take_interrupts)
        if is_watched:
            brand(program.pid)
        return program.wait()
    except OSError as error:
        raise UserError(f"{one_line(command[0], 80)}: cannot be started: {error.strerror}") from error
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def _take_interrupts() -> None:
    """Let the program handle Ctrl-C as it does without us."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def environment(env: Mapping[str, str], url: str) -> dict[str, str]:
    """The environment of a program whose requests go to the gateway at this address."""
    addresses = {ANTHROPIC.url_variable: url, OPENAI.url_variable: f"{url}/v1"}
    past_proxies = {
        name: ",".join(filter(None, [env.get(name, ""), LOOPBACK])) for name in ("NO_PROXY", "no_proxy")
    }
    return {**env, **addresses, **past_proxies}


def with_address(command: Sequence[str], url: str) -> list[str]:
    """The command line of a program, with the address in it if the program ignores the environment's: Codex does."""
    if Path(command[0]).name != CODEX:
        return list(command)
    return [command[0], "-c", f'openai_base_url="{url}/v1"', *command[1:]]


def _serve(gateway: Gateway, desk: ProposalDesk) -> int:
    """Serve until interrupted; what is proposed is decided by lines that the user types."""
    write(
        "Requests are passed on and recorded. Start a program with\n"
        f"  {ANTHROPIC.url_variable}={gateway.url}\n"
        f"  {OPENAI.url_variable}={gateway.url}/v1\n"
        "Ctrl-C stops the gateway.\n"
    )
    sys.stdout.flush()
    if sys.stdin is not None and sys.stdin.isatty():
        threading.Thread(target=_decide, args=(desk,), daemon=True).start()
    # A service manager ends it with this signal; what has passed is recorded then, too.
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        gateway.wait()
    except KeyboardInterrupt:
        write("\n")
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
    return 0


def _decide(desk: ProposalDesk) -> None:
    """Carry out what the user types."""
    for line in sys.stdin:
        if line.strip():
            _say(f"sevenfold gateway: {desk.decide(line)}")


def _say(sentence: str) -> None:
    """Print a line on the error stream: standard output is the program's."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()
