"""Opening a session: from names, folders and settings to the core with all its parts in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from msgspec import Struct

import sevenfold
from sevenfold.adapters.home import user_home
from sevenfold.adapters.jsonl import JsonlLog, Sync
from sevenfold.adapters.memory import MemoryLog
from sevenfold.adapters.notes_file import FileNotes, MemoryNotes
from sevenfold.adapters.recall_index import RecallIndex, side_file
from sevenfold.adapters.results import FileResults, MemoryResults
from sevenfold.adapters.settings_files import FileSource
from sevenfold.adapters.telemetry.jsonl import JsonlSink
from sevenfold.adapters.telemetry.otel import OtelSink
from sevenfold.adapters.world import RandomIds, SystemClock
from sevenfold.errors import InputError
from sevenfold.events import Listener
from sevenfold.layers.redact import mask
from sevenfold.layers.stock import REPRODUCIBLE
from sevenfold.ports import Clock, Found, Ids, Log, Results
from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.log import Place
from sevenfold.request.plan import Lifetimes
from sevenfold.request.sections import SystemPrompt
from sevenfold.runtime.engine import Engine
from sevenfold.runtime.notes import NotesFile
from sevenfold.runtime.session import Session, Wanted
from sevenfold.runtime.transcript import Transcript
from sevenfold.settings import Fixed, Resolved, Source, resolve
from sevenfold.settings import Layer as SettingsLayer

Lifetime = Literal["5m", "1h"]
USUAL_ANSWER = 8_000
"""Tokens an answer may have if nobody says, and the model can give so many."""


class Tool(Struct, frozen=True):
    """A tool as the model is told of it, and what kind of tool it is for the engine."""

    schema: Mapping[str, Any]
    kind: str = ""


def tool(schema: Mapping[str, Any], *, kind: str = "") -> Tool:
    """A tool with a kind: read, shell, search, web, edit or write.

    Results of these kinds can be had again, so they may be cleared when they are old. Those of a tool without a
    kind never are.
    """
    if kind and kind not in REPRODUCIBLE:
        raise InputError(
            f"{kind!r} is no kind of tool; kinds are {', '.join(sorted(REPRODUCIBLE))}, or none"
        )
    return Tool(schema, kind)


class Options(TypedDict, total=False):
    """What a session can be opened with besides its name and its model."""

    system: str | Sequence[str] | SystemPrompt
    """The system prompt: a text, or several of which the first changes least often."""
    tools: Iterable[Tool | Mapping[str, Any]]
    max_tokens: int
    client: Any
    """A client of an official SDK, or one of ours; without one the environment decides who answers."""
    settings: Mapping[str, object] | Source
    """What overrides the settings in files and environment, or where all of them come from."""
    listen: Iterable[Listener]
    lifetime: Lifetime
    """How long the provider is to keep the conversation in its cache."""
    thinking: Mapping[str, Any]
    fields: Mapping[str, Any]
    """Other fields of every request."""
    betas: Iterable[str]
    clock: Clock
    ids: Ids
    """Names records; random ones unless a run is to be repeatable to the byte."""
    source: str
    """On whose behalf requests are made: ``main`` unless it is said otherwise, ``sdk`` for a program's own."""
    hooks: Any
    """`Hooks`, or `AsyncHooks` for a session that is awaited."""


class Recalled:
    """Recall as the core asks for it; the index is opened when it is first needed."""

    def __init__(self, log: Log, path: Path | None, results: Results) -> None:
        self._log = log
        self._path = path
        self._results = results
        self._index: RecallIndex | None = None

    @property
    def index(self) -> RecallIndex:
        """The index itself."""
        if self._index is None:
            beside = side_file(self._path) if self._path else None
            self._index = RecallIndex(self._log, beside, fetch=self._results.fetch)
        return self._index

    def catch_up(self) -> None:
        """Take in everything that was said up to now."""
        self.index.catch_up()

    def found(self, query: str, kinds: Sequence[str], most: int) -> Sequence[Found]:
        """The records that fit best, of these kinds."""
        hits = self.index.search(query, kind=kinds or None, k=most, around=0)
        return [Found(hit.uuid, hit.exact) for hit in hits]

    def close(self) -> None:
        """Let go of the file."""
        if self._index is not None:
            self._index.close()


class Store(Struct, frozen=True):
    """Where a session is kept."""

    name: str
    log: Log
    results: Results
    settings: Source
    notes: NotesFile
    recall: Recalled
    cwd: str = ""
    path: str = ""
    telemetry: Path | None = None


