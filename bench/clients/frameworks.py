"""An agent of a framework, led through a conversation: run by the Python of an environment that has the framework.

    python -m bench.clients.frameworks FRAMEWORK WIRE URL [--by sevenfold|none|own] [--bound] [--turns N]

Prints one line of JSON at the end: how many messages the framework kept, pieces that were streamed, and what went wrong
in between. Every other message is streamed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.clients import conversation

WINDOW = 24_000
KEY = "simulated-key"
NAME = "ticket-42"
OPENAI = "gpt-5.1"
FREE = "claude-opus-4-6"
BOUND = "claude-sonnet-5-5"
"""A model whose thinking is valid only behind exactly what was sent before it."""
MOST_TOKENS = 4_000
SETTINGS: dict[str, object] = {"context_window": WINDOW}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("framework", choices=tuple(DRIVERS))
    parser.add_argument("wire", choices=("messages", "chat", "responses"))
    parser.add_argument("url")
    parser.add_argument("--by", choices=("sevenfold", "none", "own"), default="sevenfold")
    parser.add_argument("--bound", action="store_true")
    parser.add_argument("--turns", type=int, default=conversation.TURNS)
    options = parser.parse_args()
    print(json.dumps(DRIVERS[options.framework](options)))
    return 0


def _chat_model(options: argparse.Namespace) -> Any:
    # Typed as anything: the models take aliases of fields that their types do not know.
    if options.wire == "messages":
        anthropic: Any = import_module("langchain_anthropic").ChatAnthropic
        return anthropic(
            model=BOUND if options.bound else FREE,
            base_url=options.url,
            api_key=KEY,
            max_tokens=MOST_TOKENS,
            max_retries=0,
            thinking={"type": "adaptive"},
        )
    openai: Any = import_module("langchain_openai").ChatOpenAI
    stateless = {"store": False, "use_responses_api": True} if options.wire == "responses" else {}
    return openai(model=OPENAI, base_url=f"{options.url}/v1", api_key=KEY, max_retries=0, **stateless)


def _tool() -> Any:
    from langchain_core.tools import tool

    @tool(conversation.TOOL)
    def read_log(name: str) -> str:
        """Read a log of the harbour."""
        return conversation.log(name)

    return read_log


def _langchain(options: argparse.Namespace) -> dict[str, Any]:
    from langchain.agents import create_agent
    from langchain.agents.middleware import SummarizationMiddleware
    from langgraph.checkpoint.memory import InMemorySaver

    model = _chat_model(options)
    middleware: list[Any] = []
    if options.by == "own":
        middleware = [SummarizationMiddleware(model=model, trigger=("tokens", WINDOW * 3 // 4))]
    elif options.by == "sevenfold":
        middleware = [_sevenfold_middleware("")]
    agent = create_agent(
        model,
        [_tool()],
        system_prompt=conversation.SYSTEM,
        middleware=middleware,
        checkpointer=InMemorySaver(),
    )
    return _led(agent, middleware, options)


def _deepagents(options: argparse.Namespace) -> dict[str, Any]:
    from deepagents import create_deep_agent
    from deepagents.backends import StateBackend
    from deepagents.middleware.summarization import SummarizationMiddleware
    from langgraph.checkpoint.memory import InMemorySaver

    model = _chat_model(options)
    middleware: list[Any] = []
    if options.by == "own":
        # Its thresholds are shares of the model's window; here they are those of the small one.
        middleware = [
            SummarizationMiddleware(
                model=model,
                backend=StateBackend(),
                trigger=("tokens", WINDOW * 85 // 100),
                keep=("tokens", WINDOW // 10),
            )
        ]
    elif options.by == "sevenfold":
        middleware = [_sevenfold_middleware("SummarizationMiddleware")]
    agent = create_deep_agent(
        model=model,
        tools=[_tool()],
        system_prompt=conversation.SYSTEM,
        middleware=middleware,
        checkpointer=InMemorySaver(),
    )
    return _led(agent, middleware, options)


def _sevenfold_middleware(replaces: str) -> Any:
    from sevenfold.doors.adapters.langchain import SevenfoldMiddleware

    return SevenfoldMiddleware(replaces=replaces, settings=SETTINGS)


def _led(agent: Any, middleware: list[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Lead an agent of LangChain through the conversation."""
    thread = {"configurable": {"thread_id": NAME}}
    pieces = 0
    for turn in range(options.turns):
        said = {"messages": [{"role": "user", "content": conversation.message(turn)}]}
        if turn % 2:
            agent.invoke(said, thread)
        else:
            pieces += sum(1 for _ in agent.stream(said, thread, stream_mode="messages"))
    problems: list[str] = []
    for each in middleware:
        if hasattr(each, "sevenfold"):
            each.close()
            problems += each.sevenfold.problems
    kept = len(agent.get_state(thread).values["messages"])
    return {"messages": kept, "pieces": pieces, "problems": problems}


def _pydantic_ai(options: argparse.Namespace) -> dict[str, Any]:
    from pydantic_ai import Agent

    from sevenfold.doors.adapters.pydantic_ai import Sevenfold

    capability = Sevenfold(settings=SETTINGS)
    agent: Any = Agent(
        _pydantic_model(options), instructions=conversation.SYSTEM, capabilities=[capability], retries=0
    )

    @agent.tool_plain(name=conversation.TOOL)  # type: ignore[untyped-decorator]
    def read_log(name: str) -> str:
        """Read a log of the harbour."""
        return conversation.log(name)

    async def work() -> tuple[int, int]:
        history: list[Any] = []
        pieces = 0
        async with agent:
            for turn in range(options.turns):
                asked: dict[str, Any] = {"message_history": history, "conversation_id": NAME}
                if turn % 2:
                    history = (await agent.run(conversation.message(turn), **asked)).all_messages()
                    continue
                async with agent.run_stream(conversation.message(turn), **asked) as streamed:
                    async for _ in streamed.stream_text(delta=True, debounce_by=None):
                        pieces += 1
                history = streamed.all_messages()
        return len(history), pieces

    messages, pieces = asyncio.run(work())
    capability.close()
    return {"messages": messages, "pieces": pieces, "problems": capability.sevenfold.problems}


