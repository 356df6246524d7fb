"""The agent's process: a `sevenfold.Agent` with its standard tools, driven over a pipe.

    python -m sevenfold.lab.demo.worker URL FOLDER SESSION WINDOW LIFE FACT...

It reads `UserSpoke` lines and writes `Report` lines; when its input ends, it judges where the facts are. It is a
separate process so that it can be killed. To make figures reproducible, its clock advances only with commands and by a
fixed time per answer, its ids depend only on LIFE (0 for the first process), and background work ends before each tool.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from random import Random

import anthropic
import msgspec

import sevenfold
from sevenfold.agent.agent_events import AgentEvent, Ended, Happened, ToolEnded
from sevenfold.agent.hooks.registry import Hooks
from sevenfold.archive import fidelity
from sevenfold.archive.fidelity.facts import PREFERENCE, Probe
from sevenfold.clock import ManualClock
from sevenfold.conversation.resume import read
from sevenfold.events import Acted, Answered
from sevenfold.lab.demo import figures
from sevenfold.lab.demo.figures import COUNTER, MODEL, Report, UserSpoke
from sevenfold.layers.compact.check import HITS
from sevenfold.profiles import find
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

_PATIENCE = 60.0


class SeededIds:
    """UUIDs that are the same in every run, but different in every process of the agent."""

    def __init__(self, life: str) -> None:
        self._chance = Random(f"ids {life}")

    def new(self) -> str:
        """The next UUID."""
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))


def main(url: str, folder: str, session: str, window: str, life: str, *facts: str) -> None:
    """Run commands until the input ends."""
    clock = ManualClock()
    hooks = Hooks(project_dir=folder)
    hooks.add("PreToolUse", lambda event: agent.session.settle(_PATIENCE))
    with anthropic.Anthropic(base_url=url, api_key="simulated-key", max_retries=0) as sdk:
        agent = sevenfold.Agent(
            MODEL,
            name=session,
            folder=folder,
            mode="autonomous",
            client=sdk,
            clock=clock,
            ids=SeededIds(life),
            hooks=hooks,
            # With notes as the summary, there would be no model call for one, and the demo is to show that call.
            # Every byte of the requests counts here, so they must not depend on whether this machine has a sandbox.
            settings={"context_window": int(window), "notes_compaction": False, "sandbox": "off"},
            thinking={"type": "adaptive"},
        )
        core = agent.session.conversation
        _tell(figures.AgentStarted(core.window.threshold, resumed=len(core.transcript.view) > 0))
        for line in sys.stdin.buffer:
            command = msgspec.json.decode(line, type=UserSpoke)
            clock.advance(command.now - clock.now())
            for event in agent.stream(command.text):
                if isinstance(event, Ended):
                    agent.session.settle(_PATIENCE)
                if report := _report(event):
                    clock.advance(figures.TURN_SECONDS if isinstance(report, Answered) else 0.0)
                    _tell(report)
        _tell(_judged(agent, facts))
        agent.close()


def _tell(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _report(event: AgentEvent) -> Report | None:
    match event:
        case Happened(event=Answered(source="main") | Acted() as engine_event):
            return engine_event
        case ToolEnded(call=call, output=output):
            result = {"type": "tool_result", "content": output.content}
            arguments = call.input if isinstance(call.input, dict) else {}
            subjects = (arguments.get(key) for key in ("path", "command", "query", "pattern"))
            about = (str(subject) for subject in subjects if subject)
            return figures.ToolUsed(
                call.name, next(about, ""), COUNTER.block(result, find(MODEL).tokenizer)
            )
        case Ended(finished=finished):
            return figures.TaskEnded(finished.end, finished.text)
        case _:
            return None


def _judged(agent: sevenfold.Agent, planted: Sequence[str]) -> figures.FactsJudged:
    """Check the context and recall for the planted facts and for those that the fidelity check finds.

    Facts are taken from the whole conversation, but not from summaries, which only repeat it.
    """
    recall = agent.assembly.store.recall
    transcript = agent.session.conversation.transcript
    recall.catch_up()
    items: list[Item] = []
    for position, entry in read(transcript.log):
        if isinstance(entry, Said) and not (entry.sidechain or entry.summary or entry.attachment):
            items.append(Item.of(entry, position))

    def probe(fact: str) -> Probe:
        holders = (item.record.uuid for item in items if item.record.role == "user" and _holds(item, fact))
        return Probe(PREFERENCE, fact, next(holders, ""), ("user",))

    score = fidelity.judge(
        [*map(probe, planted), *fidelity.probes(items)],
        fidelity.texts(transcript.view.items),
        lambda probe: probe.found_among(recall.found(probe.text, probe.sought, HITS)),
    )
    lost = tuple(probe.text for probe in score.lost)
    return figures.FactsJudged(score.total.in_context, score.total.reachable, lost)


def _holds(item: Item, fact: str) -> bool:
    return any(fact.encode() in block.raw for block in item.shown)


if __name__ == "__main__":
    main(*sys.argv[1:])
