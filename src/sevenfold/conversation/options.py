"""What a caller wants to precede the messages, and what becomes of it: window, frame and lifetimes of a session."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.profiles import Profile
from sevenfold.record.window import Window
from sevenfold.request.frame import Frame
from sevenfold.request.plan import Lifetimes
from sevenfold.request.sections import SystemPrompt
from sevenfold.settings import Settings

LONG = 3_600
"""Seconds of the longer lifetime."""


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
    needed = list[str | None](options.betas)
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


def lifetimes_for(options: RequestOptions, profile: Profile, settings: Settings) -> Lifetimes:
    """How long the cache is to keep things: the longer time only where nothing speaks against it."""
    asked = options.lifetimes or Lifetimes(settings.cache_lifetime, settings.cache_lifetime)
    return Lifetimes() if against_long_lifetime(options.source, profile, settings) else asked


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
