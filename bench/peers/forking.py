"""Eight agents over one conversation, each woken again, with a peer; `bench/forks.py` runs this where it is installed.

    python bench/peers/forking.py PEER URL TOKENS FORKS WAKES

Neither peer can fork an agent, so each sub-agent is given the parent's messages and its task, all at the same time; the
cache is marked the way the peer's documentation says. Before each part a line is written, and one is awaited.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

MODEL = "claude-sonnet-5-5"
TEXT = "The harbour has many berths, and each of them is described here in a line of its own. "
Ask = Callable[[Any, str], Awaitable[Any]]
"""Takes what was said so far (None: nothing) and what is said now, and gives what was said then."""


def deepagents(url: str) -> Ask:
    """A deep agent; its prompt caching is part of it."""
    chat = import_module("langchain_anthropic").ChatAnthropic
    model = chat(model=MODEL, base_url=url, api_key="simulated-key", max_tokens=1_000, max_retries=0)
    agent = import_module("deepagents").create_deep_agent(model=model)

    async def ask(before: Any, words: str) -> Any:
        said = [*(before or ()), {"role": "user", "content": words}]
        return (await agent.ainvoke({"messages": said}))["messages"]

    return ask


def pydantic_ai(url: str) -> Ask:
    """An agent of Pydantic AI, with its settings for caching."""
    client = import_module("anthropic").AsyncAnthropic(base_url=url, api_key="simulated-key", max_retries=0)
    provider = import_module("pydantic_ai.providers.anthropic").AnthropicProvider(anthropic_client=client)
    models = import_module("pydantic_ai.models.anthropic")
    settings = {"anthropic_cache_messages": True, "anthropic_cache_instructions": True, "max_tokens": 1_000}
    agent = import_module("pydantic_ai").Agent(
        models.AnthropicModel(MODEL, provider=provider), model_settings=settings
    )

    async def ask(before: Any, words: str) -> Any:
        return (await agent.run(words, message_history=before)).all_messages()

    return ask


PEERS: dict[str, Callable[[str], Ask]] = {"deepagents": deepagents, "pydantic-ai": pydantic_ai}


def _await(part: str) -> None:
    sys.stdout.write(f"{part}\n")
    sys.stdout.flush()
    sys.stdin.readline()


async def work(ask: Ask, tokens: int, forks: int, wakes: int) -> None:
    """The conversation, the sub-agents, and their wakes."""
    _await("parent")
    parent = await ask(None, TEXT * (tokens * 2 // len(TEXT)))
    _await("forks")
    tasks = (f"Task {number}: look at berth {number}." for number in range(forks))
    agents = list(await asyncio.gather(*(ask(parent, task) for task in tasks)))
    for number in range(wakes):
        _await("wakes")
        for place, agent in enumerate(agents):
            agents[place] = await ask(agent, f"And now look at berth {number} again.")
    _await("done")


if __name__ == "__main__":
    name, address, *figures = sys.argv[1:]
    asyncio.run(work(PEERS[name](address), *map(int, figures)))
