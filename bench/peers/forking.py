"""A peer's sub-agents over one conversation, each woken again; `bench/forks.py` runs this in the peer's environment.

    python bench/peers/forking.py PEER URL TOKENS FORKS WAKES

Neither peer can fork an agent, so each sub-agent gets the parent's messages and its task, all at the same time; caching
is set up as the peer's documentation says. Before each part, the script prints a line and waits for a line of input.
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
"""Takes the messages so far (None: none yet) and the user's next words; returns all messages after the answer."""


def deepagents(url: str) -> Ask:
    """An agent of Deep Agents, which has prompt caching built in."""
    chat = import_module("langchain_anthropic").ChatAnthropic
    model = chat(model=MODEL, base_url=url, api_key="simulated-key", max_tokens=1_000, max_retries=0)
    agent = import_module("deepagents").create_deep_agent(model=model)

    async def ask(before: Any, words: str) -> Any:
        said = [*(before or ()), {"role": "user", "content": words}]
        return (await agent.ainvoke({"messages": said}))["messages"]

    return ask


def pydantic_ai(url: str) -> Ask:
    """An agent of Pydantic AI, with its cache settings on."""
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
    """Run the parent's conversation, then the sub-agents, then wake each of them ``wakes`` times."""
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