def _pydantic_model(options: argparse.Namespace) -> Any:
    if options.wire == "messages":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        settings: Any = {"anthropic_thinking": {"type": "adaptive"}, "max_tokens": MOST_TOKENS}
        anthropic = AnthropicProvider(base_url=options.url, api_key=KEY)
        return AnthropicModel(BOUND if options.bound else FREE, provider=anthropic, settings=settings)
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind: Any = OpenAIChatModel if options.wire == "chat" else OpenAIResponsesModel
    return kind(OPENAI, provider=OpenAIProvider(base_url=f"{options.url}/v1", api_key=KEY))


def _openai_agents(options: argparse.Namespace) -> dict[str, Any]:
    from agents import Agent, Runner, SQLiteSession, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    from sevenfold.doors.adapters.openai_agents import SevenfoldProvider

    set_tracing_disabled(True)

    @function_tool(name_override=conversation.TOOL)
    def read_log(name: str) -> str:
        """Read a log of the harbour."""
        return conversation.log(name)

    agent = Agent(name="clerk", instructions=conversation.SYSTEM, tools=[read_log], model=OPENAI)

    async def work() -> dict[str, Any]:
        client = AsyncOpenAI(base_url=f"{options.url}/v1", api_key=KEY, max_retries=0)
        kept = SevenfoldProvider(client, use_responses=options.wire == "responses", settings=SETTINGS)
        session = SQLiteSession(NAME)
        pieces = 0
        for turn in range(options.turns):
            config = kept.run_config(session)
            if turn % 2:
                await Runner.run(agent, conversation.message(turn), session=session, run_config=config)
                continue
            streamed = Runner.run_streamed(
                agent, conversation.message(turn), session=session, run_config=config
            )
            async for _ in streamed.stream_events():
                pieces += 1
        messages = len(await session.get_items())
        session.close()
        kept.close()
        await kept.client.close()
        return {"messages": messages, "pieces": pieces, "problems": kept.sevenfold.problems}

    return asyncio.run(work())


def _litellm(options: argparse.Namespace) -> dict[str, Any]:
    """It has no adapter: the address is that of a gateway that keeps."""
    import os

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    function = {
        "name": conversation.TOOL,
        "description": "Read a log of the harbour.",
        "parameters": schema,
    }
    is_messages = options.wire == "messages"
    fields: dict[str, Any] = {
        "model": f"anthropic/{FREE}" if is_messages else f"openai/{OPENAI}",
        "api_base": options.url if is_messages else f"{options.url}/v1",
        "api_key": KEY,
        "tools": [{"type": "function", "function": function}],
        "num_retries": 0,
        **({"max_tokens": MOST_TOKENS} if is_messages else {}),
    }
    messages: list[Any] = [{"role": "system", "content": conversation.SYSTEM}]
    pieces = 0
    for turn in range(options.turns):
        messages.append({"role": "user", "content": conversation.message(turn)})
        while True:
            if turn % 2:
                answer = litellm.completion(messages=messages, **fields)
            else:
                chunks = list(litellm.completion(messages=messages, stream=True, **fields))
                pieces += len(chunks)
                answer = litellm.stream_chunk_builder(chunks, messages=messages)
            said = answer.choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            if not said.tool_calls:
                break
            for call in said.tool_calls:
                content = conversation.log(json.loads(call.function.arguments)["name"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return {"messages": len(messages), "pieces": pieces, "problems": []}


def _hermes(options: argparse.Namespace) -> dict[str, Any]:
    """The plugin is installed and enabled before, in the folder that HERMES_HOME names."""
    registry: Any = import_module("tools.registry").registry
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    described = {
        "name": conversation.TOOL,
        "description": "Read a log of the harbour.",
        "parameters": schema,
    }
    registry.register(
        name=conversation.TOOL,
        toolset="harbour",
        schema=described,
        handler=lambda arguments, **_: conversation.log(arguments["name"]),
    )
    pieces: list[str] = []
    agent: Any = import_module("run_agent").AIAgent(
        base_url=f"{options.url}/v1",
        api_key=KEY,
        provider="custom",
        model=OPENAI,
        ephemeral_system_prompt=conversation.SYSTEM,
        enabled_toolsets=["harbour"],
        skip_context_files=True,
        quiet_mode=True,
    )
    if options.by == "sevenfold":
        assert agent.context_compressor.name == "sevenfold", "Hermes did not load the plugin"
    messages: list[Any] = []
    for turn in range(options.turns):
        streams = {} if turn % 2 else {"stream_callback": pieces.append}
        done = agent.run_conversation(conversation.message(turn), conversation_history=messages, **streams)
        messages = done["messages"]
    agent.shutdown_memory_provider(messages)
    return {"messages": len(messages), "pieces": len(pieces), "problems": []}


DRIVERS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "langchain": _langchain,
    "deepagents": _deepagents,
    "pydantic-ai": _pydantic_ai,
    "openai-agents": _openai_agents,
    "litellm": _litellm,
    "hermes": _hermes,
}


if __name__ == "__main__":
    sys.exit(main())
