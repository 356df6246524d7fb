"""Agents of LangChain, the OpenAI Agents SDK and Pydantic AI, kept within their windows by our adapters."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anthropic
import pytest
from agents import Agent as OpenAIAgent
from agents import ModelSettings, Runner, SQLiteSession, function_tool
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from openai import AsyncOpenAI, BadRequestError, OpenAI
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from bench.page_examples import PAGES, example_of
from sevenfold.doors.adapters.langchain import SevenfoldMiddleware, kept_model
from sevenfold.doors.adapters.openai_agents import SevenfoldProvider
from sevenfold.doors.adapters.pydantic_ai import Sevenfold
from sevenfold.doors.wrapping import conversation
from sevenfold.errors import InputError
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain, text
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.provider import Received, Simulator
from sevenfold.lab.simulator.server import serve

SYSTEM = " ".join(["You help with a project."] * 40)
SETTINGS = {"context_window": 16_000}
FILLER = "The build ran, the pages were drawn again, and nobody had anything to add to it. " * 24
TURNS = 8
WIRES = ("messages", "chat", "responses")
BOUND = "claude-sonnet-5-5"
"""A model whose thinking is valid only behind exactly what was sent before it."""


def working(prompt: ModelPrompt) -> Any:
    """Call the tool when asked to read, think where thinking is on, else answer."""
    newest = prompt.messages[-1]["content"]
    asks = [block for block in newest if block.get("type") == "text" and "Read " in block["text"]]
    thinking = [{"type": "thinking", "thinking": "Let me see."}] if prompt.body.get("thinking") else []
    if asks and not any(block.get("type") == "tool_result" for block in newest):
        name = f"toolu_{len(json.dumps(prompt.messages)):x}{len(prompt.messages)}"
        return [*thinking, {"type": "tool_use", "id": name, "name": "Read", "input": {"path": "a.txt"}}]
    return [*thinking, text(f"Done. {FILLER}")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.chdir(tmp_path)


@contextmanager
def provider(brain: Callable[[ModelPrompt], Any] = working) -> Iterator[tuple[Simulator, str]]:
    simulator = Simulator(ScriptedBrain(brain))
    with serve(simulator) as url:
        yield simulator, url


def turns(simulator: Simulator) -> list[Received]:
    """The agent's own requests, without those of ours for a summary."""
    return [received for received in simulator.requests if b"and a <summary>" not in received.raw[-1_000:]]


def judge(simulator: Simulator, sevenfold: Any, name: str) -> None:
    """Nothing refused, nothing lost of the user's words, less sent than said, and the name stays with us."""
    assert not [received.answer for received in simulator.requests if received.status >= 400]
    assert sevenfold.problems == []
    assert sevenfold.sessions == (name,)
    own = turns(simulator)
    newest = own[-1].raw.decode()
    assert all(f"word-{number}." in newest for number in range(TURNS))
    assert SYSTEM in newest
    assert len(newest) < 0.75 * TURNS * len(content_of("a.txt") + FILLER)
    assert not [
        header for received in simulator.requests for header in received.headers if "sevenfold" in header
    ]


def content_of(path: str) -> str:
    return f"content of file {path}\n" * 250


@tool("Read")
def read_for_langchain(path: str) -> str:
    """Read a file."""
    return content_of(path)


def chat_model(wire: str, url: str) -> Any:
    """A chat model of LangChain, whose types know the names of its fields but not their aliases."""
    anthropics: Any = ChatAnthropic
    openais: Any = ChatOpenAI
    if wire == "messages":
        thinking = {"type": "adaptive"}
        return anthropics(model=BOUND, base_url=url, api_key="key", max_tokens=400, thinking=thinking)
    if wire == "chat":
        return openais(model="gpt-5.1", base_url=f"{url}/v1", api_key="key")
    return openais(
        model="gpt-5.1", base_url=f"{url}/v1", api_key="key", use_responses_api=True, store=False
    )


@pytest.mark.spec("S41.1", "S41.2")
@pytest.mark.parametrize("wire", WIRES)
def test_an_agent_of_langchain_streams_and_is_kept_in_the_session_of_its_thread(wire: str) -> None:
    with provider() as (simulator, url):
        middleware = SevenfoldMiddleware(settings=SETTINGS)
        agent = create_agent(
            chat_model(wire, url),
            [read_for_langchain],
            system_prompt=SYSTEM,
            middleware=[middleware],
            checkpointer=InMemorySaver(),
        )
        thread: Any = {"configurable": {"thread_id": "thread-7"}}
        pieces = 0
        for number in range(TURNS):
            said: Any = {"messages": [{"role": "user", "content": f"Read file word-{number}."}]}
            for _ in agent.stream(said, thread, stream_mode="messages"):
                pieces += 1
        middleware.close()
        judge(simulator, middleware.sevenfold, "thread-7")
        assert pieces > 10 * TURNS
        kept = agent.get_state(thread).values["messages"]
        assert sum(message.type == "human" for message in kept) == TURNS
        # Behind a summary, the simulated model may read the file once more.
        assert len(kept) >= 4 * TURNS


