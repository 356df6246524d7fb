"""Which programs read over interim answers, as a gateway sends them while a summary is under way.

    python -m bench.interim_answers [--json]

A gateway sends seven interim answers (`102 Processing`) in front of each answer, as if all programs were known to read
over them. Claude Code and Codex from npm, the SDKs of Anthropic and OpenAI, httpx and curl must end with the provider's
answer; Python's `urllib`, which takes the first interim answer for the answer, is the control. Everything runs in a
network namespace of its own against the simulator. What is not installed is left out by name.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx
import msgspec
import openai
from msgspec import Struct

from bench.clients import programs
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.doors.follower.follower import ClientCall, ConversationFollower, FollowedCall
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.doors.gateway.relay import Handling
from sevenfold.doors.gateway.server import Gateway
from sevenfold.doors.gateway.upstreams import Upstreams
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.stores.jsonl.store import JsonlStore

INSIDE = "SEVENFOLD_IN_NAMESPACE"
PINGS = 7
BETWEEN = 0.2
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
CONTROL = "urllib"
MODEL = programs.CLAUDE_MODEL
MESSAGES: list[Any] = [{"role": "user", "content": "Say hello."}]
BODY = json.dumps({"model": MODEL, "max_tokens": 99, "messages": MESSAGES})


class ProgramOutcome(Struct, frozen=True):
    """How a program took the interim answers."""

    program: str
    answered: bool
    """Whether it ended with the provider's answer."""
    detail: str = ""


class PingingPreparer:
    """Sends interim answers in front of each answer, and changes nothing."""

    async def prepare(
        self, call: ClientCall, address: str, ping: Callable[[], Awaitable[None]]
    ) -> FollowedCall | None:
        """Let the program wait."""
        for _ in range(PINGS):
            await asyncio.sleep(BETWEEN)
            await ping()
        return None

    def refused(self, call: FollowedCall) -> None:
        """Nothing is changed, so nothing is refused."""

    def answer_headers(self, call: FollowedCall) -> bytes:
        """No headers of ours."""
        return b""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        programs.install()
        return in_namespace(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="sevenfold-interim-", dir="/var/tmp") as folder:
        outcomes = measure(Path(folder))
    if options.json:
        print(msgspec.json.encode(outcomes).decode())
    else:
        for outcome in outcomes:
            print(
                f"  {outcome.program:24} {'answered' if outcome.answered else 'NO ANSWER'}  {outcome.detail}"
            )
    return 0 if holds(outcomes) else 1


def holds(outcomes: list[ProgramOutcome]) -> bool:
    """Whether all got their answer but the control, which shows that there was something to read over."""
    return all(outcome.answered is (outcome.program != CONTROL) for outcome in outcomes)


def in_namespace(arguments: list[str]) -> int:
    """Run this again where there is no network but the loopback device."""
    again = [sys.executable, "-m", "bench.interim_answers", *arguments]
    shell = 'ip link set lo up && exec "$@"'
    env = {**os.environ, INSIDE: "1"}
    return subprocess.call(["unshare", "-rn", "sh", "-c", shell, "sh", *again], env=env, cwd=programs.ROOT)


def measure(folder: Path) -> list[ProgramOutcome]:
    """Let each program ask once or twice."""
    store = JsonlStore(folder / "recorded")
    follower = ConversationFollower(store, "", b"s" * 32, clock=SystemClock(), ids=RandomIds())
    recorder = Recorder(follower, lambda sentence: None)
    # The gateway knows whom it may send them; here it is found out who belongs there.
    handling = Handling(PingingPreparer(), may_ping=lambda version, headers: True)
    with (
        serve(Simulator()) as url,
        Gateway(recorder, Upstreams.chosen(url, {}), handling=handling) as gateway,
    ):
        asks: dict[str, Callable[[str], None]] = {
            CONTROL: ask_urllib,
            "httpx": ask_httpx,
            "anthropic SDK": ask_anthropic,
            "anthropic SDK, async": ask_anthropic_async,
            "openai SDK": ask_openai,
        }
        if shutil.which("curl"):
            asks["curl"] = ask_curl
        for name in programs.CLIENTS:
            asks[name] = partial(ask_program, name, folder / name)
        return [outcome_of(name, partial(ask, gateway.url)) for name, ask in asks.items()]


def outcome_of(name: str, ask: Callable[[], None]) -> ProgramOutcome:
    """What became of a program's request."""
    try:
        ask()
    except Exception as error:  # noqa: BLE001 (whatever a client raises, it has no answer)
        return ProgramOutcome(name, answered=False, detail=f"{type(error).__name__}: {error}"[:200])
    return ProgramOutcome(name, answered=True)


def ask_urllib(url: str) -> None:
    """Ask with Python's own client."""
    request = urllib.request.Request(f"{url}/v1/messages", BODY.encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=60) as answer:
        json.load(answer)


def ask_httpx(url: str) -> None:
    """Ask with httpx, twice on one connection."""
    with httpx.Client(timeout=60) as client:
        for _ in range(2):
            client.post(f"{url}/v1/messages", content=BODY, headers=HEADERS).raise_for_status().json()


def ask_curl(url: str) -> None:
    """Ask with curl."""
    headers: list[str] = []
    for name, value in HEADERS.items():
        headers += ["-H", f"{name}: {value}"]
    command = ["curl", "-sS", "--fail", "-d", BODY, *headers, f"{url}/v1/messages"]
    json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


def ask_anthropic(url: str) -> None:
    """Ask with Anthropic's SDK, streamed and whole."""
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0, timeout=60) as client:
        client.messages.create(model=MODEL, max_tokens=99, messages=MESSAGES)
        with client.messages.stream(model=MODEL, max_tokens=99, messages=MESSAGES) as stream:
            stream.get_final_message()


def ask_anthropic_async(url: str) -> None:
    """Ask with the asynchronous one."""
    asyncio.run(_ask_anthropic_async(url))


async def _ask_anthropic_async(url: str) -> None:
    async with anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0, timeout=60) as client:
        await client.messages.create(model=MODEL, max_tokens=99, messages=MESSAGES)


def ask_openai(url: str) -> None:
    """Ask with OpenAI's SDK on both of its APIs."""
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, timeout=60) as client:
        client.chat.completions.create(model=programs.CODEX_MODEL, messages=MESSAGES)
        client.responses.create(model=programs.CODEX_MODEL, input="Say hello.")


def ask_program(name: str, folder: Path, url: str) -> None:
    """Ask with a program from npm."""
    client = programs.CLIENTS[name](folder, url)
    client.work.mkdir(parents=True)
    printed = programs.run(client, client.command("Say hello.", ""))
    if "You said" not in printed:
        raise RuntimeError(printed[-200:])


if __name__ == "__main__":
    sys.exit(main())
