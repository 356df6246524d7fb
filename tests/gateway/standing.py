"""A gateway for tests, with a store in a folder and a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sevenfold.clock import RandomIds, SystemClock
from sevenfold.conversation.gate import Gate
from sevenfold.doors.follower.follower import ConversationFollower
from sevenfold.doors.follower.keeper import KeepingFollower, KeepingOptions
from sevenfold.doors.gateway.keeper import GatewayKeeper
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.doors.gateway.relay import Handling
from sevenfold.doors.gateway.server import Gateway
from sevenfold.doors.gateway.upstreams import Upstreams
from sevenfold.settings import Settings
from sevenfold.stores.jsonl.store import JsonlStore

SECRET = b"s" * 32


@dataclass
class Standing:
    """A gateway that serves, and what it records."""

    gateway: Gateway
    recorder: Recorder
    store: JsonlStore
    said: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.gateway.url

    def transcripts(self) -> list[Path]:
        return sorted(self.store.folder.glob("*.jsonl"))


def follower(folder: Path, gate: Gate | None = None) -> ConversationFollower:
    ids, clock = RandomIds(), SystemClock()
    return ConversationFollower(
        JsonlStore(folder), "/projects/pier", SECRET, clock=clock, ids=ids, gate=lambda: gate
    )


@contextmanager
def keeping(folder: Path, upstream: str, window: int) -> Iterator[Standing]:
    """A gateway that keeps conversations within a window."""
    said: list[str] = []
    kept = KeepingFollower(
        JsonlStore(folder),
        "/projects/pier",
        SECRET,
        KeepingOptions(Settings(context_window=window), failed=lambda error: said.append(repr(error))),
        clock=SystemClock(),
        ids=RandomIds(),
    )
    recorder = Recorder(kept, said.append)
    upstreams = Upstreams.chosen(upstream, {})
    with Gateway(recorder, upstreams, handling=Handling(preparer=GatewayKeeper(recorder, kept))) as gateway:
        yield Standing(gateway, recorder, JsonlStore(folder), said)


@contextmanager
def standing(
    folder: Path, upstream: str, *, token: str = "", gate: Gate | None = None
) -> Iterator[Standing]:
    """A gateway in front of a server; what passed is on record when the block has ended."""
    said: list[str] = []
    recorder = Recorder(follower(folder, gate), said.append)
    gateway = Gateway(recorder, Upstreams.chosen(upstream, {}), token=token)
    with gateway:
        yield Standing(gateway, recorder, JsonlStore(folder), said)
