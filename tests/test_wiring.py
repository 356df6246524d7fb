"""Who answers when nothing else is said."""

from __future__ import annotations

import asyncio

import pytest

import sevenfold
from sevenfold.clock import ManualClock, RandomIds
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.flow import drive, drive_async
from sevenfold.conversation.transcript import Transcript
from sevenfold.conversation.turn import turn
from sevenfold.profiles import find
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.providers.offline import OfflineClient
from sevenfold.providers.openai.client import OpenAIClient
from sevenfold.providers.registry import async_client_for, client_for
from sevenfold.record import blocks
from sevenfold.record.log import Place
from sevenfold.request.frame import Frame
from sevenfold.stores.memory import MemoryLog
from tests.support import bare_conversation

VARIABLES = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"]


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def _exchange(frame: Frame) -> tuple[Transcript, Conversation]:
    script = Transcript(MemoryLog(), Place("s"), clock=ManualClock(), ids=RandomIds())
    return script, bare_conversation(script, frame, ManualClock())


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "gpt-5.6", "some-local-model"])
def test_without_a_key_the_offline_model_answers_and_says_what_it_is(model):
    script, exchange = _exchange(Frame.of(model, 100))
    script.user([blocks.text("hello there")])
    outcome = drive(turn(exchange), client_for(model))
    said = blocks.words_of(outcome.reply.answer.blocks[0])
    assert "no network, no weights" in said
    assert "hello there" in said
    script.user([blocks.text("hello there")])
    again = asyncio.run(drive_async(turn(exchange), async_client_for(model)))
    assert "hello there" in blocks.words_of(again.reply.answer.blocks[0])


def test_with_a_key_the_models_provider_is_asked(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    anthropic, openai = client_for("claude-sonnet-5-5"), client_for("gpt-5.6")
    assert isinstance(anthropic, AnthropicClient)
    assert isinstance(openai, OpenAIClient)
    anthropic.close()
    openai.close()


def test_a_key_of_another_provider_is_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert isinstance(client_for("claude-sonnet-5-5"), OfflineClient)


def test_an_answer_may_have_no_more_tokens_than_the_model_can_give():
    with sevenfold.Session.in_memory(model="qwen3") as session:
        assert session.conversation.epoch.frame.max_tokens == find("qwen3").max_output
    with sevenfold.Session.in_memory(model="claude-sonnet-5-5") as session:
        assert session.conversation.epoch.frame.max_tokens == 8_000
