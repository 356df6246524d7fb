"""What a conversation is made with: what it needs of the world, and what a caller wants to precede the messages.

Window, frame and lifetimes of a session follow from the second.
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
"""Fields of a request that are no matter of `fields`, and why."""
EPOCH_FIELDS = ("context_management", "compaction", "cache_control")
LONG = 3_600
"""Seconds of the longer lifetime."""


class Services(Struct, frozen=True, kw_only=True):
    """What a conversation needs of the world."""

    clock: Clock
    settings: Source
    results: Results
    listeners: Iterable[Listener] = ()
    recall: Recall | None = None
    meaning: ByMeaning | None = None
    """Vectors that say how alike texts are in meaning, once they are loaded; None: there are none."""
    notes: StoredText | None = None
    """The file of the session notes; None: there are none."""
    read_file: Callable[[str], str] | None = None
    """Reads a file that is to be restored after a compaction; None: files are not restored."""
    memory: Memory | None = None
    """What outlives the session in its project; None: nothing does."""
    user_memory: Memory | None = None
    """What the user wants known in every project."""
    store: Store | None = None
    """Where the sessions of the project are; None: this one is kept nowhere."""
    there: Callable[[str], bool] | None = None
    """Says whether a path or a command that memory names is still there; None: that is not checked."""
    secrets: Iterable[str] = ()
    """Values that the gate masks wherever they come up, in any encoding."""
    path: str = ""
    """Where the transcript can be read; empty for one that is not kept."""


class RequestOptions(Struct, frozen=True):
    """What a caller wants to precede the messages."""

    model: str
    max_tokens: int
    system: SystemPrompt | tuple[bytes, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    kinds: Mapping[str, str] = {}
    """What kind of tool each is: read, shell, search, web, edit or write; any other is never cleared."""
    fields: Mapping[str, Any] = {}
    """Other fields of the request, such as ``thinking``."""
    betas: tuple[str, ...] = ()
    lifetimes: Lifetimes | None = None
    """How long the provider is to keep what it caches; None: as the settings have it."""
    source: str = "main"
    """On whose behalf its requests are made."""


def request_fields(given: Mapping[str, Any], frame: Frame, profile: Profile) -> dict[str, bytes]:
    """What one request is to have of its own, encoded; raises `InputError` for what the model does not take."""
    fields = dict(given)
    check_names(others := fields.pop("fields", {}), *EPOCH_FIELDS)
    fields |= others
    most = fields.get("max_tokens", frame.max_tokens)
    if not 0 < most <= profile.max_output:
        raise InputError(f"max_tokens is {most:,}; {profile.model} takes 1 to {profile.max_output:,}")
    thinking, choice = fields.get("thinking") or {}, fields.get("tool_choice") or {}
    mode, modes = thinking.get("type"), profile.thinking.modes
    if mode and modes and mode not in modes:
        raise InputError(
            f"thinking of the type {mode!r} is not for {profile.model}; it takes {', '.join(modes)}"
        )
    if choice.get("type") in ("any", "tool") and not profile.forced_tools:
        raise InputError(f"{profile.model} takes no tool_choice that forces a call: give auto or none")
    if "betas" in fields:
        fields["betas"] = list(fields["betas"])
    return {name: encode_json(value) for name, value in fields.items()}


def check_names(fields: Mapping[str, Any], *others: str) -> None:
    """Raise for fields that have another way into a request."""
    for name in fields:
        if not isinstance(name, str):
            raise InputError(f"the fields have the key {name!r}; the name of a field is a text")
        if name in (*OWN_FIELDS, *others):
            raise InputError(
                f"{name} cannot be one of the fields: {OWN_FIELDS.get(name, 'it is fixed when a session opens')}"
            )


def window_for(profile: Profile, settings: Settings, betas: Collection[str] = ()) -> Window:
    """The window as settings, profile and the headers of the caller's requests have it."""
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
    """What precedes the messages, with the headers all of it needs."""
    most = profile.max_output
    if not 0 < options.max_tokens <= most:
        raise InputError(f"max_tokens is {options.max_tokens:,}; {profile.model} takes 1 to {most:,}")
    check_names(options.fields)
    needed = list[str | None](options.betas)
    if profile.window_source == "suffix" and find(profile.model).window < profile.window:
        needed.append(profile.betas.window_1m)
    if profile.tool_changes and options.tools:
        needed += [profile.betas.tool_changes, profile.betas.inline_tools]
    if profile.on_demand_compaction and settings.compaction:
        # Needed once a summary of the provider's is sent; added then, it would change the prefix.
        needed.append(profile.betas.on_demand_compaction)
    return Frame.of(
        options.model,
        options.max_tokens,
        system=options.system,
        tools=[dict(tool) for tool in options.tools],
        betas=[beta for beta in needed if beta],
        **options.fields,
    )


def lifetimes_for(options: RequestOptions, profile: Profile, settings: Settings) -> tuple[Lifetimes, str]:
    """How long the cache is to keep things; and why not for an hour, if the caller or the settings ask for that."""
    asked = options.lifetimes or Lifetimes(settings.cache_lifetime, settings.cache_lifetime)
    against = against_long_lifetime(options.source, profile, settings) if asked != Lifetimes() else ""
    return Lifetimes() if against else asked, against


def against_long_lifetime(source: str, profile: Profile, settings: Settings) -> str:
    """Why nothing is kept in the cache for an hour on behalf of this query source; empty if it may be."""
    if not any(seconds >= LONG for seconds in profile.cache.lifetimes):
        return f"{profile.model} has no such lifetime"
    if not settings.long_lifetime:
        return "it is switched off (setting long_lifetime)"
    if not settings.long_lifetime_account:
        return "the account may not have it (setting long_lifetime_account)"
    if not any(fnmatchcase(source, pattern) for pattern in settings.long_lifetime_sources):
        return f"not on behalf of {source} (setting long_lifetime_sources)"
    return ""
