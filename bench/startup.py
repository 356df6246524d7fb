"""The time `sevenfold chat` takes to show its prompt or to send its first request, and the slowest imports.

    python bench/startup.py [--runs N]
    python bench/startup.py --request [--runs N]

It runs in a pseudo-terminal of 100 columns, in an empty folder with an empty home and no key, like a new user's. The
time from the start of the process to the first character of the prompt is measured; alternating with it, a Python that
does nothing, and one that only imports everything the command may need. If a process waited longer than it worked, the
machine was too busy, and there is no verdict.

With --request, the CPU time of `sevenfold chat -p hi` with a key is measured, from the start of the process to the
first byte of its request at a server on this machine, and compared with the same run through the provider's SDK.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path

MOST_SECONDS = 0.5
WORKED = "chat, working"
RUNS = 7
PATIENCE = 30.0
PROMPT = "›"
"""The character that starts the input line."""
BARE = [sys.executable, "-c", "pass"]
IMPORTS = [sys.executable, "-c", "import sevenfold.cli.main, sevenfold.cli.chat.chat"]
CHAT = [sys.executable, "-m", "sevenfold", "chat"]
MODELS = {"ANTHROPIC": ("claude-sonnet-5-5", ""), "OPENAI": ("gpt-5.6", "/v1")}
"""A model and the path of the base URL for each provider, by the prefix of its environment variables."""
WITH_SDK = (
    "from sevenfold.providers.registry import providers\n"
    "for one in providers(): type(one).http = lambda *_: None\n"
)
MOST_SHARE = 0.5
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]")


def spent(command: Sequence[str]) -> float:
    """Return the seconds that a command takes to finish."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def to_prompt(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Return the seconds until a command in a terminal shows its prompt, and the CPU seconds it used."""
    home = folder / "home"
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environ |= {"SEVENFOLD_HOME": str(home), "TERM": "xterm-256color"}
    begin = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], list(command), environ)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    try:
        _until(terminal, PROMPT, begin + PATIENCE)
        passed = time.perf_counter() - begin
    finally:
        os.kill(child, signal.SIGKILL)
        _, _, used = os.wait4(child, 0)
        os.close(terminal)
    return passed, used.ru_utime + used.ru_stime


def _until(terminal: int, sign: str, deadline: float) -> None:
    shown = b""
    while sign not in _ESCAPES.sub("", shown.decode(errors="replace")):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.perf_counter()))
        piece = os.read(terminal, 65_536) if ready else b""
        if not piece:
            raise TimeoutError(f"no prompt; the terminal shows: {shown.decode(errors='replace')[-500:]!r}")
        shown += piece


def measure(runs: int = RUNS) -> dict[str, float]:
    """Return the median seconds of each command; the commands alternate."""
    found: dict[str, list[float]] = {"bare": [], "imports": [], "chat": [], WORKED: []}
    folder = Path(tempfile.mkdtemp(prefix="sevenfold-startup-"))
    try:
        to_prompt(CHAT, folder)
        for _ in range(runs):
            found["bare"].append(spent(BARE))
            found["imports"].append(spent(IMPORTS))
            passed, worked = to_prompt(CHAT, folder)
            found["chat"].append(passed)
            found[WORKED].append(worked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {name: statistics.median(each) for name, each in found.items()}


def to_request(command: Sequence[str], folder: Path, server: socket.socket, url: str) -> float:
    """Return a command's CPU seconds until the first byte of its request reaches the server; then kill it."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(tuple(MODELS))}
    environ |= {"SEVENFOLD_HOME": str(folder / "home"), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode compiled
    for vendor, (_, path) in MODELS.items():
        environ |= {f"{vendor}_API_KEY": "none", f"{vendor}_BASE_URL": f"{url}{path}"}
    child = subprocess.Popen(command, cwd=folder, env=environ, stdin=subprocess.DEVNULL)
    try:
        _until_posted(server)
    finally:
        child.kill()
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = -signal.SIGKILL
    return used.ru_utime + used.ru_stime


def _until_posted(server: socket.socket) -> None:
    server.settimeout(PATIENCE)
    while True:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE)
            if connection.recv(1) == b"P":
                return
            # This is the background request for the list of models.
            connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


def measure_requests(runs: int) -> dict[str, list[float]]:
    """Return the median CPU seconds to the first byte for each provider: without its SDK, and with it."""
    folder = Path(tempfile.mkdtemp(prefix="sevenfold-startup-"))
    found: dict[str, list[float]] = {}
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            for vendor, (model, _) in MODELS.items():
                run = (
                    f"from sevenfold.cli.main import main; main(['chat', '-p', 'hi', '--model', {model!r}])"
                )
                ways = [[sys.executable, "-c", f"{before}{run}"] for before in ("", WITH_SDK)]
                for way in ways:
                    to_request(way, folder, server, url)
                taken = [[to_request(way, folder, server, url) for way in ways] for _ in range(runs)]
                found[vendor] = [statistics.median(each) for each in zip(*taken, strict=True)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def print_requests(runs: int) -> int:
    """Measure and print the time to the first request; return the exit status."""
    met = True
    for vendor, (ours, theirs) in measure_requests(runs).items():
        good = ours <= theirs * MOST_SHARE
        met = met and good
        print(
            f"{'pass' if good else 'FAIL'}  {vendor.lower()}: {ours:.2f} s of processor time to the first byte, "
            f"{theirs:.2f} s with the SDK: {ours / theirs:.0%} (at most {MOST_SHARE:.0%})"
        )
    return 0 if met else 1


def slowest_imports(most: int = 12) -> list[tuple[float, str]]:
    """Return the milliseconds that each module itself takes to import, the slowest first."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", *IMPORTS[1:]], check=True, capture_output=True, text=True
    )
    rows = [
        line.removeprefix("import time:").split("|") for line in told.stderr.splitlines() if "|" in line
    ]
    own = [(int(row[0]) / 1_000, row[2].strip()) for row in rows if row[0].strip().isdigit()]
    return sorted(own, reverse=True)[:most]


def verdict(found: dict[str, float]) -> bool | None:
    """Whether it is fast enough; None if the machine is too busy to tell."""
    if found["chat"] < MOST_SECONDS:
        return True
    return None if found[WORKED] < found["chat"] / 2 else False


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 1 if the bar is missed, else 0."""
    parser = argparse.ArgumentParser(description="How long the terminal app takes to its prompt.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--request", action="store_true", help="measure to the first request instead")
    options = parser.parse_args(arguments)
    if options.request:
        return print_requests(options.runs)
    found = measure(options.runs)
    for name, seconds in found.items():
        print(f"{name:14}{seconds * 1_000:7.0f} ms")
    for milliseconds, module in slowest_imports():
        print(f"              {milliseconds:7.1f} ms  importing {module}")
    met = verdict(found)
    word = {True: "pass", False: "FAIL", None: "none"}[met]
    busy = "" if met is not None else "; the machine is too busy to tell"
    print(f"{word}  to the prompt: {found['chat']:.2f} s (under {MOST_SECONDS} s){busy}")
    return 1 if met is False else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
