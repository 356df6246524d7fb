"""Which models a chat can switch to: those in the table and those a server lists, with windows and prices."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import Any

import msgspec

from sevenfold.cli.chat.menu import Menu, MenuItem
from sevenfold.cli.text import short_count
from sevenfold.profiles import Profile, find, names
from sevenfold.providers.models import Lister
from sevenfold.providers.registry import OFFLINE, is_offline, providers

ALIASES = ("sonnet", "opus", "haiku", "fable")
"""Words that mean the newest model of their family."""
LISTING_SECONDS = 2.0


def full_name(name: str) -> str:
    """The name of a model for an alias; the table has the newest first. Any other name stays as it is."""
    word = name.strip().lower()
    newest = (one for one in names() if word in one.split("-"))
    return next(newest, name) if word in ALIASES else name.strip()


def served_models(client: Any, model: str) -> tuple[str, ...]:
    """The models a server lists, if the user has set its address; none if it does not answer."""
    addressed = any(one.address(os.environ) != one.address({}) for one in providers())
    if not (addressed and isinstance(client, Lister)):
        return ()
    try:
        body = msgspec.json.decode(client.listing(model, LISTING_SECONDS))
        listed = body["data"] if isinstance(body, dict) else body
        return tuple(one["id"] for one in listed if isinstance(one["id"], str))
    except Exception:  # noqa: BLE001 (whatever an SDK or a server does, there is the table)
        return ()


def model_menu(current: str, served: tuple[str, ...]) -> Menu:
    """Ask which model to use."""
    listed = dict.fromkeys((current, *served, *(one for one in names() if not is_offline(one)), *names()))
    aliases = {full_name(one): one for one in ALIASES}
    items = tuple(
        MenuItem(name, "", _about(name, aliases.get(name, ""), name in served), value=name)
        for name in listed
    )
    return Menu(f"Which model? It is {current} now.", items, filtered=True)


def _about(name: str, alias: str, served: bool) -> str:
    if name == OFFLINE.name:
        return "repeats what you say; no network, no key, no cost"
    profile = find(name)
    parts = [alias, "listed by your server" if served else "", f"window {short_count(profile.window)}"]
    if not profile.known:
        parts[-1] += " (assumed)"
    parts.append(_price(profile))
    if not served and is_offline(name):
        parts.append("no key set")
    return ", ".join(filter(None, parts))


def _price(profile: Profile) -> str:
    row = profile.price(0)
    return f"${row.input:g} in, ${row.output:g} out per million tokens" if row else "price unknown"


def similar(name: str) -> str:
    """The known model a misspelt name probably means; empty if there is none."""
    return next(iter(get_close_matches(name.lower(), names(), 1, 0.6)), "")
