"""The conversation that a program is led through while it is kept: short messages, and files that fill the window.

The simulated model reads some files for each message and writes summaries that have nothing of it, so what is still
there behind a compaction was put there by code.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path

from bench.clients import conversation, judging, programs, story
from sevenfold.lab.simulator.brains import ModelPrompt, Said, text
from sevenfold.lab.simulator.errors import ApiError

TURNS = 18
STUBBORN_TURNS = 9
"""Where the provider refuses every change: too much for the small window, too little for programs to clear."""
READS = 3
"""Files that the model reads for each message."""
LINES = 110
"""Of a file: about 2,000 tokens, which is too little to be stored elsewhere."""
LEAST_RESULT = 50 * LINES
"""Characters of a result that is whole."""
FILES = 60
"""Files of different names; the model begins again with the first one when it has read them all."""
ANSWER = "Noted. The cranes are oiled and the harbour is quiet, so the berths stay as they are. " * 12


def prepare(client: programs.Client) -> None:
    """Write the files that the model will read, and the instructions of the program."""
    client.work.mkdir(parents=True)
    name = programs.INSTRUCTIONS[client.name]
    (client.work / name).write_text(f"The password of the harbour office is {story.INSTRUCTED}.\n")
    for number in range(FILES):
        lines = [
            f"{line:4}  log {number}: the harbour is quiet and the cranes are oiled"
            for line in range(LINES)
        ]
        (client.work / f"log-{number}.txt").write_text("\n".join(lines) + "\n")


class ReadingBrain:
    """Plays the model: reads the files that were planned, answers, and writes summaries that keep nothing."""

    def __init__(self, *, stubborn: bool = False) -> None:
        """A ``stubborn`` one refuses every request that is not as the program wrote it."""
        self._stubborn = stubborn
        self.plan: deque[story.PlannedCall] = deque()
        self._reads = 0

    def plan_turn(self, work: Path) -> None:
        """Plan the calls of the next message."""
        for _ in range(READS):
            self.plan.append(story.reading(work / f"log-{self._reads % FILES}.txt"))
            self._reads += 1

    def answer(self, prompt: ModelPrompt) -> Said:
        """The answer to a request."""
        names = list(story.tool_names(prompt.tools))
        newest = json.dumps(prompt.messages[-1]["content"])[-2_000:] if prompt.messages else ""
        if not names or "Respond with TEXT ONLY" in newest or judging.OURS in newest:
            return story.SUMMARY
        if self._stubborn and is_changed(prompt):
            raise ApiError(
                400, "invalid_request_error", "this provider takes nothing but the whole conversation"
            )
        if self.plan:
            return [self.plan.popleft()(names)]
        return [text(ANSWER)]


def is_changed(prompt: ModelPrompt) -> bool:
    """Whether a conversation is not as the program has it: with all messages of the user, and whole results."""
    blocks = [block for message in prompt.messages for block in message["content"]]
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    said = [any(conversation.message(turn) in text for text in texts) for turn in range(TURNS)]
    has_gap = True in said and not all(said[: len(said) - said[::-1].index(True)])
    results = [json.dumps(block["content"]) for block in blocks if block.get("type") == "tool_result"]
    is_cut = any(len(result) < LEAST_RESULT for result in results)
    return has_gap or is_cut or any(judging.BOUNDARY in text for text in texts)
