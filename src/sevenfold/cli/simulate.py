"""`sevenfold simulate`: the simulator in the foreground, for clients of any kind."""

from __future__ import annotations

import argparse
import socket
import sys

from sevenfold.cli.options import port
from sevenfold.errors import UserError

SUMMARY = "serve a simulated provider: the real wire formats and rules, no model, no key, no bill"
HELP = """\
Serve a simulated provider on this machine. It speaks the Messages, Chat Completions and Responses APIs,
enforces their rules with their error texts, and keeps a prompt cache like theirs, so a client can be tried
without a network or a bill. There is no model inside: it repeats what it is told."""
EXAMPLES = """\
examples:
  sevenfold simulate                     prints the addresses and the key to give to clients
  sevenfold simulate --port 8080 --key ''"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument("--port", type=port, help="where to listen (default: a free one)")
    command.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    command.add_argument(
        "--key", default="simulated-key", help="the key to accept; '' accepts any (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted; returns the exit code."""
    try:
        from sevenfold.lab.simulator.provider import Setup, Simulator
        from sevenfold.lab.simulator.server import run as serve
    except ModuleNotFoundError as error:
        raise UserError(
            f"the simulator needs {error.name}, which is not installed; run: pip install 'sevenfold[simulator]'"
        ) from error
    simulator = Simulator(setup=Setup(api_key=options.key or None))
    port = _free(options.host, options.port or 0)
    sys.stdout.write(
        f"A simulated provider, no model inside: it repeats what it is told.\n"
        f"  Anthropic clients   base_url=http://{options.host}:{port}\n"
        f"  OpenAI clients      base_url=http://{options.host}:{port}/v1\n"
        f"  key                 {options.key or 'any'}\n"
        "Ctrl-C stops it.\n"
    )
    sys.stdout.flush()
    serve(port, options.host, simulator)
    return 0


def _free(host: str, port: int) -> int:
    """The port if it can be listened on, or any for 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise UserError(
            f"{host}:{port} cannot be listened on: {error.strerror}; choose another --port or --host"
        ) from error
