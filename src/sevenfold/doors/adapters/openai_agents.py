"""A model provider for agents of the OpenAI Agents SDK, whose conversations stay within their windows.

    provider = SevenfoldProvider(AsyncOpenAI())
    await Runner.run(agent, "…", session=session, run_config=provider.run_config(session))

The SDK's session keeps every item; only what the model is asked goes through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sevenfold.doors.adapters import brought_by
from sevenfold.doors.follower.identity import SESSION
from sevenfold.doors.wrapping import WrappedConversations
from sevenfold.errors import InputError
from sevenfold.ports import Store
from sevenfold.settings import Settings

with brought_by("openai-agents"):
    from agents import Model, ModelProvider, OpenAIProvider, RunConfig
    from agents.memory import Session
    from openai import AsyncOpenAI


class SevenfoldProvider(ModelProvider):
    """Gives agents their models by name, through a wrapped client.

    ``use_responses`` chooses between the Responses API and Chat Completions, as in the SDK's own provider. ``store``
    and ``settings`` are those of `sevenfold.wrap`.
    """

    def __init__(
        self,
        client: AsyncOpenAI | None = None,
        *,
        use_responses: bool | None = None,
        store: Store | Path | str | None = None,
        settings: Mapping[str, object] | Settings | None = None,
    ) -> None:
        if client is not None and not isinstance(client, AsyncOpenAI):
            raise InputError(
                f"SevenfoldProvider takes an AsyncOpenAI, since the SDK awaits its models, got {type(client).__name__}"
            )
        self.sevenfold = WrappedConversations(store=store, settings=settings)
        """The conversations: their sessions, problems, and `close`."""
        self.client = self.sevenfold.wrap(client or AsyncOpenAI())
        """The wrapped client, for models that you make yourself."""
        self._use_responses = use_responses

    def get_model(self, model_name: str | None) -> Model:
        """A model by its name; whose conversation a request belongs to is told by what it continues."""
        return self._through(self.client).get_model(model_name)

    def run_config(self, conversation: Session | str, **fields: Any) -> RunConfig:
        """The configuration of a run in the conversation of this session or name; ``fields`` are those of the SDK."""
        name = conversation if isinstance(conversation, str) else conversation.session_id
        # The wrapped client takes the header as the conversation's name, and does not pass it on.
        named = self.client.with_options(default_headers={SESSION: name})
        return RunConfig(**{"group_id": name, **fields, "model_provider": self._through(named)})

    def close(self) -> None:
        """Finish what is under way, and close the sessions."""
        self.sevenfold.close()

    def _through(self, client: AsyncOpenAI) -> OpenAIProvider:
        # The SDK's websockets would pass by what follows the conversation.
        return OpenAIProvider(
            openai_client=client, use_responses=self._use_responses, use_responses_websocket=False
        )
