"""Real Claude Code in front of a terminal, below `sevenfold gateway --mode keep`, led through what people do there.

    python -m bench.interactive_keeping [--json] [--show]

Claude Code from npm runs in a pseudo-terminal and a network namespace of its own against the simulator, in a window of
60,000 tokens. It is led through messages with three files to read for each, a sub-agent, `/context`, another model and
back, `/compact`, a rewind to before a message, a resume below a new gateway (twice), and `--fork-session`. Judged by
what the simulator received, as in `bench/real_keeping.py`; nothing is expected of the message that was taken back. A
fork begins with what Claude Code sends in it, so only what came behind its `/compact` is expected there.

`--show` prints the screen at the end of each run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench.clients import conversation, judging, programs, reading, story
from bench.clients.terminal import CLEAR_LINE, ENTER, ESCAPE, UP, ProgramTerminal
from bench.real_keeping import OWN_COMPACTION, WINDOW
from sevenfold.lab.simulator.brains import ScriptedBrain, tool_use
from sevenfold.lab.simulator.provider import Received, Simulator
from sevenfold.lab.simulator.server import serve

INSIDE = "SEVENFOLD_IN_NAMESPACE"
NAME = "claude-code"
OTHER_MODEL = "claude-sonnet-4-6"
SUB_AGENT = "x-claude-code-agent-id"
SESSION = "x-claude-code-session-id"
TAKEN_BACK = 8
"""The message to before which the conversation is rewound."""
BEHIND_COMPACT = 7
"""The first message behind `/compact`."""
RESUMES = 2
AFTER_RESUME = 3
"""Messages after each resume."""
LAST_RESUMED = TAKEN_BACK + 1 + RESUMES * AFTER_RESUME
"""The last message before the fork."""
_RESUME = re.compile(r"--resume ([0-9a-f-]{36})")


class InteractiveFigures(Struct, frozen=True):
    """What a run showed."""

    version: str
    refused: int
    done: tuple[str, ...]
    """What was done and left its trace in what the simulator received."""
    judgement: judging.Judgement
    """Of the conversation that was resumed twice."""
    fork: judging.Judgement


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        programs.install()
        return in_namespace(sys.argv[1:])
    version = programs.install()[NAME]
    folder = Path(tempfile.mkdtemp(prefix="sevenfold-interactive-", dir="/var/tmp"))
    try:
        figures = drive(version, folder, show=options.show)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(msgspec.json.encode(figures).decode() if options.json else shown(figures))
    return 0 if holds(figures) else 1


def in_namespace(arguments: list[str]) -> int:
    """Run this again where there is no network but the loopback device."""
    again = [sys.executable, "-m", "bench.interactive_keeping", *arguments]
    shell = 'ip link set lo up && exec "$@"'
    env = {**os.environ, INSIDE: "1"}
    return subprocess.call(["unshare", "-rn", "sh", "-c", shell, "sh", *again], env=env, cwd=programs.ROOT)


def holds(figures: InteractiveFigures) -> bool:
    """Whether everything was done, and nothing was lost or refused."""
    judgement = figures.judgement
    is_kept = judgement.is_whole and judgement.is_long and not figures.fork.missing
    return is_kept and not figures.refused and set(figures.done) == set(TRACES)


def shown(figures: InteractiveFigures) -> str:
    """The figures as text."""
    judgement = figures.judgement
    undone = ", ".join(name for name in TRACES if name not in figures.done)
    return (
        f"{figures.version}: {judgement.requests} requests and {figures.fork.requests} in the fork, {figures.refused} "
        f"refused, {judgement.compactions} compactions; sentences missing {len(judgement.missing)} "
        f"({len(figures.fork.missing)} in the fork), codewords behind compactions {len(judgement.missing_after)}, tags "
        f"among the user's words {len(judgement.tags)}; system prompt and tools "
        f"{'as at first' if judgement.head_same else 'CHANGED'}; not done: {undone or 'nothing'}"
    )


class Lead:
    """Leads Claude Code through its runs."""

    def __init__(self, url: str, brain: reading.ReadingBrain, folder: Path, *, show: bool) -> None:
        self.brain = brain
        self.turn = 0
        self._url = url
        self._show = show
        self._client = programs.ClaudeCode(folder, url)
        reading.prepare(self._client)
        # A person would fix a settings file with comments first, and answer what is asked at the first start.
        self._client.settings.write_text("{}")
        project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        answered = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["simulated-key"], "rejected": []},
            "projects": {str(self._client.work): project},
        }
        (self._client.home / ".claude" / ".claude.json").write_text(json.dumps(answered))

    def started(self, *options: str) -> ProgramTerminal:
        """Start Claude Code below a new gateway; returns once it waits for the user."""
        model = ["--model", programs.CLAUDE_MODEL]
        rights = ["--permission-mode", "default", "--allowedTools", "Read,Bash,Agent"]
        command = [programs.program(NAME), *model, *rights, *options]
        env = {name: value for name, value in self._client.env().items() if name not in OWN_COMPACTION}
        terminal = ProgramTerminal(
            programs.sevenfold("gateway", "--mode", "keep", "--upstream", self._url, "--", *command),
            {**env, "SEVENFOLD_CONTEXT_WINDOW": str(WINDOW)},
            self._client.work,
        )
        terminal.until_shown("❯")
        terminal.settle()
        return terminal

    def say(self, terminal: ProgramTerminal, *first: story.PlannedCall) -> None:
        """Say the next message; the model makes the calls of ``first`` and reads three files."""
        self.brain.plan.extend(first)
        self.brain.plan_turn(self._client.work)
        terminal.enter(conversation.message(self.turn))
        self.turn += 1
        terminal.until(lambda: not self.brain.plan, "all that was planned")
        terminal.settle()

    def leave(self, terminal: ProgramTerminal) -> str:
        """End a run; returns the id of its session."""
        terminal.enter("/exit")
        terminal.ended()
        if self._show:
            print(terminal.shown, file=sys.stderr)
        named = _RESUME.findall(terminal.shown)
        if not named:
            raise RuntimeError(f"Claude Code named no session to resume:\n{terminal.shown}")
        return str(named[-1])


def use_agent(names: Sequence[str]) -> dict[str, Any]:
    """A call that starts a sub-agent."""
    name = next(name for name in names if name in ("Agent", "Task"))
    asked = "Read log-3.txt, then say what it has."
    fields = {"description": "Look at a log", "prompt": asked, "subagent_type": "general-purpose"}
    return dict(tool_use(name, fields))


def switch_model(terminal: ProgramTerminal, model: str) -> None:
    """Go on with another model."""
    terminal.enter(f"/model {model}")
    terminal.until_shown("Switch model?")
    terminal.press(ENTER)
    terminal.settle()


def rewind(terminal: ProgramTerminal) -> None:
    """Take the newest message back, and do not send it again."""
    terminal.press(ESCAPE)
    terminal.settle(0.4)
    terminal.press(ESCAPE)
    terminal.until_shown("Restore the code and/or conversation")
    terminal.press(UP)
    terminal.settle(0.5)
    terminal.press(ENTER)
    terminal.until_shown("Restore conversation")
    terminal.settle(0.5)
    terminal.press(ENTER)
    terminal.until(lambda: "Restore conversation" not in terminal.shown, "the conversation")
    terminal.settle()
    # The input line shows the message, on two rows.
    for _ in range(3):
        terminal.press(CLEAR_LINE)
        terminal.settle(0.3)


def drive(version: str, folder: Path, *, show: bool) -> InteractiveFigures:
    """Lead Claude Code through four runs."""
    brain = reading.ReadingBrain()
    simulator = Simulator(ScriptedBrain(brain.answer))
    with serve(simulator) as url:
        lead = Lead(url, brain, folder, show=show)
        session = first_run(lead)
        for _ in range(RESUMES):
            with lead.started("--resume", session) as terminal:
                for _ in range(AFTER_RESUME):
                    lead.say(terminal)
                lead.leave(terminal)
        with lead.started("--resume", session, "--fork-session") as terminal:
            lead.say(terminal)
            lead.say(terminal)
            fork = lead.leave(terminal)
        requests = list(simulator.requests)
    own = [request for request in requests if judging.is_own(request) and is_main(request)]
    before = {*range(BEHIND_COMPACT), TAKEN_BACK}
    return InteractiveFigures(
        version=version,
        refused=sum(request.status >= 400 for request in requests),
        done=tuple(name for name, left_trace in TRACES.items() if left_trace(requests)),
        judgement=judging.judge(
            [request for request in own if session_of(request) == session], left_out={TAKEN_BACK}
        ),
        fork=judging.judge([request for request in own if session_of(request) == fork], left_out=before),
    )


def first_run(lead: Lead) -> str:
    """The run with everything but a resume; returns the id of its session."""
    with lead.started() as terminal:
        for _ in range(3):
            lead.say(terminal)
        lead.say(terminal, use_agent)
        terminal.enter("/context")
        terminal.until_shown("Estimated usage by category")
        terminal.settle()
        switch_model(terminal, OTHER_MODEL)
        lead.say(terminal)
        lead.say(terminal)
        switch_model(terminal, programs.CLAUDE_MODEL)
        lead.say(terminal)
        terminal.enter("/compact")
        terminal.until_shown("Compacted")
        terminal.settle()
        lead.say(terminal)
        lead.say(terminal)
        rewind(terminal)
        lead.say(terminal)
        return lead.leave(terminal)


def session_of(request: Received) -> str:
    """Claude Code's name of the conversation that a request belongs to."""
    return str(request.headers.get(SESSION) or "")


