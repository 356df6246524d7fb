"""`sevenfold simulate`: the simulator in the foreground, for clients of any kind."""

from __future__ import annotations

import argparse
import socket
import sys

from sevenfold.cli.options import number, write
from sevenfold.errors import UserError

HELP = """\
Serve a simulated provider on this machine. It speaks the Messages, Chat Completions and Responses APIs,
enforces their rules with their error texts, and keeps a prompt cache like theirs, so you can try a client
without a network or a bill. There is no model inside: it repeats what you send."""
EXAMPLES = """\
examples:
  sevenfold simulate                     prints the addresses and the key for clients
  sevenfold simulate --port 8080 --key ''"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    port = number(int, 1, "a whole number from 1 to 65535", high=65_536)
    command.add_argument("--port", type=port, help="the port to listen on (default: a free one)")
    command.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)"
    )
    command.add_argument(
        "--key", default="simulated-key", help="the key to accept; '' accepts any (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted; returns the exit code."""
    try:
        # The server comes with an extra.
        from sevenfold.lab.simulator.provider import Setup, Simulator
        from sevenfold.lab.simulator.server import run as serve
    except ModuleNotFoundError as error:
        raise UserError(
            f"the simulator needs {error.name}, which is not installed; run: pip install 'sevenfold[simulator]'"
        ) from error
    simulator = Simulator(setup=Setup(api_key=options.key or None))
    port = _free(options.host, options.port or 0)
    write(
        "A simulated provider with no model inside: it repeats what you send.\n"
        f"  Anthropic clients   base_url=http://{options.host}:{port}\n"
        f"  OpenAI clients      base_url=http://{options.host}:{port}/v1\n"
        f"  key                 {options.key or 'any'}\n"
        "Ctrl-C stops it.\n"
    )
    sys.stdout.flush()
    serve(port, options.host, simulator)
    return 0


def _free(host: str, port: int) -> int:
    """The port if it is free, or a free one for 0; raises `UserError` if there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port or --host"
        ) from error
