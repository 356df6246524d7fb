"""A recorded session held by our own engine.

The session has the settings it is given and nothing else: neither the files nor the environment of this machine
change it. Layers that work in the background have done so by the next request. What only later sessions profit from,
remembering and dreaming, is off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from sevenfold.archive.fidelity import Probe
from sevenfold.events import Acted, Compacted, EpochOpened, Event, Veto
from sevenfold.lab.replay.plain import tool_schema
from sevenfold.lab.replay.prose import text_of
from sevenfold.lab.replay.provider import InProcessClient, ReplayProvider
from sevenfold.lab.replay.recording import KINDS, RecordedStep, Recording, path_of
from sevenfold.lab.replay.retention import Reachable, by_search, keys_of, records_by_key
from sevenfold.record import blocks
from sevenfold.session import factory
from sevenfold.session.factory import SessionParts, tool
from sevenfold.session.session import Session
from sevenfold.settings import Settings

MOST_HITS = 10
"""A fact is within reach if its record is among this many hits of recall."""
SETTLED = 60.0
"""The most seconds in which background work must be done."""
ROOT = "/"
"""The folder of the session: all files that were recorded are in it."""


class EngineRun:
    """Our engine, with a session in memory."""

    def __init__(
        self,
        recording: Recording,
        provider: ReplayProvider,
        settings: Settings,
        session_parts: SessionParts,
        session: Session,
    ) -> None:
        self.session = session
        self.compactions = 0
        self.announced = False
        """Whether a layer changed what had been sent since the last request."""
        self._recording = recording
        self._provider = provider
        self._session_parts = session_parts
        session.listen(self._hear)

    def give(self, step: RecordedStep) -> None:
        """Add the input of a step."""
        if step.results:
            self.session.tool_results(step.results)
        if step.notes:
            self.session.user(step.notes, origin="program")
        if step.user_content:
            self.session.user(step.user_content)

    def complete(self) -> None:
        """Send the next request, and wait for what the layers do after its answer."""
        self.session.complete()
        self.session.settle(SETTLED)

    def reachable(self) -> Reachable:
        """Whether recall finds a fact, by its own words."""
        index = self._session_parts.recall.index
        self._session_parts.recall.catch_up()

        def search(probe: Probe) -> list[str]:
            hits = index.search(probe.text, kind=probe.sought, k=MOST_HITS, around=0, weak=True)
            return [hit.uuid for hit in hits]

        return by_search(search, self._keys(), records_by_key(self._recording))

    def _keys(self) -> Mapping[str, frozenset[str]]:
        keys: dict[str, frozenset[str]] = {}
        answers = 0
        for message in self._session_parts.log.said():
            if message.summary:
                continue
            keys[message.uuid] = frozenset(keys_of(message, answers))
            answers += message.role == "assistant"
        return keys

    def _hear(self, event: Event) -> Veto | None:
        match event:
            case Compacted():
                self.compactions += 1
                self.announced = True
            case Acted(layer="clear" | "snip") | EpochOpened():
                self.announced = True
            case _:
                pass
        return None


@contextmanager
def held(recording: Recording, provider: ReplayProvider, settings: Settings) -> Iterator[EngineRun]:
    """Open the session of a recording; nothing of it is stored."""
    name = "replay"
    window = {} if settings.context_window is not None else {"context_window": provider.profile.window}
    session_parts = replace(factory.in_memory(name, replace(settings, **window)), cwd=ROOT)
    client = InProcessClient(provider)
    options: factory.Options = {
        "client": client,
        "wire": "messages",
        "clock": provider.clock,
        "system": text_of(recording.opening, provider.profile.tokenizer),
        "tools": [
            tool(tool_schema(tool_name), kind=KINDS.get(tool_name, "")) for tool_name in recording.tools
        ],
        "max_tokens": provider.max_tokens,
    }
    if provider.thinking is not None:
        options["thinking"] = provider.thinking
    conversation = factory.conversation(session_parts, provider.profile.model, options, provider.profile)
    # Files are restored as they were last read in the recording, not as they are on this machine.
    files = _RecordedFiles(recording, provider)
    conversation.read_files_with(files.read, still_exists=None)
    with Session(conversation, session_parts, client) as session:
        yield EngineRun(recording, provider, settings, session_parts, session)


class _RecordedFiles:
    """The files of a recording, as they had been read up to the current step."""

    def __init__(self, recording: Recording, provider: ReplayProvider) -> None:
        self._provider = provider
        self._read: dict[str, list[tuple[int, str]]] = {}
        calls: dict[str, str] = {}
        for number, step in enumerate(recording.steps):
            for block in step.results:
                if path := calls.get(block.id):
                    self._read.setdefault(path, []).append((number, blocks.words_of(block)))
            for part in step.answer:
                if part["type"] == "tool_use" and KINDS.get(part["name"]) == "read":
                    calls[part["id"]] = path_of(part["input"])

    def read(self, path: str) -> str:
        """The text of a file; raises `FileNotFoundError` if it was not read."""
        texts = [text for number, text in self._read.get(path, ()) if number <= self._provider.step]
        if not texts:
            raise FileNotFoundError(path)
        return texts[-1]
