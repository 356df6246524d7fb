"""The provider's own compaction on the Responses API: an item only the provider can read, with our text beside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import sevenfold
from sevenfold.cli.main import main
from sevenfold.conversation.flow import drive
from sevenfold.events import Event, SteppedAside
from sevenfold.lab.simulator.brains import NoSummary
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.profiles import find
from sevenfold.providers.openai.client import OpenAIClient
from tests.engine.stage import stage
from tests.engine.working import ASKED, QUIET, SYSTEM, TOOLS, Mind, output
from tests.support import next_request

GPT, OTHER, CHAT, CLAUDE = "gpt-5.6", "gpt-5.7", "gpt-5", "claude-sonnet-5-5"
"""With compaction items; another of the kind; one on Chat Completions; one of another provider."""
COMPACT, RESPOND = "/v1/responses/compact", "/v1/responses"
pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

SECRET = "what only the provider knows"


class World:
    """A simulated provider and what sessions with it told."""

    def __init__(self, url: str, simulator: Simulator) -> None:
        self.url, self.simulator = url, simulator
        self.sdk = openai.OpenAI(api_key="simulated-key", base_url=f"{url}/v1", max_retries=0)
        self.claude = anthropic.Anthropic(api_key="simulated-key", base_url=url, max_retries=0)
        self.events: list[Event] = []

    def options(self, model: str = GPT, **more: Any) -> dict[str, Any]:
        given = {
            "model": model,
            "system": SYSTEM,
            "tools": TOOLS,
            "client": self.claude if model == CLAUDE else self.sdk,
            "clock": self.simulator.clock,
            "listen": [self.events.append],
            "max_tokens": 4_000,
            **more,
        }
        return {**given, "settings": {**QUIET, "context_window": 32_000, **more.get("settings", {})}}

    def begun(self, file: Path | None = None, **more: Any) -> sevenfold.Session:
        session = self.opened(file, **more)
        session.user(ASKED)
        work(session, 6)
        return session

    def opened(self, file: Path | None = None, **more: Any) -> sevenfold.Session:
        options = self.options(**more)
        if file is None:
            return sevenfold.Session.in_memory(**options)
        return sevenfold.Session.open("s", file=file, folder=file.parent, **options)

    def paths(self) -> list[str]:
        return [request.path for request in self.simulator.requests]

    def items(self) -> list[dict[str, Any]]:
        """The input of the last request for an answer."""
        found: list[dict[str, Any]] = self.simulator.requests.answered(RESPOND)[-1].body["input"]
        return found

    def made(self) -> dict[str, Any]:
        """The item the provider made last."""
        found: dict[str, Any] = self.simulator.requests.answered(COMPACT)[-1].answer["output"][-1]
        return found

    def aside(self) -> str:
        return " ".join(event.reason for event in self.events if isinstance(event, SteppedAside))


@contextmanager
def world(mind: Mind | None = None, **more: Any) -> Iterator[World]:
    simulator = Simulator(
        (mind or Mind(thinks=False)).brain(),
        more.pop("setup", None),
        clock=VirtualClock(),
        summarise=more.pop("summarise", lambda request: f"{SECRET}: {len(request.messages)} messages"),
    )
    with stage().serve(simulator) as url:
        made = World(url, simulator)
        yield made
        made.sdk.close()
        made.claude.close()


def work(session: sevenfold.Session, turns: int) -> None:
    for _ in range(turns):
        done = session.complete()
        session.tool_results({call.id: output() for call in done.calls})


def conversation(session: sevenfold.Session) -> list[Any]:
    """What the next request holds of the conversation, in the shape of its API."""
    request = session.prepare()
    found: list[Any] = request["input" if request.wire == "responses" else "messages"]
    return found


def compacted(session: sevenfold.Session, **wish: Any) -> Any:
    done = session.compact(engine="provider", **wish)
    assert done is not None
    assert done.engine == "provider", done.left
    return done


def words(items: Sequence[Mapping[str, Any]], *, decoded: bool = False) -> str:
    """All of it as JSON, or with line ends as they are said."""
    spelt = json.dumps(items, ensure_ascii=False)
    return spelt.replace("\\n", "\n").replace('\\"', '"') if decoded else spelt


@pytest.mark.spec("S9.7", "S9.4")
def test_the_item_is_sent_first_as_it_came_and_the_readable_summary_behind_it() -> None:
    with world() as here, here.begun() as session:
        done = compacted(session)
        session.complete()
        item, text, *_ = here.items()
        assert item == here.made()
        assert text["role"] == "user"
        assert "Never touch config/prod.yaml, and keep port 8443." in text["content"][0]["text"]
        assert done.summary in text["content"][0]["text"]
        assert ASKED in done.words.text
        assert SECRET not in done.summary


@pytest.mark.spec("S9.7")
def test_the_whole_conversation_goes_to_the_address_for_it_and_nothing_is_stored_there() -> None:
    with world() as here, here.begun() as session:
        answered = here.items()
        compacted(session)
        asked = here.simulator.requests.answered(COMPACT)[-1].body
        assert set(asked) == {"model", "instructions", "input", "prompt_cache_key"}
        assert asked["input"][: len(answered)] == answered
        done = session.conversation.state(Compactor).last
        assert done is not None
        assert done.usage is not None
        assert done.usage.prompt > 0
        assert done.calls == 1


@pytest.mark.spec("S9.4", "S10.3")
def test_every_fact_is_in_the_text_since_nobody_can_look_into_the_item() -> None:
    with world() as here, here.begun() as session:
        done = compacted(session)
        assert not done.score.lost
        assert done.score.total.in_context > 0
        assert "src/part1.py" in done.summary


@pytest.mark.spec("S9.4")
def test_the_log_holds_the_boundary_the_readable_summary_and_the_item_byte_for_byte(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here, here.begun(file) as session:
        done = compacted(session)
        kept = [json.loads(line) for line in file.read_bytes().splitlines()]
        signed = next(one for one in kept if one.get("kind") == "signed")
        assert json.dumps(signed["block"]) == json.dumps(here.made())
        assert signed["model"] == GPT
        assert any(one.get("subtype") == "compact_boundary" for one in kept)
        summary = next(one for one in kept if one.get("isCompactSummary"))
        assert done.summary in words([summary], decoded=True)


@pytest.mark.spec("S9.4")
def test_engines_whose_summaries_can_be_checked_come_first_unless_the_settings_say_otherwise() -> None:
    with world() as here, here.begun() as session:
        done = session.compact()
        assert done is not None
        assert done.engine == "fork"
        assert COMPACT not in here.paths()
    with world() as here, here.begun(settings={"compact_engines": ["provider"]}) as session:
        done = session.compact()
        assert done is not None
        assert done.engine == "provider"


@pytest.mark.spec("S9.4")
def test_it_is_asked_when_no_model_writes_a_summary_that_can_be_read() -> None:
    mind = Mind(thinks=False, summary=lambda prompt: "<analysis>only thoughts</analysis>")
    with world(mind) as here, here.begun() as session:
        done = session.compact()
        assert done is not None
        assert done.engine == "provider"
        assert [one.engine for one in done.left] == ["fork", "plain"]


@pytest.mark.spec("S9.4")
def test_instructions_cannot_be_given_to_it_so_it_is_left_out() -> None:
    with world() as here, here.begun() as session:
        done = session.compact(engine="provider", instructions="keep the SQL")
        assert done is not None
        assert done.engine == "extractive"
        assert done.left[0].reason == "it takes no instructions"
        assert COMPACT not in here.paths()


@pytest.mark.spec("S9.7")
@pytest.mark.parametrize("model", [CHAT, "local-8k"])
def test_a_model_on_chat_completions_has_no_such_item_and_other_engines_serve(model: str) -> None:
    with world() as here, here.opened(model=model, settings={"context_window": 16_000}) as session:
        session.user(ASKED)
        work(session, 2)
        done = session.compact(engine="provider")
        assert done is not None
        assert (done.engine, done.left[0].reason) == ("extractive", "the model's provider has none")


@pytest.mark.spec("S9.4")
def test_a_provider_that_fails_to_compact_is_followed_by_code() -> None:
    with world(summarise=lambda request: NoSummary()) as here, here.begun() as session:
        done = session.compact(engine="provider")
        assert done is not None
        assert done.engine == "extractive"
        assert "compacting the conversation" in done.left[0].reason
        session.complete()
        assert all(item.get("type") != "compaction" for item in here.items())


@pytest.mark.spec("S9.7", "S10.1")
def test_undo_brings_back_the_bytes_of_before_and_redo_the_item(tmp_path: Path) -> None:
    with world() as here, here.begun(tmp_path / "s.jsonl") as session:
        before = conversation(session)
        compacted(session)
        after = conversation(session)
        session.undo()
        assert conversation(session) == before
        session.redo()
        assert conversation(session) == after
        session.complete()
        assert here.items()[0] == here.made()


@pytest.mark.spec("S9.7", "S10.1")
def test_a_resumed_session_sends_the_same_bytes_and_past_requests_come_back_as_they_were(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.begun(file) as session:
            compacted(session)
            work(session, 1)
            sent, number = session.at(-1), session.gauge.requests - 1
            waiting = session.prepare().body
        with here.opened(file) as again:
            assert again.prepare().body == waiting
            assert again.at(number) == sent
            work(again, 1)
            assert here.items()[0] == here.made()


@pytest.mark.spec("S9.7")
@pytest.mark.parametrize("model", [OTHER, CLAUDE])
def test_another_model_gets_our_summary_alone_and_the_first_its_item_again(
    tmp_path: Path, model: str
) -> None:
    file = tmp_path / "s.jsonl"
    setup = Setup(models={OTHER: find(GPT)})
    with world(setup=setup) as here:
        with here.begun(file) as session:
            done = compacted(session)
            work(session, 1)
        with here.opened(file, model=model) as other:
            messages = conversation(other)
            assert "encrypted_content" not in words(messages)
            assert done.summary in messages[0]["content"][0]["text"]
            work(other, 1)
        with here.opened(file) as back:
            work(back, 1)
            assert here.items()[0] == here.made()


@pytest.mark.spec("S9.7", "S10.1")
@pytest.mark.parametrize("model", [OTHER, CLAUDE])
def test_undo_and_redo_after_a_change_of_model_ask_the_new_one_without_the_item(
    tmp_path: Path, model: str
) -> None:
    file = tmp_path / "s.jsonl"
    with world(setup=Setup(models={OTHER: find(GPT)})) as here:
        with here.begun(file) as session:
            compacted(session)
            work(session, 1)
        with here.opened(file, model=model) as other:
            for step in (other.undo, other.redo):
                step()
                assert other.prepare()["model"] == model
                assert "encrypted_content" not in words(conversation(other))
                work(other, 1)


@pytest.mark.spec("S9.7")
def test_an_item_the_provider_can_no_longer_read_is_left_out_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here, here.begun(file) as session:
        done = compacted(session)
        work(session, 1)
    with world(setup=Setup(secret=b"another key")) as here, here.opened(file) as session:
        work(session, 2)
        assert "compaction" not in {item.get("type") for item in here.items()}
        assert done.summary in words(here.items(), decoded=True)
        assert "can no longer read its own summary" in here.aside()
        refused = [one for one in here.simulator.requests if one.status == 400]
        assert len(refused) == 1
    with world(setup=Setup(secret=b"another key")) as here, here.opened(file) as session:
        work(session, 1)
        assert all(one.status == 200 for one in here.simulator.requests)


@pytest.mark.spec("S9.7", "S9.4")
def test_the_next_compaction_hands_on_the_facts_of_the_text_whatever_the_engine() -> None:
    for engine in ("provider", "fork", "plain", "extractive"):
        with world() as here, here.begun() as session:
            compacted(session)
            work(session, 4)
            done = session.compact(engine=engine)
            assert done is not None
            assert done.engine == engine, done.left
            assert ASKED in done.words.text
            session.complete()
            sealed = [item for item in here.items() if item.get("type") == "compaction"]
            assert sealed == ([here.made()] if engine == "provider" else [])


@pytest.mark.spec("S9.7")
def test_another_model_that_summarises_is_not_sent_the_item() -> None:
    with world() as here, here.begun(settings={"summary_model": CHAT}) as session:
        compacted(session)
        work(session, 4)
        done = session.compact(engine="plain")
        assert done is not None
        assert done.engine == "plain", done.left
        asked = here.simulator.requests.answered("/v1/chat/completions")[-1].raw
        assert b"encrypted_content" not in asked
        assert b"[compaction]" not in asked


@pytest.mark.spec("S9.7", "S6.7")
def test_a_fork_shares_the_item_with_its_session() -> None:
    with world() as here, here.begun() as session:
        compacted(session)
        work(session, 1)
        shared = here.items()
        fork = session.fork("prompt_suggestion")
        fork.user("What next?")
        drive(fork.turn(), OpenAIClient(here.sdk))
        assert here.items()[: len(shared)] == shared


@pytest.mark.spec("S9.5")
def test_it_can_be_made_in_the_background(tmp_path: Path) -> None:
    more = {"background_compaction": True, "compact_engines": ["provider"]}
    with world() as here, here.opened(settings=more) as session:
        session.user(ASKED)
        for _ in range(60):
            work(session, 1)
            session.settle()
            if COMPACT in here.paths():
                break
        work(session, 2)
        assert here.items()[0] == here.made()


@pytest.mark.spec("S9.7")
def test_sessions_that_are_awaited_have_it_too() -> None:
    async def run(here: World) -> None:
        client = openai.AsyncOpenAI(api_key="simulated-key", base_url=f"{here.url}/v1", max_retries=0)
        options = {**here.options(), "client": client}
        async with client, await sevenfold.AsyncSession.in_memory(**options) as session:
            await session.user(ASKED)
            for _ in range(5):
                done = await session.complete()
                await session.tool_results({call.id: output() for call in done.calls})
            made = await session.compact(engine="provider")
            assert made is not None
            assert made.engine == "provider"
            await session.complete()
            assert here.items()[0] == here.made()

    with world() as here:
        asyncio.run(run(here))


@pytest.mark.spec("S9.7")
def test_a_client_kept_to_chat_completions_gets_the_text_and_no_item() -> None:
    with world() as here, here.begun() as session:
        compacted(session)
        OpenAIClient(here.sdk, api="chat").ask(next_request(session.conversation).call)
        asked = here.simulator.requests.answered("/v1/chat/completions")[-1].body
        assert ASKED in words(asked["messages"])
        assert "encrypted_content" not in words(asked["messages"])


@pytest.mark.spec("S9.4", "S9.7")
def test_a_signed_summary_too_is_for_the_model_that_made_it(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.begun(file, model=CLAUDE) as session:
            done = compacted(session)
            assert b'"signature"' in session.prepare().body
        with here.opened(file) as other:
            messages = conversation(other)
            assert done.summary in words(messages, decoded=True)
            work(other, 1)
            assert "signature" not in words(here.items())


@pytest.mark.spec("S9.7", "S10.3")
def test_the_audit_reads_such_a_transcript_and_finds_nothing_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here, here.begun(file) as session:
        compacted(session)
        work(session, 1)
    assert main(["audit", str(file)]) == 0
    assert "Sevenfold's compactions lost nothing." in capsys.readouterr().out