def on_disk(
    name: str,
    folder: Path | str | None,
    file: Path | str | None,
    settings: Mapping[str, object] | Source | None,
    lock_wait: float,
) -> Store:
    """A session in the user's home, or in a file."""
    project = Path(folder) if folder is not None else Path.cwd()
    source = (
        FileSource(project, settings or {})
        if settings is None or isinstance(settings, Mapping)
        else settings
    )
    home = user_home()
    kept = home.project(project).session(name)
    path = Path(file) if file is not None else kept.transcript
    results = FileResults(kept.results if file is None else path.parent / "tool-results" / path.stem)
    if file is None:
        home.project(project).create()
    log = JsonlLog.open(path, wait=lock_wait, sync=Sync(source.current().fsync))
    return Store(
        name=name,
        log=log,
        results=results,
        settings=source,
        notes=FileNotes(kept.notes),
        recall=Recalled(log, path, results),
        cwd=str(project),
        path=str(path),
        telemetry=home.root / "telemetry.jsonl",
    )


def in_memory(name: str, settings: Mapping[str, object] | Source | None) -> Store:
    """A session that is kept nowhere; files and environment do not touch its settings."""
    source = _only(settings or {}) if settings is None or isinstance(settings, Mapping) else settings
    log, results = MemoryLog(), MemoryResults()
    return Store(
        name=name,
        log=log,
        results=results,
        settings=source,
        notes=MemoryNotes(),
        recall=Recalled(log, None, results),
    )


def engine(store: Store, model: str, options: Options) -> Engine:
    """The engine's side of a session, with the layers that ask a model."""
    return Engine(
        _core(store, model, options),
        clock=options.get("clock") or SystemClock(),
        recall=store.recall,
        notes=store.notes,
        read_file=read_text if store.path else None,
        transcript_path=store.path,
        source=options.get("source", "main"),
    )


def read_text(path: str) -> str:
    """A file's text as it is now, to be put back behind a summary."""
    return Path(path).read_text(encoding="utf-8")


def _core(store: Store, model: str, options: Options) -> Session:
    clock = options.get("clock") or SystemClock()
    place = Place(store.name, store.cwd, f"sevenfold-{sevenfold.__version__}")
    try:
        transcript = Transcript(store.log, place, clock=clock, ids=options.get("ids") or RandomIds())
        profile = find(model)
        return Session(
            transcript,
            _wanted(profile.model, options),
            profile,
            results=store.results,
            clock=clock,
            settings=store.settings,
            listeners=[*options.get("listen", ()), *_sinks(store)],
        )
    except BaseException:
        store.log.close()
        raise


def _wanted(model: str, options: Options) -> Wanted:
    tools = [one if isinstance(one, Tool) else Tool(one) for one in options.get("tools", ())]
    given = options.get("system", ())
    system = given if isinstance(given, SystemPrompt) else _system(given)
    fields = dict(options.get("fields", {}))
    if "thinking" in options:
        fields["thinking"] = options["thinking"]
    lifetime = options.get("lifetime", "5m")
    return Wanted(
        model,
        options.get("max_tokens", min(USUAL_ANSWER, find(model).max_output)),
        system,
        tuple(one.schema for one in tools),
        {str(one.schema.get("name", "")): one.kind for one in tools},
        fields,
        tuple(options.get("betas", ())),
        Lifetimes(lifetime, lifetime),
        options.get("source", "main"),
    )


def _system(given: object) -> tuple[bytes, ...]:
    """Texts, or blocks that hold one, as the system prompt's blocks; markers are the engine's business."""
    parts = [given] if isinstance(given, str | Mapping) or not isinstance(given, Iterable) else list(given)
    found: list[str] = []
    for place, part in enumerate(parts):
        words = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else part
        if not isinstance(words, str):
            raise InputError(f"system[{place}] is a {type(part).__name__}; give a text, or several")
        found.append(words)
    return tuple(blocks.text(words).raw for words in found if words.strip())


def _sinks(store: Store) -> list[Listener]:
    words: Callable[[str], str] = _masked
    match store.settings.current().telemetry:
        case "jsonl" if store.telemetry is not None:
            return [JsonlSink(store.telemetry, mask=words)]
        case "otel":
            return [OtelSink(mask=words)]
        case _:
            return []


def _masked(text: str) -> str:
    return mask(text).text


def _only(code: Mapping[str, object]) -> Fixed:
    made: Resolved = resolve([SettingsLayer("code", code)])
    return Fixed(made.settings)
