"""Deep Agents: its summarization middleware, which also moves what it removes to files."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.peers.adapters import SYSTEM
from bench.peers.adapters.langchain_ import NEVER, growing, model
from bench.peers.sessions import Session
from bench.peers.timing import Adapter, Bench, Case


def _summarization(session: Session, bench: Bench, trigger: int) -> None:
    types = import_module("langchain.agents.middleware.types")
    answer = import_module("langchain_core.messages").AIMessage("ok")
    middleware = import_module("deepagents.middleware.summarization").SummarizationMiddleware(
        model=model(),
        backend=import_module("deepagents.backends").FilesystemBackend(
            str(bench.folder), virtual_mode=True
        ),
        trigger=("tokens", trigger),
        keep=("messages", 20),
        trim_tokens_to_summarize=None,
        truncate_args_settings={"trigger": ("messages", 20), "keep": ("messages", 20)},
    )
    scripted = model()

    def step(messages: list[Any]) -> Any:
        request = types.ModelRequest(
            model=scripted, messages=messages, system_prompt=SYSTEM, tools=[], state={"messages": messages}
        )
        return middleware.wrap_model_call(request, lambda asked: types.ModelResponse(result=[answer]))

    bench.loop(step, growing(session))


ADAPTER = Adapter(
    "deepagents",
    (
        Case(
            "turn: summary check",
            "summarization middleware, its threshold not reached; long arguments are cut",
            lambda session, bench: _summarization(session, bench, NEVER),
        ),
        Case(
            "compact: summary, offload",
            "the same at work: what is removed is written to a file",
            lambda session, bench: _summarization(session, bench, 20_000),
        ),
    ),
    ("deepagents",),
)
