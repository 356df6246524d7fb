"""The inputs of a conversation: the services it uses, and the caller's options for its requests.

The options determine the session's window, frame and cache lifetimes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.events import Listener
from sevenfold.memory.memory import Memory
from sevenfold.ports import Clock, Recall, Results, Store, StoredText
from sevenfold.profiles import Profile, find
from sevenfold.recall.meaning import ByMeaning
from sevenfold.record.blocks import encode_json
from sevenfold.record.window import Window
from sevenfold.request.frame import Frame, Lifetimes
from sevenfold.request.sections import SystemPrompt
from sevenfold.settings import Settings, Source

OWN_FIELDS = {
    "model": "a session has one model",
    "messages": "the engine writes them",
    "system": "give it as the option system",
    "tools": "give them as the option tools",
    "max_tokens": "give it as the option max_tokens",
    "betas": "give them as the option betas",
    "stream": "give it to the method that sends the request",
}
"""Request fields that may not be set through `fields`, and why."""
EPOCH_FIELDS = ("context_management", "compaction", "cache_control")
LONG = 3_600
"""The longer cache lifetime, in seconds."""


class Services(Struct, frozen=True, kw_only=True):
    """The outside services that a conversation uses."""

    clock: Clock
    settings: Source
    results: Results
    listeners: Iterable[Listener] = ()
    recall: Recall | None = None
    meaning: ByMeaning | None = None
    """Search by meaning, with vectors that are loaded on first use; None if it is not available."""
    notes: StoredText | None = None
    """The file of the session notes; None if there are none."""
    read_file: Callable[[str], str] | None = None
    """Reads a file to be restored after a compaction; None if files are not restored."""
    memory: Memory | None = None
    """The project's memory, which outlives the session; None if there is none."""
    user_memory: Memory | None = None
    """The user's memory, which applies to every project."""
    store: Store | None = None
    """The store with the project's sessions; None if there is none."""
    still_exists: Callable[[str], bool] | None = None
    """Whether a path or command named in memory still exists; None if that is not checked."""
    secrets: Iterable[str] = ()
    """Values that the gate masks wherever they occur, in any encoding."""
    path: str = ""
    """The path of the transcript; empty if it is not stored in a file."""
    within_quota: Callable[[], bool] | None = None
    """Whether the account may still have an hour in the cache; asked when a session or an epoch opens."""
    process: str = ""
    """Identifies this process among those that use the store."""
    is_alive: Callable[[str], bool] = bool
    """Whether the process with this identity is still running."""


