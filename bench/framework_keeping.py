"""Agents of other frameworks whose conversations are kept in a window that is too small for them.

    python -m bench.framework_keeping FRAMEWORK WIRE [--by none|own] [--bound] [--stubborn] [--turns N] [--json]

FRAMEWORK is langchain, deepagents, pydantic-ai, openai-agents (with our adapters), litellm (below `sevenfold gateway
--mode keep`) or hermes (with our plugin, over chat alone); WIRE is messages, chat or responses. The newest packages are
installed into environments of their own in `.dev/peers`; the agent runs in a network namespace of its own against the
simulator. What the simulator received is judged: nothing refused, the system prompt as in the first request, every
sentence of the user in the last one, and after each compaction the codewords of the first, the middle and the newest
message.

`--stubborn` makes the provider refuse every request that is not as the agent wrote it; `--bound` takes a model whose
thinking is valid only behind what was sent before it; `--by own` is the framework's own summarisation, `--by none` has
none.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.clients import conversation, judging
from bench.peers import environments
from sevenfold.lab.simulator.brains import ModelPrompt, Said, ScriptedBrain, text, tool_use
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.provider import Received, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.profiles import find
from sevenfold.record.usage import Usage

ROOT = Path(__file__).resolve().parent.parent
INSIDE = "SEVENFOLD_IN_NAMESPACE"
SECONDS = 400
LANGCHAIN = ("langchain", "langchain-anthropic", "langchain-openai", "deepagents", "msgspec")
PACKAGES: dict[str, tuple[str, ...]] = {
    "langchain": LANGCHAIN,
    "deepagents": LANGCHAIN,
    "pydantic-ai": ("pydantic-ai-slim[anthropic,openai]", "msgspec"),
    "openai-agents": ("openai-agents", "msgspec"),
    "litellm": ("litellm", "mcp", "msgspec"),  # it imports mcp without saying that it needs it
    "hermes": ("hermes-agent==0.19.0",),
}
ENVIRONMENTS = {"langchain": "frameworks-langchain", "deepagents": "frameworks-langchain"}
"""Frameworks that share one; any other has one of its own."""
TURNS = {"hermes": 75}
"""Where it takes more to fill the window: Hermes takes none below 64,000 tokens."""
HERMES_SETTINGS = (
    ("plugins", "enable", "sevenfold"),
    ("config", "set", "context.engine", "sevenfold"),
    ("config", "set", "memory.provider", "sevenfold"),
    ("config", "set", "model.context_length", "64000"),
)
SUMMARY = "The work on the harbour went on and nothing in particular is left to say about it. " * 6
ANSWER = "Noted. The cranes are oiled and the harbour is quiet, so the berths stay as they are. " * 12


class FrameworkFigures(Struct, frozen=True):
    """What a run showed."""

    framework: str
    wire: str
    version: str
    finished: bool
    error: str
    requests: int
    """The agent's own."""
    refused: int
    compactions: int
    missing_after: tuple[str, ...]
    """Codewords of the first, middle or newest message that are missing behind one of the first three compactions."""
    missing: tuple[str, ...]
    """Sentences of the user that are not in the last request."""
    head_same: bool
    tags: tuple[str, ...]
    """Tags among the user's words."""
    changed: int
    """Requests that were not as the agent wrote them."""
    usd: float | None
    """What all requests cost, ours for summaries included; None where the simulator reports no priced usage."""
    pieces: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("framework", choices=tuple(PACKAGES))
    parser.add_argument("wire", choices=("messages", "chat", "responses"))
    parser.add_argument("--by", choices=("sevenfold", "none", "own"), default="sevenfold")
    parser.add_argument("--bound", action="store_true")
    parser.add_argument("--stubborn", action="store_true")
    parser.add_argument("--turns", type=int)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.turns = options.turns or TURNS.get(options.framework, conversation.TURNS)
    name = ENVIRONMENTS.get(options.framework, f"frameworks-{options.framework}")
    if INSIDE not in os.environ:
        environments.python_with(name, PACKAGES[options.framework])
        return in_namespace(sys.argv[1:])
    python = environments.python_with(name, PACKAGES[options.framework])
    figures = drive(python, options)
    print(msgspec.json.encode(figures).decode() if options.json else shown(figures))
    return (
        0 if figures.finished and (options.stubborn or options.by != "sevenfold" or holds(figures)) else 1
    )


def in_namespace(arguments: list[str]) -> int:
    """Run this again where there is no network but the loopback device."""
    again = [sys.executable, "-m", "bench.framework_keeping", *arguments]
    shell = 'ip link set lo up && exec "$@"'
    env = {**os.environ, INSIDE: "1"}
    return subprocess.call(["unshare", "-rn", "sh", "-c", shell, "sh", *again], env=env, cwd=ROOT)


class HarbourBrain:
    """Plays the model: reads each log once, answers, and writes summaries that keep nothing."""

    def __init__(self, *, stubborn: bool) -> None:
        self._stubborn = stubborn
        self._calls = 0

    def answer(self, prompt: ModelPrompt) -> Said:
        """The answer to a request."""
        newest = prompt.messages[-1]["content"]
        if not prompt.tools or judging.OURS in json.dumps(newest)[-2_000:]:
            return SUMMARY
        if self._stubborn and is_changed(prompt):
            raise ApiError(
                400, "invalid_request_error", "this provider takes nothing but the whole conversation"
            )
        thinking = [{"type": "thinking", "thinking": "Let me see."}] if prompt.body.get("thinking") else []
        asked = [
            block for block in newest if block.get("type") == "text" and conversation.TOOL in block["text"]
        ]
        has_result = any(block.get("type") == "tool_result" for block in newest)
        if not asked or has_result:
            return [*thinking, text(ANSWER)]
        self._calls += 1
        return [*thinking, tool_use(conversation.TOOL, {"name": f"log-{self._calls}"})]