def is_main(request: Received) -> bool:
    """Whether a request is a turn of a conversation with the user: no sub-agent's, and not for a summary."""
    return not request.headers.get(SUB_AGENT) and not story.is_summary_request(request)


def is_rewound(requests: Sequence[Received]) -> bool:
    """Whether a message was sent, and a later message without it."""
    gone, later = (conversation.message(turn) for turn in (TAKEN_BACK, TAKEN_BACK + 1))
    texts = [judging.texts_of(request) for request in requests]
    return any(gone in text for text in texts) and any(later in text and gone not in text for text in texts)


def is_resumed(requests: Sequence[Received]) -> bool:
    """Whether the last message before the fork belongs to the conversation of the first one."""
    first, last = (conversation.sentences(turn)[0] for turn in (0, LAST_RESUMED))
    sessions = [
        {session_of(request) for request in requests if sentence in judging.texts_of(request)}
        for sentence in (first, last)
    ]
    return bool((sessions[0] & sessions[1]) - {""})


TRACES: dict[str, Callable[[Sequence[Received]], bool]] = {
    "sub-agent": lambda requests: any(request.headers.get(SUB_AGENT) for request in requests),
    "/context": lambda requests: any(request.path.endswith("/count_tokens") for request in requests),
    "another model": lambda requests: any(request.body.get("model") == OTHER_MODEL for request in requests),
    "/compact": lambda requests: any(
        request.path.endswith("/messages") and story.is_summary_request(request) for request in requests
    ),
    "rewind": is_rewound,
    "resumes": is_resumed,
    "fork": lambda requests: len({session_of(request) for request in requests} - {""}) > 1,
}
"""Each action, and how to tell from the program's requests that it was done."""


if __name__ == "__main__":
    sys.exit(main())