@pytest.mark.spec("S41.1")
def test_an_awaited_agent_of_langchain_without_a_thread_is_told_by_what_it_continues() -> None:
    async def work(agent: Any) -> None:
        messages: list[Any] = []
        for number in range(TURNS):
            messages.append({"role": "user", "content": f"Read file word-{number}."})
            messages = (await agent.ainvoke({"messages": messages}))["messages"]

    with provider() as (simulator, url):
        middleware = SevenfoldMiddleware(settings=SETTINGS, replaces="SummarizationMiddleware")
        model = chat_model("messages", url)
        asyncio.run(
            work(create_agent(model, [read_for_langchain], system_prompt=SYSTEM, middleware=[middleware]))
        )
        middleware.close()
        (name,) = middleware.sevenfold.sessions
        judge(simulator, middleware.sevenfold, name)
        assert middleware.name == "SummarizationMiddleware"


@pytest.mark.spec("S41.2")
def test_an_agent_inside_a_graph_has_a_session_of_its_own_and_without_a_thread_the_callers_name_counts() -> (
    None
):
    with provider() as (_, url):
        middleware = SevenfoldMiddleware(settings=SETTINGS)
        model = chat_model("messages", url)
        agent = create_agent(model, [read_for_langchain], middleware=[middleware])
        graph = StateGraph(MessagesState)
        graph.add_node("research", agent)
        graph.add_edge(START, "research")
        said: Any = {"messages": [{"role": "user", "content": "Hello."}]}
        graph.compile(checkpointer=InMemorySaver()).invoke(
            said, {"configurable": {"thread_id": "thread-7"}}
        )
        with conversation("of-the-caller"):
            agent.invoke(said)
        middleware.close()
        assert middleware.sevenfold.problems == []
        assert middleware.sevenfold.sessions == ("thread-7-research", "of-the-caller")


@pytest.mark.spec("S41.1")
def test_until_something_is_decided_the_provider_gets_langchains_own_bytes() -> None:
    with provider() as (simulator, url):
        middleware = SevenfoldMiddleware(settings=SETTINGS)
        for more in ([], [middleware]):
            agent = create_agent(
                chat_model("messages", url), [read_for_langchain], system_prompt=SYSTEM, middleware=more
            )
            agent.invoke({"messages": [{"role": "user", "content": "Hello, word-0."}]})
        middleware.close()
        plain, kept = (received.raw for received in simulator.requests)
        assert plain == kept


@pytest.mark.spec("S41.3")
def test_the_model_that_an_agent_was_given_stays_as_it_is_and_an_unknown_one_is_refused_with_what_to_use() -> (
    None
):
    middleware = SevenfoldMiddleware()
    model = chat_model("messages", "http://127.0.0.1:9")
    copy = kept_model(model, middleware.sevenfold)
    assert type(copy) is type(model)
    assert type(getattr(copy, "_client")) is anthropic.Anthropic  # noqa: B009
    assert not hasattr(getattr(model, "_client"), "sevenfold")  # noqa: B009
    with pytest.raises(InputError, match="FakeListChatModel; for any other model use `sevenfold gateway"):
        kept_model(FakeListChatModel(responses=["hi"]), middleware.sevenfold)
    with pytest.raises(InputError, match="TestModel; for any other model use `sevenfold gateway"):
        Sevenfold().get_wrapper_model(TestModel())


@pytest.mark.spec("S41.4")
def test_where_the_provider_refuses_every_change_the_agent_finishes_on_its_own_bytes() -> None:
    def stubborn(prompt: ModelPrompt) -> Any:
        if "<continued-session>" in json.dumps(prompt.messages[0]) and prompt.body.get("tools"):
            raise ApiError(400, "invalid_request_error", "nothing of this kind here")
        return working(prompt)

    with provider(stubborn) as (simulator, url):
        middleware = SevenfoldMiddleware(settings=SETTINGS)
        agent = create_agent(
            chat_model("messages", url),
            [read_for_langchain],
            system_prompt=SYSTEM,
            middleware=[middleware],
            checkpointer=InMemorySaver(),
        )
        for number in range(TURNS):
            said: Any = {"messages": [{"role": "user", "content": f"Read file word-{number}."}]}
            agent.invoke(said, {"configurable": {"thread_id": "refused"}})
        middleware.close()
        assert middleware.sevenfold.problems == []
        assert "continued-session" not in turns(simulator)[-1].raw.decode()


@function_tool(name_override="Read")
def read_for_openai_agents(path: str) -> str:
    """Read a file."""
    return content_of(path)


