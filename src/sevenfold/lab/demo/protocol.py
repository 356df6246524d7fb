"""What the demonstration and the process its agent lives in say to each other, as JSON, one message a line."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class Begin(Struct, frozen=True, tag=True):
    """Open the session: the first thing an agent's process is told."""

    url: str
    folder: str
    model: str
    settings: dict[str, int | bool]
    life: int
    """Which life of the agent this is, counted from 0: the ids it gives out depend on it."""


class Say(Struct, frozen=True, tag=True):
    """The user says something; without words the agent goes on where it was."""

    text: str
    now: float
    """What the time is."""


class Judge(Struct, frozen=True, tag=True):
    """Find out what became of everything that was said, and of these facts of the user's in particular."""

    facts: tuple[str, ...]


class Leave(Struct, frozen=True, tag=True):
    """The demonstration is over."""


class Ready(Struct, frozen=True, tag=True):
    """The agent is there."""

    threshold: int
    resumed: bool


class Turned(Struct, frozen=True, tag=True):
    """The model answered."""

    prompt: int
    output: int


class Used(Struct, frozen=True, tag=True):
    """A tool was used."""

    tool: str
    about: str
    tokens: int
    """Of its result, as it came."""


class Layer(Struct, frozen=True, tag=True):
    """A layer acted."""

    name: str
    what: str
    why: str
    before: int
    after: int


class Over(Struct, frozen=True, tag=True):
    """The agent has nothing left to do."""

    end: str
    text: str


class Judged(Struct, frozen=True, tag=True):
    """How many facts are where."""

    in_context: int
    reachable: int
    lost: tuple[str, ...]


Command = Begin | Say | Judge | Leave
Told = Ready | Turned | Used | Layer | Over | Judged

read_command = msgspec.json.Decoder(Command).decode
read_told = msgspec.json.Decoder(Told).decode


def line(message: Command | Told) -> bytes:
    """A message as it goes over the pipe."""
    return msgspec.json.encode(message) + b"\n"
