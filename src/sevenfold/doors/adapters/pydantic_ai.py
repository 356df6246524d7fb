"""A capability for agents of Pydantic AI: `Agent(…, capabilities=[Sevenfold()])`.

The run's messages stay whole. The model that serves a request is replaced by one like it below whose provider the
client is wrapped; the run's conversation id names the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

from sevenfold.doors.adapters import brought_by
from sevenfold.doors.follower.identity import SESSION
from sevenfold.doors.wrapping import WrappedConversations, can_wrap
from sevenfold.errors import InputError
from sevenfold.ports import Store
from sevenfold.settings import Settings

with brought_by("pydantic-ai"):
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.providers import Provider


class Sevenfold(AbstractCapability[Any]):
    """Keeps the conversations of an agent within their windows.

    ``store`` and ``settings`` are those of `sevenfold.wrap`. Pass ``message_history`` or ``conversation_id`` to a run,
    as without this capability, to go on with a conversation.
    """

    def __init__(
        self,
        *,
        store: Store | Path | str | None = None,
        settings: Mapping[str, object] | Settings | None = None,
    ) -> None:
        self.sevenfold = WrappedConversations(store=store, settings=settings)
        """The conversations: their sessions, problems, and `close`."""
        self._kept: dict[int, tuple[Model, Model]] = {}
        """By the identity of a model: the model, held so that its identity stays its own, and the one like it."""

    def get_wrapper_model(self, model: Model) -> Model:
        """The model that serves a request, with a wrapped client."""
        if id(model) not in self._kept:
            self._kept[id(model)] = (model, kept_model(model, self.sevenfold))
        return self._kept[id(model)][1]

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Name the conversation; the wrapped client takes the header and does not pass it on."""
        if ctx.conversation_id:
            settings = request_context.model_settings or {}
            headers = {**settings.get("extra_headers", {}), SESSION: ctx.conversation_id}
            request_context.model_settings = {**settings, "extra_headers": headers}
        return request_context

    def close(self) -> None:
        """Finish what is under way, and close the sessions."""
        self.sevenfold.close()


class _KeptProvider(Provider[Any]):
    """A provider as it is, but for its client."""

    def __init__(self, provider: Provider[Any], client: Any) -> None:
        self._provider = provider
        self._client = client

    @property
    def name(self) -> str:
        """The provider's name, under which messages are recorded."""
        return self._provider.name

    @property
    def canonical_system(self) -> str:
        """Whose signatures the provider checks."""
        return self._provider.canonical_system

    @property
    def compatible_systems(self) -> frozenset[str]:
        """Whose signatures the provider checks besides."""
        return self._provider.compatible_systems

    @property
    def model_id_namespace(self) -> str:
        """The namespace of its models."""
        return self._provider.model_id_namespace

    @property
    def base_url(self) -> str:
        """Its address."""
        return self._provider.base_url

    @property
    def client(self) -> Any:
        """The wrapped client."""
        return self._client


def kept_model(model: Model, conversations: WrappedConversations) -> Model:
    """A model like this one whose client is wrapped; the model itself stays as it is."""
    if isinstance(model, WrapperModel):
        wrapper = copy(model)
        wrapper.wrapped = kept_model(model.wrapped, conversations)
        return wrapper
    if isinstance(model, FallbackModel):
        fallback = copy(model)
        fallback.models = [kept_model(each, conversations) for each in model.models]
        return fallback
    client = getattr(model, "client", None)
    if model.provider is None or not can_wrap(client):
        raise InputError(
            f"Sevenfold keeps conversations with Anthropic's and OpenAI's models and those built on them, got "
            f"{type(model).__name__}; for any other model use `sevenfold gateway --mode keep`"
        )
    provider = _KeptProvider(model.provider, conversations.wrap(client))
    kind: Any = type(model)
    same: Model = kind(model.model_name, provider=provider, profile=model.profile, settings=model.settings)
    return same
