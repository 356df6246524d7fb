"""LangChain: its middleware for summaries and clearing, and LangGraph's checkpoints in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.peers.adapters import SUMMARY, SYSTEM
from bench.peers.sessions import Message, Session, calls_a_tool
from bench.peers.timing import Adapter, Bench, Case

NEVER = 10**9
"""A threshold in tokens that is never reached."""
THREAD = {"configurable": {"thread_id": "bench"}}


def model() -> Any:
    """A chat model that always gives the same answer, and that the middleware takes for one of Anthropic's."""
    base = import_module("langchain_core.language_models.chat_models").BaseChatModel
    messages, outputs = import_module("langchain_core.messages"), import_module("langchain_core.outputs")

    def generate(self: Any, *_: Any, **__: Any) -> Any:
        used = {"input_tokens": 1000, "output_tokens": 400, "total_tokens": 1400}
        said = messages.AIMessage(
            content=SUMMARY, usage_metadata=used, response_metadata={"model_provider": "anthropic"}
        )
        return outputs.ChatResult(generations=[outputs.ChatGeneration(message=said)])

    members = {
        "_generate": generate,
        "_llm_type": property(lambda self: "anthropic-chat-fake"),
        "bind_tools": lambda self, tools, **more: self,
    }
    return type("Scripted", (base,), members)()


def converted(said: list[Message]) -> list[Any]:
    """The messages converted to LangChain's classes, in the form its Anthropic model returns them."""
    kinds = import_module("langchain_core.messages")
    return [_converted(kinds, message) for message in said]


def _converted(kinds: Any, message: Message) -> Any:
    content = message["content"]
    if message["role"] == "user" and content[0]["type"] == "tool_result":
        result = content[0]
        return kinds.ToolMessage(
            id=message["id"], content=result["content"], tool_call_id=result["tool_use_id"], name="tool"
        )
    if message["role"] == "user":
        return kinds.HumanMessage(id=message["id"], content=content[0]["text"])
    used = message["usage"]
    calls = [block for block in content if block["type"] == "tool_use"]
    return kinds.AIMessage(
        id=message["id"],
        content=content if calls_a_tool(message) else content[0]["text"],
        tool_calls=[{"name": call["name"], "args": call["input"], "id": call["id"]} for call in calls],
        usage_metadata={**used, "total_tokens": sum(used.values())},
        response_metadata={"model_provider": "anthropic", "model_name": "claude-sonnet-5-5"},
    )


def growing(session: Session) -> Callable[[int], list[Any]]:
    """A function that adds the given turn to the list of messages and returns the list."""
    messages, turns = converted(session.history), [converted(turn) for turn in session.turns]

    def prepare(turn: int) -> list[Any]:
        messages.extend(turns[turn])
        return messages

    return prepare


def _summarization(trigger: int) -> Any:
    middleware = import_module("langchain.agents.middleware")
    return middleware.SummarizationMiddleware(model=model(), trigger=("tokens", trigger))


def _below_threshold(session: Session, bench: Bench) -> None:
    middleware = _summarization(NEVER)
    bench.loop(lambda messages: middleware.before_model({"messages": messages}, None), growing(session))


def _summarize(session: Session, bench: Bench) -> None:
    middleware = _summarization(20_000)
    bench.loop(lambda messages: middleware.before_model({"messages": messages}, None), growing(session))


def _editing(session: Session, bench: Bench, trigger: int) -> None:
    edits = import_module("langchain.agents.middleware.context_editing")
    types = import_module("langchain.agents.middleware.types")
    middleware = edits.ContextEditingMiddleware(edits=[edits.ClearToolUsesEdit(trigger=trigger)])
    scripted = model()

    def step(messages: list[Any]) -> Any:
        request = types.ModelRequest(
            model=scripted, messages=messages, system_prompt=SYSTEM, tools=[], state={"messages": messages}
        )
        return middleware.wrap_model_call(request, lambda asked: asked.messages)

    bench.loop(step, growing(session))


def _saver(bench: Bench) -> Any:
    connection = sqlite3.connect(bench.folder / "checkpoints.db", check_same_thread=False)
    return import_module("langgraph.checkpoint.sqlite").SqliteSaver(connection)


def _agent(saver: Any) -> Any:
    return import_module("langchain.agents").create_agent(
        model(), tools=[], system_prompt=SYSTEM, middleware=[_summarization(NEVER)], checkpointer=saver
    )


def _whole_turn(session: Session, bench: Bench) -> None:
    agent = _agent(_saver(bench))
    agent.update_state(THREAD, {"messages": converted(session.history)})
    turns = [converted(turn) for turn in session.turns]
    bench.loop(lambda turn: agent.invoke({"messages": turn}, THREAD), lambda turn: turns[turn])


def _resume(session: Session, bench: Bench) -> None:
    _agent(_saver(bench)).update_state(THREAD, {"messages": converted(session.all)})
    bench.loop(lambda _: _agent(_saver(bench)).get_state(THREAD).values, lambda turn: None, turns=6)


ADAPTER = Adapter(
    "langchain",
    (
        Case(
            "turn: summary check", "summarization middleware, its threshold not reached", _below_threshold
        ),
        Case(
            "turn: clearing check",
            "context editing middleware, its trigger not reached",
            lambda session, bench: _editing(session, bench, NEVER),
        ),
        Case(
            "clear: tool results",
            "context editing middleware at work; done anew in every turn",
            lambda session, bench: _editing(session, bench, 20_000),
        ),
        Case(
            "compact: summary",
            "summarization middleware at work, the model's part free of charge",
            _summarize,
        ),
        Case(
            "whole: agent, SQLite",
            "a turn of an agent with summarization and SQLite checkpoints",
            _whole_turn,
        ),
        Case("resume: SQLite", "the state of the session from its checkpoints", _resume),
    ),
    ("langchain", "langgraph-checkpoint-sqlite"),
)
