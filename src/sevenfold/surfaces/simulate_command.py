"""`sevenfold simulate`: the simulator in the foreground, for clients of any kind."""

from __future__ import annotations

import argparse
import socket
import sys

from sevenfold.errors import UserError
from sevenfold.surfaces.options import positive

SUMMARY = "serve a simulated provider: the real wire formats and rules, no model, no key, no bill"
HELP = """\
Serve a simulated provider on this machine. It speaks the Messages, Chat Completions and Responses APIs,
enforces their rules with their error texts, and keeps a prompt cache like theirs, so a client can be tried
without a network or a bill. There is no model inside: it repeats what it is told."""
EXAMPLES = """\
examples:
  sevenfold simulate --port 8080
  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_API_KEY=simulated-key sevenfold chat"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument("--port", type=positive, help="where to listen (default: a free one)")
    command.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    command.add_argument(
        "--key", default="simulated-key", help="the key to accept; '' accepts any (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted; returns the exit code."""
    try:
        from sevenfold.simulator.provider import Setup, Simulator
        from sevenfold.simulator.server import run as serve
    except ModuleNotFoundError as error:
        raise UserError(
            f"the simulator needs {error.name}, which is not installed; run: pip install 'sevenfold[simulator]'"
        ) from error
    simulator = Simulator(setup=Setup(api_key=options.key or None))
    port = options.port or _free_port(options.host)
    sys.stdout.write(
        f"A simulated provider, no model inside: it repeats what it is told.\n"
        f"  Anthropic clients   base_url=http://{options.host}:{port}\n"
        f"  OpenAI clients      base_url=http://{options.host}:{port}/v1\n"
        f"  key                 {options.key or 'any'}\n"
        "Ctrl-C stops it.\n"
    )
    sys.stdout.flush()
    try:
        serve(port, options.host, simulator)
    except SystemExit as stopped:
        raise UserError(
            f"{options.host}:{port} cannot be listened on; another program may use it, so choose another --port"
        ) from stopped
    return 0


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as listener:
        return int(listener.getsockname()[1])
