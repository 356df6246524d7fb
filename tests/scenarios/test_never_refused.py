"""Whatever happens in a conversation, the provider takes the next request."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sevenfold.record import blocks
from sevenfold.record.decisions import (
    CompactMetadata,
    MicrocompactMetadata,
    Rewound,
    Segment,
    Snip,
    Undone,
)
from sevenfold.record.layout import rounds
from tests.scenarios.conversing import Conversation, conversation

NUMBERS = st.integers(0, 2**16)
MODELS = ["claude-sonnet-5-5", "claude-opus-5-5", "claude-opus-4-6", "claude-haiku-4-5"]


class Conversations(RuleBasedStateMachine):
    """Random talk and random decisions; every request goes to the simulator, which enforces the rules."""

    held: Conversation

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.decisions: list[str] = []

    @initialize(model=st.sampled_from(MODELS))
    def begin(self, model: str) -> None:
        thinking = {"type": "adaptive"} if "haiku" not in model else None
        self.held = self.stack.enter_context(conversation(model, thinking=thinking))

    def teardown(self) -> None:
        self.stack.close()

    @rule(words=st.sampled_from(["go on", " ", "你好", "x" * 200]))
    def the_user_speaks(self, words: str) -> None:
        self.held.script.user([blocks.text(words), blocks.text("please")])
        self.held.ask()

    @precondition(lambda self: self.held.outcomes)
    @rule(times=st.integers(1, 3))
    def the_agent_works(self, times: int) -> None:
        for _ in range(times):
            self.held.ask()

    @precondition(lambda self: self.held.outcomes)
    @rule(which=NUMBERS)
    def results_are_cleared(self, which: int) -> None:
        calls = [call for item in self.held.script.view.items for call in item.record.answers]
        about = MicrocompactMetadata(compacted_tool_ids=calls[: which % 4])
        self.decisions.append(self.held.script.clear(about))

    @precondition(lambda self: self.held.outcomes)
    @rule(first=NUMBERS, length=st.integers(0, 5))
    def rounds_are_snipped(self, first: int, length: int) -> None:
        whole = rounds(self.held.script.view.items)[:-1]
        if not whole:
            return
        start = first % len(whole)
        end = min(start + length, len(whole) - 1)
        snip = Snip(first=whole[start].items[0].record.uuid, last=whole[end].items[-1].record.uuid)
        self.decisions.append(self.held.script.decide(snip).id)

    @precondition(lambda self: self.held.outcomes)
    @rule(cut=NUMBERS, keeps=st.booleans())
    def the_conversation_is_compacted(self, cut: int, keeps: bool) -> None:
        script = self.held.script
        items = [item.record.uuid for item in script.view.items]
        heads = [uuid for uuid in items if script.view.begins_round(uuid)]
        anchor = script.new_id()
        kept = Segment(heads[cut % len(heads)], anchor, items[-1]) if keeps and heads else None
        about = CompactMetadata(preserved_segment=kept)
        self.held.exchange.announce("compaction")
        self.decisions.append(script.compact(about, [blocks.text("in short")], anchor=anchor))

    @precondition(lambda self: self.decisions)
    @rule(which=NUMBERS)
    def a_decision_is_undone(self, which: int) -> None:
        self.held.script.decide(Undone(decision=self.decisions[which % len(self.decisions)]))

    @precondition(lambda self: self.held.outcomes)
    @rule(which=NUMBERS)
    def the_user_rewinds(self, which: int) -> None:
        items = self.held.script.view.items
        self.held.script.decide(Rewound(to=items[which % len(items)].record.uuid))
        self.the_user_speaks("another way")


Conversations.TestCase.settings = settings(
    max_examples=settings().max_examples // 4, stateful_step_count=12, deadline=None
)
TestConversations = pytest.mark.spec("S9.2")(Conversations.TestCase)
