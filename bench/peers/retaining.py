"""One compaction by a peer, in the peer's environment; started by `bench/retention.py`.

    python -m bench.peers.retaining PEER FILE

``FILE`` contains the messages of a conversation. Whenever the peer wants a summary, the script prints the messages it
would show its model as a line of JSON and reads the summary from standard input, so the same code summarises for all
peers. The last line has the messages the model would see next, and the content that the peer moved to files.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.peers.adapters import SYSTEM
from bench.peers.adapters.langchain_ import model

Json = dict[str, Any]


def converted(messages: list[Json]) -> Iterator[Any]:
    """The messages converted to LangChain's classes."""
    kinds = import_module("langchain_core.messages")
    for number, message in enumerate(messages):
        blocks = message["content"]
        words = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        if message["role"] == "assistant":
            calls = [block for block in blocks if block["type"] == "tool_use"]
            made = [{"name": call["name"], "args": call["input"], "id": call["id"]} for call in calls]
            yield kinds.AIMessage(id=f"m{number}", content=words, tool_calls=made)
            continue
        for block in blocks:
            if block["type"] == "tool_result":
                call = block["tool_use_id"]
                yield kinds.ToolMessage(id=f"{number}-{call}", content=_flat(block), tool_call_id=call)
        if words:
            yield kinds.HumanMessage(id=f"m{number}", content=words)


def _flat(block: Json) -> str:
    content = block.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", f"[{part['type']}]") for part in content)


def plain(messages: list[Any]) -> list[Json]:
    """LangChain's messages in the format of the Messages API."""
    return [_plain(message) for message in messages]


def _plain(message: Any) -> Json:
    words = [{"type": "text", "text": str(message.text)}] if str(message.text).strip() else []
    match message.type:
        case "ai":
            calls = [
                {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
                for call in message.tool_calls
            ]
            return {"role": "assistant", "content": [*words, *calls]}
        case "tool":
            result = {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id,
                "content": str(message.text),
            }
            return {"role": "user", "content": [result]}
        case _:
            return {"role": "user", "content": words}


def ask(messages: list[Any]) -> str:
    """Request a summary of the messages that a peer shows its model."""
    print(json.dumps({"summarise": plain(messages)}), flush=True)
    return str(json.loads(sys.stdin.readline()))


def langchain(messages: list[Any], *, trimmed: bool) -> tuple[list[Any], list[str]]:
    """Compact with LangChain's middleware, with (``trimmed``) or without its limit on what is summarised."""
    middleware = import_module("langchain.agents.middleware").SummarizationMiddleware
    runnable = import_module("langchain_core.runnables").RunnableLambda(ask)
    more = {} if trimmed else {"trim_tokens_to_summarize": None}
    made = middleware(model=model(), trigger=("messages", 2), summarizer=runnable, **more)
    update = made.before_model({"messages": messages}, None)
    return (update["messages"][1:] if update else messages), []


def deepagents(messages: list[Any]) -> tuple[list[Any], list[str]]:
    """Compact with Deep Agents' middleware and its defaults; it moves what it removes to a file."""
    summarization = import_module("deepagents.middleware.summarization")
    types = import_module("langchain.agents.middleware.types")
    answer = import_module("langchain_core.messages").AIMessage("ok")
    runnable = import_module("langchain_core.runnables").RunnableLambda(ask)
    with tempfile.TemporaryDirectory() as folder:
        backend = import_module("deepagents.backends").FilesystemBackend(folder, virtual_mode=True)
        defaults = summarization.compute_summarization_defaults(model())
        made = summarization.SummarizationMiddleware(
            model=model(),
            backend=backend,
            trigger=("messages", 2),
            keep=defaults["keep"],
            truncate_args_settings=defaults["truncate_args_settings"],
            trim_tokens_to_summarize=None,
            summarizer=runnable,
        )
        shown: list[Any] = []

        def handler(asked: Any) -> Any:
            shown[:] = asked.messages
            return types.ModelResponse(result=[answer])

        request = types.ModelRequest(
            model=model(), messages=messages, system_prompt=SYSTEM, tools=[], state={"messages": messages}
        )
        made.wrap_model_call(request, handler)
        return shown, [path.read_text("utf-8") for path in Path(folder).rglob("*") if path.is_file()]


def main(peer: str, file: str) -> None:
    """Compact the conversation in a file the way a peer does, and print the result."""
    messages = list(converted(json.loads(Path(file).read_text("utf-8"))))
    if peer == "deepagents":
        shown, files = deepagents(messages)
    else:
        shown, files = langchain(messages, trimmed=peer == "langchain")
    print(json.dumps({"context": plain(shown), "files": files}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
