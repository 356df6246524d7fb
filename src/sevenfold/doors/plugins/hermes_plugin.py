"""Sevenfold in Hermes: a context engine that loses nothing, and a memory of earlier sessions.

`sevenfold install hermes` writes this file. It needs Python alone: what decides runs in a process of its own, whose
command line stands in `command.json` beside it. If that process fails, no message is dropped.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.context_engine import ContextEngine
from agent.memory_provider import MemoryProvider

NAME = "sevenfold"
COMMAND = Path(__file__).with_name("command.json")
SHARE = 0.75
"""The share of the window at which Hermes asks for a compaction."""
_SHARED = "_sevenfold_in_hermes"
RECALL = {
    "name": "sevenfold_recall",
    "description": (
        "Search what was said and done earlier in this conversation, including everything that a summary replaced. "
        "Use it before you ask the user for something again, and for exact names, numbers and paths."
    ),
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "Words, a name or a quotation."}},
        "required": ["query"],
    },
}


class DeskProcess:
    """The process that decides; started with the first question, and again if it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._notes: queue.Queue[dict[str, Any]] = queue.Queue()
        self._clerk: threading.Thread | None = None

    def ask(self, **question: Any) -> dict[str, Any]:
        """The answer to a question; an ``error`` in it says what went wrong."""
        with self._lock:
            try:
                process = self._running()
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(question, default=str).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
                answer: dict[str, Any] = (
                    json.loads(line) if line else {"error": "the process of sevenfold ended"}
                )
            except (OSError, ValueError) as error:
                return {"error": f"sevenfold cannot be asked: {error}"}
        return answer

    def note(self, **question: Any) -> None:
        """Ask without waiting for the answer."""
        self._notes.put(question)
        if self._clerk is None or not self._clerk.is_alive():
            self._clerk = threading.Thread(target=self._work_off, daemon=True)
            self._clerk.start()

    def settle(self) -> None:
        """Wait until everything is noted."""
        clerk = self._clerk
        if clerk is not None:
            self._notes.put({})
            clerk.join(timeout=30)

    def close(self) -> None:
        """End the process."""
        self.settle()
        with self._lock:
            process = self._process
            self._process = None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            command = json.loads(COMMAND.read_text(encoding="utf-8"))
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._process

    def _work_off(self) -> None:
        while question := self._notes.get():
            self.ask(**question)


def desk() -> DeskProcess:
    """The one of this Hermes, which loads this file once as an engine and once as a memory."""
    shared: Any = sys.modules.setdefault(_SHARED, types.ModuleType(_SHARED))
    if not hasattr(shared, "desk"):
        shared.desk = DeskProcess()
    process: DeskProcess = shared.desk
    return process


class SevenfoldEngine(ContextEngine):  # type: ignore[misc]
    """Compacts the conversation when Hermes asks for it, and finds what has left it."""

    threshold_percent = SHARE

    def __init__(self) -> None:
        self._session = ""
        self._endpoint: dict[str, Any] = {}
        self._last_compress_aborted = False
        self._last_summary_error = ""
        self._last_compression_made_progress = False

    def __deepcopy__(self, memo: dict[int, Any]) -> SevenfoldEngine:
        """An engine for another agent, with the same model."""
        engine = type(self)()
        engine._endpoint = dict(self._endpoint)
        engine.context_length = self.context_length
        engine.threshold_tokens = self.threshold_tokens
        return engine

    @property
    def name(self) -> str:
        """As the setting ``context.engine`` names it."""
        return NAME

    def update_from_response(self, usage: dict[str, Any]) -> None:
        """Note what the provider counted."""
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        self.last_total_tokens = int(usage.get("total_tokens") or 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the conversation has outgrown its share of the window."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return 0 < self.threshold_tokens <= tokens

    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
    ) -> list[dict[str, Any]]:
        """The messages with a summary in place of the older ones; the same if that fails."""
        answer = desk().ask(
            do="compact",
            session=self._session,
            messages=messages,
            instructions="\n\n".join(filter(None, [focus_topic or "", memory_context])),
            **self._endpoint,
        )
        shorter = answer.get("messages")
        self._last_compress_aborted = not shorter
        self._last_compression_made_progress = bool(shorter) and shorter != messages
        self._last_summary_error = str(answer.get("error") or "")
        if not shorter:
            return messages
        self.compression_count += 1
        compacted: list[dict[str, Any]] = shorter
        return compacted

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """Note which conversation it is; behind a compaction Hermes may give it another id."""
        old_session = kwargs.get("old_session_id") or ""
        if kwargs.get("boundary_reason") == "compression" and old_session:
            desk().ask(do="rename", session=session_id, before=old_session)
        self._session = session_id

    def on_session_end(self, session_id: str, messages: list[dict[str, Any]]) -> None:
        """Close what is recorded of the conversation."""
        desk().settle()
        desk().ask(do="end", session=session_id)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tool that finds what left the context."""
        return [RECALL]

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Carry out the tool."""
        if name != RECALL["name"]:
            return json.dumps({"error": f"unknown tool: {name}"})
        answer = desk().ask(do="recall", session=self._session, query=str(args.get("query") or ""))
        return json.dumps(
            {"error": answer["error"]} if answer.get("error") else {"found": answer.get("text", "")}
        )

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: str = "",
        provider: str = "",
        api_mode: str = "",
    ) -> None:
        """Note the model, and where it is asked."""
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)
        self._endpoint = {
            "model": model,
            "window": context_length,
            "address": base_url,
            "key": api_key if isinstance(api_key, str) else "",
            "api": api_mode,
        }


class SevenfoldMemory(MemoryProvider):  # type: ignore[misc]
    """Records every turn, and brings back what earlier sessions of this project said about the same."""

    def __init__(self) -> None:
        self._session = ""

    @property
    def name(self) -> str:
        """As the setting ``memory.provider`` names it."""
        return NAME

    def is_available(self) -> bool:
        """Whether the plugin was installed whole."""
        return COMMAND.is_file()

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Note which conversation it is."""
        self._session = session_id

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What earlier sessions of this project said about it."""
        answer = desk().ask(do="remind", session=session_id or self._session, query=query)
        text = str(answer.get("text") or "")
        return f"Said in earlier sessions of this project:\n{text}" if text else ""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
    ) -> None:
        """Record a turn, without keeping Hermes waiting."""
        if messages:
            desk().note(do="record", session=session_id or self._session, messages=messages)

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        """Note which conversation it is now."""
        self._session = new_session_id

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tool is the engine's."""
        return []

    def shutdown(self) -> None:
        """End the process."""
        desk().close()


def register(ctx: Any) -> None:
    """Give Hermes the engine or the memory, whichever it loads this file for."""
    if hasattr(ctx, "register_context_engine"):
        ctx.register_context_engine(SevenfoldEngine())
    if hasattr(ctx, "register_memory_provider"):
        ctx.register_memory_provider(SevenfoldMemory())