class RequestOptions(Struct, frozen=True):
    """The caller's options for every request of a conversation."""

    model: str
    max_tokens: int
    system: SystemPrompt | tuple[bytes, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    kinds: Mapping[str, str] = {}
    """Each tool's kind: read, shell, search, web, edit or write; results of any other kind are never cleared."""
    fields: Mapping[str, Any] = {}
    """Other fields of the request, such as ``thinking``."""
    betas: tuple[str, ...] = ()
    lifetimes: Lifetimes | None = None
    """How long the provider should cache each part; None to use the settings."""
    source: str = "main"
    """The query source of its requests."""
    bedrock: bool = False
    """Whether the client sends them to Amazon Bedrock."""
    diagnoses: bool = False
    """Whether the provider may be asked why its cache was missed: only where nothing stands between it and us."""


def request_fields(parameters: Mapping[str, Any], frame: Frame, profile: Profile) -> dict[str, bytes]:
    """Check and encode the fields of a single request; raises `InputError` for values the model does not accept."""
    fields = dict(parameters)
    check_names(nested := fields.pop("fields", {}), *EPOCH_FIELDS)
    fields |= nested
    max_tokens = fields.get("max_tokens", frame.max_tokens)
    if not 0 < max_tokens <= profile.max_output:
        raise InputError(f"max_tokens is {max_tokens:,}; {profile.model} takes 1 to {profile.max_output:,}")
    thinking = fields.get("thinking") or {}
    choice = fields.get("tool_choice") or {}
    mode = thinking.get("type")
    modes = profile.thinking.modes
    if mode and modes and mode not in modes:
        raise InputError(
            f"thinking of the type {mode!r} is not for {profile.model}; it takes {', '.join(modes)}"
        )
    if choice.get("type") in ("any", "tool") and not profile.forced_tools:
        raise InputError(f"{profile.model} takes no tool_choice that forces a call: give auto or none")
    if "betas" in fields:
        fields["betas"] = list(fields["betas"])
    return {name: encode_json(value) for name, value in fields.items()}


def check_names(fields: Mapping[str, Any], *fixed: str) -> None:
    """Raise `InputError` for a field that must be set in another way, or whose name is not a string."""
    for name in fields:
        if not isinstance(name, str):
            raise InputError(f"field names must be strings, got {name!r}")
        if name in (*OWN_FIELDS, *fixed):
            raise InputError(
                f"{name} cannot be one of the fields: {OWN_FIELDS.get(name, 'it is fixed when a session opens')}"
            )


def window_for(profile: Profile, settings: Settings, betas: Collection[str] = ()) -> Window:
    """The window that results from the profile, the settings and the caller's beta headers."""
    return Window.of(
        profile,
        override=settings.context_window,
        cap=settings.compact_window,
        percent=settings.compact_percent,
        blocking=settings.blocking_limit,
        beta_1m=profile.betas.window_1m in betas,
        auto_compact=settings.auto_compact,
    )


def frame_for(options: RequestOptions, profile: Profile, settings: Settings) -> Frame:
    """The frame for these options, with all beta headers it needs; raises `InputError` for invalid options."""
    max_output = profile.max_output
    if not 0 < options.max_tokens <= max_output:
        raise InputError(f"max_tokens is {options.max_tokens:,}; {profile.model} takes 1 to {max_output:,}")
    check_names(options.fields)
    needed = list[str | None](options.betas)
    if profile.window_source == "suffix" and find(profile.model).window < profile.window:
        needed.append(profile.betas.window_1m)
    if profile.tool_changes and options.tools:
        needed += [profile.betas.tool_changes, profile.betas.inline_tools]
    if profile.on_demand_compaction and settings.compaction:
        # Needed once a provider's summary is sent; adding it only then would change the prefix.
        needed.append(profile.betas.on_demand_compaction)
    return Frame.of(
        options.model,
        options.max_tokens,
        system=options.system,
        tools=[dict(tool) for tool in options.tools],
        betas=[beta for beta in needed if beta],
        **options.fields,
    )


OVER_QUOTA = "the account is over its quota for it"


def lifetimes_for(
    options: RequestOptions, profile: Profile, settings: Settings, *, within_quota: bool = True
) -> tuple[Lifetimes, str]:
    """The cache lifetimes to request, and why an hour was denied if the caller or the settings ask for it."""
    wanted = options.lifetimes or Lifetimes(settings.cache_lifetime, settings.cache_lifetime)
    if wanted == Lifetimes():
        return wanted, ""
    against = against_long_lifetime(options.source, profile, settings)
    if not against and options.bedrock and not settings.long_lifetime_bedrock:
        against = "not on Bedrock (setting long_lifetime_bedrock)"
    if not against and not within_quota:
        against = OVER_QUOTA
    return Lifetimes() if against else wanted, against


def against_long_lifetime(source: str, profile: Profile, settings: Settings) -> str:
    """Why this query source may not cache for an hour; empty if it may."""
    if not any(seconds >= LONG for seconds in profile.cache.lifetimes):
        return f"{profile.model} has no such lifetime"
    if not settings.long_lifetime:
        return "it is switched off (setting long_lifetime)"
    if not settings.long_lifetime_account:
        return "the account may not have it (setting long_lifetime_account)"
    if not any(fnmatchcase(source, pattern) for pattern in settings.long_lifetime_sources):
        return f"not on behalf of {source} (setting long_lifetime_sources)"
    return ""
