"""What the caller of an agent may choose, and what follows from it for its requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from sevenfold.agent.executor import ConsentFunction
from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.standard_tools import Fit
from sevenfold.agent.tools.context import AskUser
from sevenfold.conversation.controls import ThinkingChoice, answer_limit, control_fields
from sevenfold.conversation.layer import Layer
from sevenfold.conversation.options import window_for
from sevenfold.errors import InputError
from sevenfold.events import Listener
from sevenfold.ports import Clock, Ids, Store
from sevenfold.profiles import Profile
from sevenfold.request.sections import SystemPrompt
from sevenfold.settings import Settings, Source

if TYPE_CHECKING:
    from sevenfold.agent.team.definitions import AgentDefinition


class AgentOptions(TypedDict, total=False):
    """The options of an agent, except its model."""

    tools: Iterable[Any] | None
    """Functions and tools; None: the standard tools."""
    name: str | None
    """The name under which the session is stored, so it can be resumed; None: it is not stored."""
    branch: str | None
    """The name of a fork of that session to work in, new or existing; None: the session itself."""
    folder: str | Path
    """The workspace."""
    roots: Sequence[str | Path]
    """Further folders that count as the workspace."""
    mode: Mode
    """``ask``, ``accept_edits``, ``plan`` or ``autonomous``; default: the saved mode of the session, or ``ask``."""
    rules: Mapping[str, Sequence[str]] | None
    """Permission rules under ``allow``, ``ask`` and ``deny``."""
    consent: ConsentFunction | None
    """Asks the user for permission; None: anything that needs consent is refused."""
    ask: AskUser | None
    """Passes the model's questions to the user."""
    hooks: Any
    """`Hooks`, or `AsyncHooks` for an `AsyncAgent`."""
    mentions: bool
    """Whether to attach the files a prompt mentions as ``@path``; off by default."""
    agents: bool | Mapping[str, AgentDefinition]
    """Whether it may start sub-agents, of built-in types and types in files; a mapping adds types; off by default."""
    store: Store | Path | str | None
    """Where named sessions are stored: a folder, a URL, or a `Store`; None: in the user's home."""
    mcp: Any
    """MCP servers whose tools it may use: a mapping from names to configurations, or a `McpServers`."""
    max_turns: int | None
    """Limit on requests in one run."""
    max_usd: float | None
    """Limit in dollars for the whole session."""
    max_output_tokens: int | None
    """Limit on the tokens the model writes in one run."""
    max_tokens: int
    """Limit on the tokens of one answer."""
    client: Any
    """A client of an official SDK, or one of ours; default: chosen from the environment."""
    system: str | SystemPrompt | None
    """A system prompt that replaces the standard one."""
    guidance: str | None
    """Additional guidance for the model, added to the standard prompt."""
    settings: Mapping[str, object] | Source | None
    """Settings that override files and environment, or a source of all settings."""
    listen: Iterable[Listener]
    """Functions called with every event of the engine; they can veto proposals."""
    layers: Sequence[Layer | str]
    """The layers that keep it within the window, cheapest first; by default `sevenfold.layers.ladder.STANDARD`, and
    those for lasting memory if it remembers (`REMEMBERING`). Sub-agents have them too."""
    checkpoints: bool
    """Whether to save files before the agent changes them, so they can be restored; off by default."""
    memory: bool | Literal["tool"]
    """Remember lasting facts across sessions; on for named sessions. ``tool``: also give the model a memory tool."""
    effort: str | None
    """How much effort the model puts into its answers; None: the settings, or the model's default."""
    thinking: Mapping[str, Any] | ThinkingChoice | None
    """``shown``, ``hidden`` or ``off``, or the request field of that name; None: the settings decide."""
    source: Literal["main", "sdk"]
    """On whose behalf requests are made: a user at a terminal, or a program."""
    clock: Clock | None
    ids: Ids | None
    """Generates record ids; random by default, so only reproducible runs need to set it."""


def answer_tokens(options: AgentOptions, profile: Profile, settings: Settings, fit: Fit) -> int:
    """The most tokens of one answer: what the caller or the settings say, or as many as the model can write."""
    max_tokens = options.get("max_tokens")
    if max_tokens is not None:
        return max_tokens
    if settings.answer_tokens is not None:
        return min(settings.answer_tokens, profile.max_output)
    model_limit = answer_limit(profile, window_for(profile, settings))
    return model_limit if fit.answer is None else min(model_limit, fit.answer)


def effort_and_thinking(
    options: AgentOptions, profile: Profile, settings: Settings, answer: int
) -> dict[str, Any]:
    """The request fields for effort and thinking, of a request whose answer has ``answer`` tokens at most.

    What the caller chooses must suit the model. A setting holds for all models, so it is left out where it does not.
    """
    thinking = options.get("thinking")
    choice = thinking if isinstance(thinking, str) else None
    chosen = control_fields(profile, options.get("effort"), choice, answer)
    usual: dict[str, Any] = {}
    # Separately: if one setting does not suit the model, the other still applies.
    with suppress(InputError):
        usual |= control_fields(profile, None, settings.thinking, answer)
    with suppress(InputError):
        usual |= control_fields(profile, settings.effort, None, answer)
    return {**usual, **chosen}
