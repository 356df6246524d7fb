"""What is asked of the engine when a recorded session is compacted: which part, which way, and where it can be cut."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from sevenfold.cli.compact_report import Place
from sevenfold.cli.notes import bring_up_to_date
from sevenfold.cli.recorded_session import Recorded, is_offline
from sevenfold.errors import InputError, Refused
from sevenfold.layers.compact.extract.words import users_words
from sevenfold.layers.compact.request import EngineName, Left
from sevenfold.layers.notes.layer import keeper_of
from sevenfold.ports import Client
from sevenfold.session.session import Session, Wishes

MOST_PLACES = 8
SHOWN_OF_ID = 8
"""Characters of an id, or more where others begin the same way."""
LONGEST = 200


class Wished(NamedTuple):
    """What is asked of the engine."""

    wish: Wishes
    left: tuple[Left, ...] = ()
    """Ways to a summary that are left out here already."""
    noted: bool = False
    """Were the notes brought up to date first?"""


def wished(session: Session, recorded: Recorded, client: Client, options: argparse.Namespace) -> Wished:
    """What to ask of the engine, from what the user asks of the command."""
    wish = Wishes()
    if given := options.start or options.up_to:
        wish["span"] = "from" if options.start else "up_to"
        wish["record"] = _record(session, given)
    if options.engine is not None:
        wish["engine"] = options.engine
        noted = options.engine == "notes" and _notes_must_serve(session, client, options)
        return Wished(wish, noted=noted)
    chosen, left = _first_choice(session, recorded, client, options)
    if chosen is not None:
        wish["engine"] = chosen
    return Wished(wish, left)


def _first_choice(
    session: Session, recorded: Recorded, client: Client, options: argparse.Namespace
) -> tuple[EngineName | None, tuple[Left, ...]]:
    """The engine for a session nobody is at work in; None leaves it to the session, which knows what is cached."""
    if not is_offline(client):
        if recorded.own:
            return None, ()
        reason = "system prompt and tools are not in the file, so no cache would be read"
        return "plain", (Left("provider", reason), Left("fork", reason))
    if not _partly(options) and not _why_not_notes(session):
        return "notes", ()
    names: tuple[EngineName, ...] = ("provider", "fork", "plain")
    reason = "offline no model answers, and the stand-in that does would only extract as well"
    return "extractive", tuple(Left(name, reason) for name in names)


def _notes_must_serve(session: Session, client: Client, options: argparse.Namespace) -> bool:
    """Notes are used as they are; where nobody knows what they cover, they are brought up to date first.

    Returns whether they were.
    """
    if _partly(options):
        raise InputError(
            "notes stand for the whole conversation and take no instructions; use another engine"
        )
    keeper = keeper_of(session.conversation)
    reason = keeper.too_little() if keeper is not None else ""
    due = keeper is not None and not reason and keeper.covered() is None and not options.dry_run
    if due:
        bring_up_to_date(session, client)
    if reason := reason or _why_not_notes(session):
        raise Refused(f"the notes cannot be the summary: {reason}; use another engine{_or_update(due)}")
    return due


def _or_update(due: bool) -> str:
    return "" if due else ", or bring them up to date: sevenfold notes FILE --update"


def _why_not_notes(session: Session) -> str:
    """Why the notes cannot be the summary; empty if they can."""
    keeper = keeper_of(session.conversation)
    if keeper is None or not session.conversation.settings.notes_compaction:
        return "that is switched off (setting notes_compaction)"
    served = keeper.serve(session.conversation.window.threshold)
    return served if isinstance(served, str) else ""


def _partly(options: argparse.Namespace) -> bool:
    return bool(options.start or options.up_to or options.instructions)


def _record(session: Session, given: str) -> str:
    """The record in view whose id begins so."""
    ids = [item.said.uuid for item in session.conversation.transcript.view.items]
    found = [given] if given in ids else [uuid for uuid in ids if uuid.startswith(given)]
    if not found:
        raise InputError(
            f"{given}: no record in view has an id that begins so; --dry-run lists places, sevenfold recall finds more"
        )
    if len(found) > 1:
        raise InputError(
            f"{given}: {len(found)} records have an id that begins so, among them {found[0]} and {found[1]}; "
            "give more of it"
        )
    return found[0]


def places(session: Session) -> list[Place]:
    """The newest messages of the user, each of which can be cut at."""
    view = session.conversation.transcript.view
    ids = [item.said.uuid for item in view.items]
    found: list[Place] = []
    for item in reversed(view.items[1:]):
        words = " ".join(users_words(item).split())
        if words and view.begins_round(item.said.uuid):
            found.append(Place(_shortest(item.said.uuid, ids), words[:LONGEST]))
        if len(found) == MOST_PLACES:
            break
    return found[::-1]


def _shortest(uuid: str, ids: Sequence[str]) -> str:
    """As much of an id as tells it from all others."""
    sizes = range(SHOWN_OF_ID, len(uuid))
    return next((uuid[:n] for n in sizes if sum(one.startswith(uuid[:n]) for one in ids) == 1), uuid)
