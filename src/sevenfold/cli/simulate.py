"""`sevenfold simulate`: runs the simulator in the foreground, for any client."""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path
from secrets import token_hex

from msgspec.structs import replace

from sevenfold.cli.text import not_installed, number, write
from sevenfold.errors import UserError
from sevenfold.lab.simulator.brains import Brain, EchoBrain, FileBrain, load_script
from sevenfold.lab.simulator.instances import ToolBrain
from sevenfold.profiles import find


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    port = number(int, 1, "a whole number from 1 to 65535", high=65_536)
    command.add_argument("--port", type=port)
    command.add_argument("--host", default="127.0.0.1")
    command.add_argument("--key", default="")
    command.add_argument("--model", action="append", default=[], type=_model, metavar="NAME=TOKENS")
    answers = command.add_mutually_exclusive_group()
    answers.add_argument("--script", type=Path, metavar="FILE")
    answers.add_argument("--use-tools", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted; returns the exit code."""
    try:
        # The server comes with an extra.
        from sevenfold.lab.simulator.provider import Setup, Simulator
        from sevenfold.lab.simulator.server import run as serve
    except ModuleNotFoundError as error:
        raise not_installed("simulator", "simulator", error) from error
    brain: Brain = EchoBrain()
    does = "it repeats what you send"
    if options.use_tools:
        brain = ToolBrain()
        does = "it calls the tools it is offered"
    if options.script is not None:
        script = load_script(options.script)
        brain = FileBrain(script)
        does = f"it plays the {len(script.step)} steps of {options.script}"
    models = {name: replace(find(name), window=window) for name, window in options.model}
    # Sessions of two runs are compared by the ids of their calls.
    simulator = Simulator(brain, Setup(api_key=options.key or None, models=models, run=token_hex(8)))
    port = _free(options.host, options.port or 0)
    write(
        f"A simulated provider with no model inside: {does}.\n"
        f"  Anthropic clients   base_url=http://{options.host}:{port}\n"
        f"  OpenAI clients      base_url=http://{options.host}:{port}/v1\n"
        f"  key                 {options.key or 'any'}\n"
        "Ctrl-C stops it.\n"
    )
    sys.stdout.flush()
    serve(port, options.host, simulator)
    return 0


def _model(text: str) -> tuple[str, int]:
    """Parse NAME=TOKENS into a model's name and window; raises `argparse.ArgumentTypeError` for anything else."""
    name, _, window = text.rpartition("=")
    if not name or not window.isdigit() or int(window) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=TOKENS, as in qwen3=32768")
    return name, int(window)


def _free(host: str, port: int) -> int:
    """The port if it is free, or any free port if it is 0; raises `UserError` if it cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port or --host"
        ) from error
