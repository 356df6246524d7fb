"""Turns, resuming and stored bytes in PostgreSQL: ours, LangGraph's checkpointer and OpenAI Agents' SQLAlchemy session.

    python bench/store_peers.py [--messages N] [--turns N]      default: 1000 40

Each engine gets a conversation of N messages of 600 characters in the same server, then turns of the same shape: a
question, a call of a tool, its result, an answer. The models are stand-ins that answer at once. A turn is timed from
the question to the answer, with everything the engine stores; resuming from a fresh object to the messages in memory,
for ours with the lease and the fold. Each runs in its own process and environment, with its defaults; the server forces
every commit to disk. Medians of wall times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

TEXT = "words that a session is made of, " * 18
RESUMES = 7
PACKAGES = {
    "langgraph-postgres": ("langgraph", "langgraph-checkpoint-postgres", "psycopg[binary,pool]"),
    "openai-agents-postgres": ("openai-agents[sqlalchemy]", "psycopg[binary]"),
}


def timed(work: Callable[[], object]) -> float:
    """How long some work takes, in milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1_000


def report(turns: list[float], resumes: list[float], before: int, after: int) -> dict[str, float]:
    """The figures of one engine."""
    return {
        "turn": statistics.median(turns[1:]),
        "resume": statistics.median(resumes[1:]),
        "bytes": (after - before) / len(turns),
    }


def stored(url: str) -> int:
    """The bytes of all tables with their indexes."""
    psycopg = import_module("psycopg")
    query = (
        "SELECT sum(pg_total_relation_size(pg_class.oid)) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE relkind = 'r' AND nspname NOT IN ('pg_catalog', 'information_schema')"
    )
    with psycopg.connect(url) as connection:
        return int(connection.execute(query).fetchone()[0] or 0)


# -- the engines -----------------------------------------------------------------------------------


def ours(url: str, messages: int, turns: int) -> dict[str, float]:
    """A session in our store."""
    import sevenfold
    from bench.store_cost import MODEL, READ
    from sevenfold.stores.postgres.store import PostgresStore

    store = PostgresStore.at(url)
    folder = tempfile.mkdtemp()
    steps: list[Any] = []
    for number in range(turns):
        steps += [[{"type": "tool_use", "name": "Read", "id": f"toolu_{number}", "input": {}}], TEXT]

    def opened() -> sevenfold.Session:
        return sevenfold.Session.open(
            "bench",
            model=MODEL,
            store=store,
            folder=folder,
            tools=[READ],
            client=sevenfold.OfflineClient(sevenfold.Script(iter(steps))),
            settings={"context_window": 1_000_000, "notes": False},
        )

    def turn(session: sevenfold.Session) -> None:
        session.user(TEXT)
        asked = session.complete()
        session.tool_results({call.id: TEXT for call in asked.calls})
        session.complete()

    with opened() as session:
        session.messages(
            {"role": ("user", "assistant")[number % 2], "content": TEXT} for number in range(messages)
        )
        turn(session)
        before = stored(url)
        times = [timed(partial(turn, session)) for _ in range(turns - 1)]
    after = stored(url)
    resumes = []
    for _ in range(RESUMES):
        began = time.perf_counter()
        again = opened()
        resumes.append((time.perf_counter() - began) * 1_000)
        again.close()
    store.close()
    return report(times, resumes, before, after)


def langgraph(url: str, messages: int, turns: int) -> dict[str, float]:
    """A graph of a model and a tool, with its checkpoints in PostgreSQL."""
    kinds, graphs = import_module("langchain_core.messages"), import_module("langgraph.graph")
    saver = import_module("langgraph.checkpoint.postgres").PostgresSaver
    thread = {"configurable": {"thread_id": "bench"}}

    def model(state: Any) -> Any:
        if state["messages"][-1].type == "human":
            call = {"name": "Read", "args": {}, "id": uuid4().hex}
            return {"messages": [kinds.AIMessage("", tool_calls=[call])]}
        return {"messages": [kinds.AIMessage(TEXT)]}

    def tool(state: Any) -> Any:
        (call,) = state["messages"][-1].tool_calls
        return {"messages": [kinds.ToolMessage(TEXT, tool_call_id=call["id"])]}

    def following(state: Any) -> str:
        return "tool" if state["messages"][-1].tool_calls else str(graphs.END)

    def compiled(checkpoints: Any) -> Any:
        graph = graphs.StateGraph(graphs.MessagesState)
        graph.add_node("model", model)
        graph.add_node("tool", tool)
        graph.add_edge(graphs.START, "model")
        graph.add_conditional_edges("model", following, ["tool", graphs.END])
        graph.add_edge("tool", "model")
        return graph.compile(checkpointer=checkpoints)

    with saver.from_conn_string(url) as checkpoints:
        checkpoints.setup()
        graph = compiled(checkpoints)
        history = [(kinds.HumanMessage, kinds.AIMessage)[number % 2](TEXT) for number in range(messages)]
        graph.update_state(thread, {"messages": history}, as_node="model")

        def turn() -> None:
            graph.invoke({"messages": [kinds.HumanMessage(TEXT)]}, thread)

        turn()
        before = stored(url)
        times = [timed(turn) for _ in range(turns - 1)]
        after = stored(url)
    resumes = []
    for _ in range(RESUMES):
        with saver.from_conn_string(url) as checkpoints:
            fresh = compiled(checkpoints)
            resumes.append(timed(partial(fresh.get_state, thread)))
    return report(times, resumes, before, after)