def is_changed(prompt: ModelPrompt) -> bool:
    """Whether a conversation is not as the agent has it: with all messages of the user, and whole results."""
    texts = [block for message in prompt.messages for block in message["content"]]
    said = [block["text"] for block in texts if block.get("type") == "text"]
    newest = max(
        (turn for turn in range(conversation.TURNS) if conversation.message(turn) in said), default=-1
    )
    if any(conversation.message(turn) not in said for turn in range(newest + 1)):
        return True
    results = [json.dumps(block["content"]) for block in texts if block.get("type") == "tool_result"]
    return any(len(result) < len(conversation.log("")) for result in results)


def drive(python: Path, options: argparse.Namespace) -> FrameworkFigures:
    """Lead an agent through the conversation."""
    simulator = Simulator(ScriptedBrain(HarbourBrain(stubborn=options.stubborn).answer))
    with tempfile.TemporaryDirectory(prefix="sevenfold-frameworks-", dir="/var/tmp") as folder:
        with serve(simulator) as url:
            done = run(python, options, url, Path(folder))
        return figures_of(list(simulator.requests), done, python, options)


def run(
    python: Path, options: argparse.Namespace, url: str, home: Path
) -> subprocess.CompletedProcess[str]:
    """Run the agent in its environment; litellm below a gateway."""
    driver = [str(python), "-m", "bench.clients.frameworks", options.framework, options.wire]
    flags = ["--by", options.by, "--turns", str(options.turns), *(["--bound"] if options.bound else [])]
    command = [*driver, url, *flags]
    if options.framework == "litellm":
        gateway = [sys.executable, "-m", "sevenfold", "gateway", "--mode", "keep", "--upstream", url, "--"]
        command = [*gateway, "sh", "-c", '"$@" "$ANTHROPIC_BASE_URL" $FLAGS', "sh", *driver]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SEVENFOLD_CONTEXT_WINDOW": "24000",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "FLAGS": " ".join(flags),
        "HERMES_HOME": str(home / ".hermes"),
    }
    if options.framework == "hermes":
        prepare_hermes(python, env)
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)


def prepare_hermes(python: Path, env: dict[str, str]) -> None:
    """Install the plugin, and let Hermes use it, as its page says."""
    hermes = str(python.with_name("hermes"))
    commands = [[sys.executable, "-m", "sevenfold", "install", "hermes"]]
    commands += [[hermes, *setting] for setting in HERMES_SETTINGS]
    for command in commands:
        subprocess.run(
            command, env=env, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL, check=True
        )


def figures_of(
    requests: Sequence[Received],
    done: subprocess.CompletedProcess[str],
    python: Path,
    options: argparse.Namespace,
) -> FrameworkFigures:
    """What the captured requests of a run show."""
    # Others look for lists of models, or for what kind of server it is.
    asked = [request for request in requests if request.path.endswith(judging.MODEL_PATHS)]
    own = [request for request in asked if judging.is_own(request)]
    judgement = judging.judge(own)
    printed = done.stdout.strip().splitlines()
    reported = json.loads(printed[-1]) if done.returncode == 0 else {}
    problems = "; ".join(reported.get("problems", ()))
    return FrameworkFigures(
        framework=options.framework,
        wire=options.wire,
        version=version_of(python, options.framework),
        finished=done.returncode == 0 and judging.newest_turn(own[-1]) == options.turns - 1,
        error=problems or (done.stderr.strip().splitlines() or [""])[-1]
        if done.returncode or problems
        else "",
        requests=judgement.requests,
        refused=sum(request.status >= 400 for request in asked),
        compactions=judgement.compactions,
        missing_after=judgement.missing_after,
        missing=judgement.missing,
        head_same=judgement.head_same and conversation.SYSTEM in judging.head_of(own[-1]),
        tags=judgement.tags,
        changed=judgement.changed,
        usd=round(sum(map(usd_of, requests)), 3) if options.wire == "messages" else None,
        pieces=reported.get("pieces", 0),
    )


def usd_of(request: Received) -> float:
    """What a request cost, by the usage that the simulator reported."""
    if not request.usage:
        return 0.0
    usage = Usage.read(msgspec.json.encode(request.usage))
    return usage.cost(find(request.body["model"])) or 0.0


def version_of(python: Path, framework: str) -> str:
    """The version of the framework that was run."""
    package = re.split(r"[\[=]", PACKAGES[framework][0])[0] if framework != "deepagents" else framework
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def holds(figures: FrameworkFigures) -> bool:
    """Whether the conversation was kept, and nothing was lost or refused."""
    is_whole = not (figures.missing or figures.missing_after or figures.tags or figures.error)
    is_long = (
        figures.requests >= judging.LEAST_REQUESTS and figures.compactions >= judging.LEAST_COMPACTIONS
    )
    return figures.finished and is_whole and is_long and figures.head_same and not figures.refused


def shown(figures: FrameworkFigures) -> str:
    """The figures as text."""
    return "\n".join(f"  {name:14} {value}" for name, value in msgspec.structs.asdict(figures).items())


if __name__ == "__main__":
    sys.exit(main())
