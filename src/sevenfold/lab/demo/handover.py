"""Delegated work: three forks and a named reviewer, whose parent is killed while they are at work.

    python -m sevenfold.lab.demo.handover URL FOLDER

is that parent's process: it starts or resumes the session, and writes a `HandedOver` line when all is done.
Each fork counts the errors in the log of a gate and adds a line to a file, so work done twice would show.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import anthropic
import msgspec

import sevenfold
from sevenfold.errors import UserError
from sevenfold.lab.demo.figures import MODEL, HandedOver
from sevenfold.lab.demo.harbour import GATES, TEXTS, start
from sevenfold.lab.demo.script import words_of
from sevenfold.lab.simulator import brains
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, as_reply
from sevenfold.lab.simulator.provider import UNLIMITED, Setup, Simulator
from sevenfold.lab.simulator.server import serve

Json = Mapping[str, Any]
SESSION = "handover"
FINDINGS = "findings.txt"
REVIEWER = "reviewer"
WORDS: Mapping[str, str] = TEXTS["handover"]


class HandoverBrain:
    """The model of all these agents; the prompt alone decides which agent it plays, and which step."""

    def __init__(self) -> None:
        self.parent: subprocess.Popen[bytes] | None = None
        """The process to kill when a fork asks for its last answer; None afterwards."""
        self._lock = Lock()

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Answer a request as the agent that sent it."""
        texts: list[str] = []
        results: dict[str, Json] = {}
        for message in prompt.messages:
            if message["role"] == "user":
                texts += [str(block.get("text", "")) for block in message["content"]]
            # A fork's own results come after its parent's: the later one wins.
            answers = [block for block in message["content"] if block.get("type") == "tool_result"]
            results |= {block["tool_use_id"]: block for block in answers}
        result_texts = {name: words_of(result.get("content")) for name, result in results.items()}
        cut_off = {name for name, result in results.items() if result.get("is_error")}
        tasks = [text for text in texts if "<agent-task>" in text]
        if tasks:
            gate = next(gate for gate in GATES if f"logs/{gate}-gate.log" in tasks[-1])
            return self._fork(gate, result_texts, cut_off)
        if texts[0] == WORDS["review"]:
            findings = "".join(result_texts.values())
            if not findings:
                return _uses(("Read", {"path": FINDINGS}, "toolu_review"))
            return as_reply(
                f"{sum(gate in findings for gate in GATES)} of {len(GATES)} gates have a finding."
            )
        return self._main("\n".join(texts), result_texts.get("toolu_reviewer"), str(prompt.messages))

    def _main(self, user_text: str, review: str | None, everything: str) -> ModelReply:
        if "toolu_east" not in everything:
            forks = {gate: WORDS["task"].format(gate=gate, findings=FINDINGS) for gate in GATES}
            orders = {
                gate: _order(gate, task, subagent_type="fork", run_in_background=True)
                for gate, task in forks.items()
            }
            return _uses(*(("Agent", order, f"toolu_{gate}") for gate, order in orders.items()))
        if any(f"> {gate}:" not in user_text for gate in GATES):
            return as_reply("I wait for the forks.")
        if review is None:
            return _uses(("Agent", _order(REVIEWER, WORDS["review"]), "toolu_reviewer"))
        report = next(line for line in review.splitlines() if "gates have a finding" in line)
        return as_reply(f"Done. {report.removeprefix('> ')}")

    def _fork(self, gate: str, results: Mapping[str, str], cut_off: set[str]) -> ModelReply:
        def shell(step: str, command: str) -> ModelReply:
            return _uses(("Shell", {"command": command}, f"toolu_{gate}_{step}"))

        counting, adding, looking = (f"toolu_{gate}_{step}" for step in ("count", "add", "look"))
        if counting in cut_off:  # and harmless to repeat
            counting = f"toolu_{gate}_recount"
        if counting not in results:
            return shell(counting.rpartition("_")[2], f"grep -c ERROR logs/{gate}-gate.log")
        finding = f"{gate}: {re.findall(r'[0-9]+', results[counting])[0]} errors"
        if adding not in results:
            return shell("add", f"echo '{finding}' >> {FINDINGS}")
        if adding in cut_off and looking not in results:  # it may have happened or not
            return shell("look", f"cat {FINDINGS}")
        if gate not in results.get(looking, gate) and f"toolu_{gate}_again" not in results:
            return shell("again", f"echo '{finding}' >> {FINDINGS}")
        with self._lock:
            if self.parent is not None:
                self.parent.kill()
                self.parent = None
        return as_reply(finding)


def _order(name: str, task: str, **further: object) -> Json:
    return {"description": f"the work of {name}", "prompt": task, "name": name, **further}


def _uses(*calls: tuple[str, Json, str]) -> ModelReply:
    return ModelReply([brains.tool_use(*call) for call in calls])


def hand_over(project: Path, home: Path, run: str = "") -> HandedOver:
    """Have the work done, killing the parent once; returns the final report. ``run`` is that of the simulator."""
    brain = HandoverBrain()
    setup = Setup(limits=UNLIMITED, chunk=400, run=f"{run} handover")
    at_work = 0
    with serve(Simulator(brain, setup)) as url:
        for life in range(2):
            worker = start("handover", (url, str(project)), project, home)
            brain.parent = worker if life == 0 else None
            try:
                printed, _ = worker.communicate(timeout=120)
            finally:
                with suppress(ProcessLookupError):
                    worker.kill()
            if life == 0:
                (log,) = home.rglob(f"{SESSION}.jsonl")
                lines = log.read_bytes()
                at_work = lines.count(b'"kind":"agent_started"') - lines.count(b'"kind":"agent_ended"')
    if worker.returncode:
        raise UserError(f"the process that handed work over ended with code {worker.returncode}")
    done = msgspec.json.decode(printed, type=HandedOver)
    findings = (project / FINDINGS).read_text("utf-8").splitlines()
    return msgspec.structs.replace(done, at_work=at_work, findings=tuple(findings))


def main(url: str, folder: str) -> None:
    """Start the session or resume it, and report when the work is done."""
    with (
        anthropic.Anthropic(base_url=url, api_key="simulated-key", max_retries=0) as sdk,
        sevenfold.Agent(
            MODEL,
            name=SESSION,
            folder=folder,
            mode="autonomous",
            client=sdk,
            agents=True,
            memory=False,
            settings={"notes": False, "sandbox": "off"},
        ) as agent,
    ):
        log = agent.session.conversation.transcript.log
        finished = agent.run("" if log.mentions(WORDS["says"]) else WORDS["says"])
        assert agent.team is not None
        roster = list(agent.team.roster)
        done = HandedOver(
            finished.text,
            agents=sorted(entry.started.name for entry in roster),
            once=sum(entry.status == "completed" and entry.runs == 1 for entry in roster),
            delivered=sum(entry.delivered for entry in roster),
        )
    sys.stdout.buffer.write(msgspec.json.encode(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