def openai_agents(url: str, messages: int, turns: int) -> dict[str, float]:
    """An agent with a tool, with its session in PostgreSQL through SQLAlchemy."""
    agents, responses = import_module("agents"), import_module("openai.types.responses")
    sessions = import_module("agents.extensions.memory").SQLAlchemySession
    usage = import_module("agents.usage").Usage

    async def answer(self: Any, *given: Any, **named: Any) -> Any:
        items = named["input"] if "input" in named else given[1]
        if isinstance(items, str) or items[-1].get("role") == "user":
            output = responses.ResponseFunctionToolCall(
                call_id=uuid4().hex, name="read", arguments="{}", type="function_call"
            )
        else:
            text = responses.ResponseOutputText(text=TEXT, type="output_text", annotations=[])
            output = responses.ResponseOutputMessage(
                id=f"msg_{uuid4().hex}",
                type="message",
                role="assistant",
                status="completed",
                content=[text],
            )
        return import_module("agents.items").ModelResponse(output=[output], usage=usage(), response_id=None)

    base = import_module("agents.models.interface").Model
    model = type("Scripted", (base,), {"get_response": answer, "stream_response": answer})()
    agent = agents.Agent(
        name="bench",
        instructions="Be brief.",
        model=model,
        tools=[agents.function_tool(lambda: TEXT, name_override="read", description_override="Read.")],
    )
    address = url.replace("postgresql://", "postgresql+psycopg://", 1)
    plain = agents.RunConfig(tracing_disabled=True)
    loop = asyncio.new_event_loop()

    def opened() -> Any:
        return sessions.from_url("bench", url=address, create_tables=True)

    session = opened()
    history = [{"role": ("user", "assistant")[number % 2], "content": TEXT} for number in range(messages)]
    loop.run_until_complete(session.add_items(history))

    def turn() -> None:
        loop.run_until_complete(agents.Runner.run(agent, TEXT, session=session, run_config=plain))

    turn()
    before = stored(url)
    times = [timed(turn) for _ in range(turns - 1)]
    after = stored(url)
    resumes = [timed(lambda: loop.run_until_complete(opened().get_items())) for _ in range(RESUMES)]
    return report(times, resumes, before, after)


ENGINES = {"sevenfold": ours, "langgraph-postgres": langgraph, "openai-agents-postgres": openai_agents}


# -- the run ---------------------------------------------------------------------------------------


def measure(messages: int = 1_000, turns: int = 40) -> dict[str, dict[str, float]]:
    """The figures of all engines, one after the other, each with a server of its own."""
    from bench.peers.environments import python_of
    from bench.peers.timing import Adapter
    from bench.servers.postgres import OWNER, PostgresServer

    figures: dict[str, dict[str, float]] = {}
    for name in ENGINES:
        python = python_of(Adapter(name, (), PACKAGES.get(name, ())))
        with PostgresServer(durable=True) as server:
            command = [str(python), __file__, "--engine", name, "--url", server.url(OWNER)]
            command += ["--messages", str(messages), "--turns", str(turns)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.strip()[-600:]}")
        figures[name] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> int:
    """Measure all engines and print a table, or be one of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=40)
    for name in ("engine", "url"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        print(json.dumps(ENGINES[given.engine](given.url, given.messages, given.turns)))
        return 0
    print(f"{'':24}{'turn, ms':>12}{'resume, ms':>12}{'stored per turn, KB':>22}")
    for name, figures in measure(given.messages, given.turns).items():
        kilobytes = figures["bytes"] / 1_000
        print(f"{name:24}{figures['turn']:12.1f}{figures['resume']:12.1f}{kilobytes:22.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