@pytest.mark.spec("S41.1", "S41.2")
@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_an_agent_of_the_openai_sdk_streams_and_is_kept_in_the_session_of_the_same_name(wire: str) -> None:
    async def work(kept: SevenfoldProvider) -> int:
        agent = OpenAIAgent(
            name="reader",
            instructions=SYSTEM,
            tools=[read_for_openai_agents],
            model="gpt-5.1",
            model_settings=ModelSettings(max_tokens=2_000),
        )
        session = SQLiteSession("ticket-9")
        events = 0
        for number in range(TURNS):
            config = kept.run_config(session)
            streamed = Runner.run_streamed(
                agent, f"Read file word-{number}.", session=session, run_config=config
            )
            async for _ in streamed.stream_events():
                events += 1
        session.close()
        await kept.client.close()
        return events

    with provider() as (simulator, url):
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="key")
        kept = SevenfoldProvider(client, use_responses=wire == "responses", settings=SETTINGS)
        events = asyncio.run(work(kept))
        kept.close()
        judge(simulator, kept.sevenfold, "ticket-9")
        assert events > 10 * TURNS


def pydantic_model(wire: str, url: str) -> Any:
    if wire == "messages":
        settings: Any = {"anthropic_thinking": {"type": "adaptive"}, "max_tokens": 400}
        return AnthropicModel(
            BOUND,
            provider=AnthropicProvider(base_url=url, api_key="key"),
            settings=settings,
        )
    kind: Any = OpenAIChatModel if wire == "chat" else OpenAIResponsesModel
    return kind("gpt-5.1", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="key"))


@pytest.mark.spec("S41.1", "S41.2")
@pytest.mark.parametrize("wire", WIRES)
def test_an_agent_of_pydantic_ai_streams_and_is_kept_in_the_session_of_its_conversation(wire: str) -> None:
    async def work(agent: PydanticAgent[None, str]) -> int:
        history: list[Any] = []
        pieces = 0
        async with agent:
            for number in range(TURNS):
                async with agent.run_stream(
                    f"Read file word-{number}.", message_history=history, conversation_id="ticket-4"
                ) as streamed:
                    async for _ in streamed.stream_text(delta=True, debounce_by=None):
                        pieces += 1
                history = streamed.all_messages()
        return pieces

    with provider() as (simulator, url):
        capability = Sevenfold(settings=SETTINGS)
        model = pydantic_model(wire, url)
        agent = PydanticAgent(
            FallbackModel(model, model) if wire == "chat" else model,
            instructions=SYSTEM,
            capabilities=[capability],
        )
        agent.tool_plain(name="Read")(content_of)
        pieces = asyncio.run(work(agent))
        capability.close()
        judge(simulator, capability.sevenfold, "ticket-4")
        assert pieces > 10 * TURNS


@pytest.mark.spec("S41.5")
def test_what_continues_a_conversation_that_the_provider_holds_is_sent_as_it_is_and_not_recorded() -> None:
    async def work(kept: SevenfoldProvider) -> None:
        agent = OpenAIAgent(name="reader", model="gpt-5.1")
        config = kept.run_config("ticket-9")
        # The simulated provider holds no conversations, and says so.
        with pytest.raises(BadRequestError, match="'previous_response_id' is not simulated"):
            await Runner.run(agent, "Hello.", run_config=config, previous_response_id="resp_1")
        await kept.client.close()

    with provider() as (simulator, url):
        kept = SevenfoldProvider(AsyncOpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0))
        asyncio.run(work(kept))
        kept.close()
        assert kept.sevenfold.sessions == ()
        assert kept.sevenfold.problems == []
        assert len(simulator.requests) == 1


@pytest.mark.spec("S41.3")
def test_a_client_that_is_not_awaited_is_refused_where_the_sdk_awaits_its_models() -> None:
    awaited_nowhere: Any = OpenAI(api_key="k")
    with pytest.raises(
        InputError, match="takes an AsyncOpenAI, since the SDK awaits its models, got OpenAI"
    ):
        SevenfoldProvider(awaited_nowhere)


@pytest.mark.spec("S41.3")
@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("sevenfold.doors.adapters.langchain", "langchain.agents.middleware", "langchain"),
        ("sevenfold.doors.adapters.openai_agents", "agents", "openai-agents"),
        ("sevenfold.doors.adapters.pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("sevenfold.lab.simulator.server", "uvicorn", "simulator"),
    ],
)
def test_where_a_package_is_missing_the_error_names_the_extra_that_brings_it(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'sevenfold\[{extra}\]'"):
        import_module(module)


@pytest.mark.spec("S41.3")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_to_install_for_its_example(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    before = " ".join(text.partition("```python")[0].split())
    extras, packages = PAGES[page]
    own, simulator = extras.split(",")
    assert f"pip install 'sevenfold[{own}]'" in before
    assert f"the extra `{simulator}`" in before
    assert "sevenfold.lab.simulator" in example_of(page)
    assert all(f"`{package}`" in before for package in packages)
