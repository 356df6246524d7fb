"""Middleware for agents of LangChain, LangGraph and deepagents: `create_agent(…, middleware=[SevenfoldMiddleware()])`.

The agent's state keeps every message. Only what its model is asked goes through here: the model is replaced by a copy
whose clients are wrapped, for this one call. The thread names the conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from sevenfold.doors.adapters import brought_by
from sevenfold.doors.wrapping import WrappedConversations, conversation
from sevenfold.errors import InputError
from sevenfold.ports import Store
from sevenfold.settings import Settings

with brought_by("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.language_models import BaseChatModel


class SevenfoldMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps the conversations of an agent within their windows.

    ``replaces`` is the name of a middleware whose place it takes where the agent brings one of its own, as those of
    deepagents do: ``replaces="SummarizationMiddleware"``. ``store`` and ``settings`` are those of `sevenfold.wrap`.
    """

    tools = ()

    def __init__(
        self,
        *,
        replaces: str = "",
        store: Store | Path | str | None = None,
        settings: Mapping[str, object] | Settings | None = None,
    ) -> None:
        super().__init__()
        self._name = replaces or type(self).__name__
        self._kept: dict[int, tuple[BaseChatModel, BaseChatModel]] = {}
        """By the identity of a model: the model, held so that its identity stays its own, and its copy."""
        self.sevenfold = WrappedConversations(store=store, settings=settings)
        """The conversations: their sessions, problems, and `close`."""

    @property
    def name(self) -> str:
        """The name under which the agent knows this middleware."""
        return self._name

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Ask the model through the wrapped clients."""
        with _named(request):
            return handler(self._through_ours(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Ask the model through the wrapped clients."""
        with _named(request):
            return await handler(self._through_ours(request))

    def close(self) -> None:
        """Finish what is under way, and close the sessions."""
        self.sevenfold.close()

    def _through_ours(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        model = request.model
        if id(model) not in self._kept:
            self._kept[id(model)] = (model, kept_model(model, self.sevenfold))
        return request.override(model=self._kept[id(model)][1])


def kept_model(model: BaseChatModel, conversations: WrappedConversations) -> BaseChatModel:
    """A copy of a chat model whose clients are wrapped; the model itself stays as it is."""
    if "root_client" in type(model).model_fields:
        return model.model_copy(update=_openai_clients(model, conversations))
    if hasattr(type(model), "_async_client"):
        copy = model.model_copy()
        # A chat model of Anthropic takes no client and no HTTP client: it keeps those that it made in these two.
        for name in ("_client", "_async_client"):
            copy.__dict__[name] = conversations.wrap(getattr(model, name))
        return copy
    raise InputError(
        f"SevenfoldMiddleware keeps conversations with ChatAnthropic, ChatOpenAI and models built on them, got "
        f"{type(model).__name__}; for any other model use `sevenfold gateway --mode keep`"
    )


def _openai_clients(model: Any, conversations: WrappedConversations) -> dict[str, Any]:
    """The fields of a chat model of OpenAI that hold its clients."""
    fields: dict[str, Any] = {}
    for prefix in ("", "async_"):
        root = getattr(model, f"root_{prefix}client")
        if root is not None:
            wrapped = conversations.wrap(root)
            fields[f"root_{prefix}client"] = wrapped
            fields[f"{prefix}client"] = wrapped.chat.completions
    return fields


def _named(request: ModelRequest[Any]) -> AbstractContextManager[None]:
    """The conversation that a request belongs to: the thread, and for an agent inside another graph where it is there.

    Without a thread it is the one that the caller named, or it is told by what it continues.
    """
    about = request.runtime.execution_info if request.runtime is not None else None
    if about is None or not about.thread_id:
        return nullcontext()
    # Each part of the namespace is the name of a node and an id that differs from run to run.
    nodes = [part.partition(":")[0] for part in about.checkpoint_ns.split("|")[:-1]]
    return conversation("-".join([about.thread_id, *nodes]))
