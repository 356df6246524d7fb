"""Opening a session: builds a conversation with all its parts from names, folders and settings."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from msgspec import Struct
from msgspec.structs import replace

import sevenfold
from sevenfold import ports
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.fork import begin_branch
from sevenfold.conversation.layer import Layer
from sevenfold.conversation.options import RequestOptions, Services
from sevenfold.conversation.room import REPRODUCIBLE
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import InputError, TranscriptError
from sevenfold.events import Listener
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.layers.ladder import REMEMBERING, STANDARD, Ladder
from sevenfold.layers.remember.offline import find_facts
from sevenfold.memory.memory import Memory
from sevenfold.profiles import Profile
from sevenfold.providers.anthropic import ANTHROPIC
from sevenfold.providers.models import Lister, Listings
from sevenfold.providers.offline import Job
from sevenfold.providers.openai.client import OPENAI
from sevenfold.providers.registry import address_for, client_of, profile_through, provider_for
from sevenfold.recall import meaning
from sevenfold.recall.index import SessionRecall
from sevenfold.recall.search import Hit
from sevenfold.record import blocks
from sevenfold.record.entries import VERSION
from sevenfold.record.known_secrets import parse_dotenv, secret_values
from sevenfold.record.log import Place
from sevenfold.record.redact import find
from sevenfold.request.frame import Frame, Lifetimes
from sevenfold.request.sections import SystemPrompt
from sevenfold.session import named_layers
from sevenfold.session.options import check_name
from sevenfold.settings import Source
from sevenfold.stores.files import reason_of
from sevenfold.stores.folder import FileFolder, process_is_alive, this_process
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import Sync
from sevenfold.stores.jsonl.store import FileStore, JsonlStore
from sevenfold.stores.lineage import must_be_user
from sevenfold.stores.memory import MemoryStore
from sevenfold.stores.registry import open_store
from sevenfold.stores.settings_files import FileSource, load, warn_ignored
from sevenfold.telemetry.jsonl import JsonlSink
from sevenfold.telemetry.otel import OtelSink
from sevenfold.wire.openai import from_function

Lifetime = Literal["5m", "1h"]
_LADDER = Ladder(STANDARD)
_REMEMBERING = Ladder(REMEMBERING)
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_LOOKED_THROUGH = 1_000_000
"""How many bytes at the start of a file are searched for a record, to tell whether it is a transcript."""
ENV_FILES = (".env", ".env.local", ".envrc")
"""Project files that set environment variables, which may be secrets."""
OWN_ADDRESSES = MappingProxyType({"anthropic": ANTHROPIC.url, "openai": OPENAI.url})
"""Where the providers' own APIs are reached, with nothing in between."""
USUAL_ANSWER = 8_000
"""The default maximum tokens of an answer, or the model's own maximum if that is lower."""


OFFLINE_JOBS: Mapping[str, Job] = MappingProxyType(
    {
        "compact": summarise,
        "session_memory": take_notes,
        "extract_memories": find_facts,
        "dream": lambda request: "<nothing/>",
        "prompt_suggestion": lambda request: "<nothing/>",
    }
)
"""Tasks that the offline model does by fixed rules, so that every layer works without a key."""


class Tool(Struct, frozen=True):
    """A tool: its definition for the model, and its kind for the engine."""

    schema: Mapping[str, Any]
    kind: str = ""


def tool(schema: Mapping[str, Any], *, kind: str = "") -> Tool:
    """A tool with a kind: read, shell, search, web, edit or write. The schema may be in the format of any API.

    Results of these kinds can be obtained again, so they may be cleared when they are old. Results of a tool without
    a kind never are.
    """
    if kind and kind not in REPRODUCIBLE:
        raise InputError(
            f"{kind!r} is not a kind of tool; kinds are {', '.join(sorted(REPRODUCIBLE))}, or none"
        )
    definition = dict(from_function(schema))
    if definition.get("type") in (None, "custom"):
        if isinstance(definition.get("custom"), Mapping):
            name = definition["custom"].get("name")
            raise InputError(f"the tool {name!r} takes plain text; pass a function with an input schema")
        definition.setdefault("input_schema", {"type": "object", "properties": {}})
        if not isinstance(definition["input_schema"], Mapping):
            raise InputError(f"the input_schema of the tool {definition.get('name')!r} must be a mapping")
        if isinstance(name := definition.get("name"), str) and not _TOOL_NAME.fullmatch(name):
            raise InputError(
                f"{name!r} is not a valid tool name: providers take 1 to 128 letters, digits, _ and -"
            )
    return Tool(definition, kind)


class Options(TypedDict, total=False):
    """The options of a session besides its name and model."""

    system: str | Sequence[str] | SystemPrompt
    """The system prompt: a text, or several, starting with the one that changes least often."""
    tools: Iterable[Tool | Mapping[str, Any]]
    max_tokens: int
    client: Any
    """A client of an official SDK, or one of ours. Without one, the environment determines the client of `complete`,
    and a caller's own loop gets summaries by extraction and no notes."""
    wire: str | None
    """The API that requests are built for: ``messages``, ``chat`` or ``responses``; by default, the client and the
    model's profile decide."""
    settings: Mapping[str, object] | Source
    """Settings that override those in files and environment, or a source of all settings."""
    listen: Iterable[Listener]
    lifetime: Lifetime
    """How long the provider should cache the conversation; by default, the settings decide."""
    within_quota: Callable[[], bool]
    """Whether the account may still cache for an hour; asked when the session opens and at each new epoch, so that an
    hour is never exchanged for five minutes in between. By default it always may."""
    thinking: Mapping[str, Any]
    fields: Mapping[str, Any]
    """Other fields of every request."""
    betas: Iterable[str]
    clock: ports.Clock
    ids: ports.Ids
    """Generates record ids; random by default, pass your own to make a run repeatable to the byte."""
    source: str
    """The query source of requests: ``main`` by default, ``sdk`` for a program's own requests."""
    hooks: Any
    """`Hooks`, or `AsyncHooks` for an `AsyncSession`."""
    memory: bool
    """Whether to remember lasting facts across sessions and recall them; off by default."""
    layers: Sequence[Layer | str]
    """The layers that keep it within the window, cheapest first; by default `sevenfold.layers.ladder.STANDARD`.

    A name stands for a layer that an installed package brings."""


class OpenOptions(Options, total=False):
    """The options of a session, and where it is stored."""

    folder: Path | str | None
    """The folder of its project; by default the working directory."""
    file: Path | str | None
    store: ports.Store | Path | str | None
    lock_wait: float
    """Seconds to wait for another writer."""
    branch: str | None
    """The name of a fork of the session to open, new or continued."""


class RequestFields(TypedDict, total=False):
    """Fields that can be set for a single request."""

    max_tokens: int
    thinking: Mapping[str, Any]
    tool_choice: Mapping[str, Any]
    stop_sequences: Sequence[str]
    output_config: Mapping[str, Any]
    """Effort, and the format of the answer."""
    metadata: Mapping[str, Any]
    betas: Iterable[str]
    """Beta features in addition to those of every request."""
    fields: Mapping[str, Any]
    """Any other fields; None leaves out a field that every request has."""


def _nothing() -> None:
    """Release nothing."""


class SessionParts(Struct, frozen=True):
    """The opened parts of a session: its log, and everything stored with it."""

    name: str
    log: ports.Log
    results: ports.Results
    settings: Source
    notes: ports.StoredText
    recall: SessionRecall
    cwd: str = ""
    path: str = ""
    branch: str = ""
    """The name of the session's branch; empty for the session itself."""
    fresh: bool = False
    """Whether the branch started empty, and so is not a fork."""
    telemetry: Path | None = None
    models: Path | None = None
    """Where the servers' listings of their models are stored."""
    memory: ports.Folder | None = None
    """The folder of the project's memory, which outlives the session; None if there is none."""
    user_memory: ports.Folder | None = None
    store: ports.Store | None = None
    """The store with the project's sessions."""
    mailbox: ports.Mailbox | None = None
    """Messages between the project's agents; None if the store keeps none."""
    release: Callable[[], None] = _nothing
    """Closes the store, if it was opened for this session."""

    def branch_off(self, name: str, *, empty: bool) -> SessionParts:
        """Open a branch of this log, new or continued, with its own log; with ``empty`` it starts without records."""
        assert self.store is not None
        of, at = ("", 0) if empty else (self.branch, None)
        log = self.store.branch(self.name, name, of=of, at=at)
        index = self.store.recall_index(self.name, name)
        masks = self.settings.current().redaction == "gate"
        return replace(
            self,
            log=log,
            # The session's own notes and index describe another conversation.
            notes=self.store.notes(self.name, name),
            recall=SessionRecall(log, index, self.results, masks=masks),
            branch=name,
            fresh=empty,
            release=_nothing,
        )

    def branch_path(self, name: str) -> str:
        """The path of a branch's file; empty if it is not stored in a file."""
        return str((self.store and self.store.transcript(self.name, name)) or "")

    def search(
        self,
        query: str,
        *,
        kind: str | None = None,
        k: int = 10,
        by: str | None = None,
        weak: bool = False,
    ) -> list[Hit]:
        """The matching records, best first; unless ``by`` says how to search, the settings decide."""
        meant = self.settings.current().recall_meaning
        return self.recall.search(query, kind=kind, k=k, by=meaning.way(by), meant=meant, weak=weak)


def on_disk(name: str, options: OpenOptions) -> SessionParts:
    """Open the parts of a session in the user's home, in a file, or in a store of the caller's choice."""
    folder = options.get("folder")
    file = options.get("file")
    chosen = options.get("store")
    branch = options.get("branch")
    settings = options.get("settings", {})
    check_name(name, "name")
    if branch is not None:
        check_name(branch, "branch")
    if file is not None:
        _must_be_transcript(Path(file))
    project = Path(folder) if folder is not None else Path.cwd()
    source = FileSource(project, settings) if isinstance(settings, Mapping) else settings
    if file is not None and chosen is not None:
        raise InputError("pass file= or store=, not both")
    home = user_home()
    sync = Sync(source.current().fsync)
    store: ports.Store
    if chosen is not None:
        store = open_store(chosen, sync=sync)
    elif file is not None:
        store = FileStore(Path(file), home.project(project), sync=sync, user_memory=home.memory)
    else:
        store = JsonlStore(home.project(project).folder, sync=sync, user_memory=home.memory)
    # A store that the caller made is the caller's to close.
    release = store.close if store is not chosen else _nothing
    try:
        parts = _opened(store, name, source, branch, options.get("lock_wait", 0.0))
    except BaseException:
        release()
        raise
    return replace(parts, cwd=str(project), telemetry=home.telemetry, models=home.models, release=release)


def _opened(
    store: ports.Store, name: str, source: Source, branch: str | None = None, wait: float = 0.0
) -> SessionParts:
    """Open the parts of a session in a store, or of one of its branches."""
    log = store.open(name, wait=wait) if branch is None else store.branch(name, branch, wait=wait)
    try:
        return _parts(store.fenced(log), log, name, branch or "", source)
    except BaseException:
        log.close()
        raise


def _parts(store: ports.Store, log: ports.Log, name: str, branch: str, source: Source) -> SessionParts:
    """The parts of a session, or of a branch, whose log is open."""
    settings = source.current()
    results = store.results(name)
    recall = SessionRecall(
        log,
        store.recall_index(name, branch),
        results,
        masks=settings.redaction == "gate",
        vectors=settings.recall_vectors,
    )
    return SessionParts(
        name=name,
        log=log,
        results=results,
        settings=source,
        notes=store.notes(name, branch),
        recall=recall,
        branch=branch,
        path=str(store.transcript(name) or ""),
        memory=store.memory(),
        user_memory=store.user_memory(),
        store=store,
        mailbox=store.mailbox(),
    )


def parts_in(
    store: ports.Store, log: ports.Log, name: str, settings: Source, cwd: str = ""
) -> SessionParts:
    """The parts of a session whose log is open in a store."""
    return replace(_parts(store.fenced(log), log, name, "", settings), cwd=cwd)


def _must_be_transcript(file: Path) -> None:
    """Raise `TranscriptError` if the file has content but no record, because the session would append to it."""
    try:
        with file.open("rb") as opened:
            lines = opened.read(_LOOKED_THROUGH).splitlines()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise TranscriptError(f"{file} cannot be read: {reason_of(error)}") from None
    if lines and not any(b'"type"' in line and line.lstrip().startswith(b"{") for line in lines):
        raise TranscriptError(
            f"{file} is not a transcript, so no session can continue in it; name another file"
        )


def in_memory(
    name: str, settings: Mapping[str, object] | Source | None, folder: Path | None = None
) -> SessionParts:
    """The parts of a session that is not stored; its settings, also from files and environment, are read once."""
    check_name(name, "name")
    source = settings
    if source is None or isinstance(source, Mapping):
        loaded = load(folder or Path.cwd(), source or {})
        warn_ignored(loaded)
        source = loaded.settings
    return _opened(MemoryStore(), name, source)


def conversation(
    store: SessionParts,
    model: str,
    options: Options,
    profile: Profile | None = None,
    frame: Frame | None = None,
    transcript: Transcript | None = None,
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> Conversation:
    """Create the conversation of a session, closing its log on failure. See `Conversation` for ``frame``.

    ``transcript`` has the session's log, if it is open already; ``kinds`` are those of tools that no option names.
    """
    try:
        model_profile = profile or profile_for(store, model, options.get("client"), options.get("wire"))
        return _conversation(store, model, options, model_profile, frame, transcript, kinds)
    except BaseException:
        store.log.close()
        store.release()
        raise


def open_memory(
    folder: Path | str | None = None, *, user: bool = False, store: ports.Store | None = None
) -> Memory:
    """The memory of the project in a folder (default: the working directory), or with ``user`` the user's memory.

    With ``store``, it is the memory of that store.
    """
    if store is not None:
        return memory_in(store.user_memory() if user else store.memory(), SystemClock())
    home = user_home()
    path = home.memory if user else home.project(Path(folder) if folder is not None else Path.cwd()).memory
    return memory_in(FileFolder(path), SystemClock())


def memory_in(folder: ports.Folder, clock: ports.Clock) -> Memory:
    """The memory in a folder; it rejects entries that contain a secret, and user's words from an agent's process."""

    def today() -> str:
        return datetime.fromtimestamp(clock.now()).date().isoformat()

    return Memory(folder, clock, today, _secret_in, must_be_user)


def _secret_in(content: bytes) -> str:
    secrets = find(content.decode(errors="replace"))
    return f"it holds a secret ({secrets[0].kind})" if secrets else ""


def _is_there(folder: Path, claim: str) -> bool:
    """Whether a path, a command or "--flag in path" still exists; a flag in an unreadable file is assumed to exist."""
    flag, named, script = claim.partition(" in ")
    if named:
        with suppress(OSError):
            return flag.encode() in (folder / script).read_bytes()
        return True
    return (folder / claim).exists() if "/" in claim or "." in claim else shutil.which(claim) is not None


def exists_in(folder: Path | str | None = None) -> Callable[[str], bool]:
    """A check whether a path or command named in memory exists in a project (default: the working directory)."""
    return partial(_is_there, Path(folder) if folder is not None else Path.cwd())


def known_secrets(store: SessionParts, client: object = None) -> set[str]:
    """Values that the gate masks wherever they occur: from the environment, `.env` files and the client's key."""
    if store.settings.current().redaction != "gate":
        return set()
    secrets = secret_values(os.environ)
    for name in ENV_FILES:
        with suppress(OSError, UnicodeDecodeError):
            secrets |= secret_values(parse_dotenv((Path(store.cwd) / name).read_text(encoding="utf-8")))
    key = getattr(client, "api_key", None)
    return secrets | {key} if isinstance(key, str) else secrets


def read_text(path: str) -> str:
    """The current text of a file, to be restored after a summary."""
    return Path(path).read_text(encoding="utf-8")


def profile_for(store: SessionParts, model: str, client: Any, wire: str | None = None) -> Profile:
    """The profile of a model, from our table and its server's listing."""
    lister = client if client is None or isinstance(client, Lister) else client_of(client, wire)
    address = lister.address if isinstance(lister, Lister) else address_for(model, wire)
    return listings(store).profile(model, address, lister)


def listings(store: SessionParts) -> Listings:
    """The model listings that a session uses."""
    return Listings(store.models, switched_on=store.settings.current().model_listing)


def _conversation(
    store: SessionParts,
    model: str,
    options: Options,
    profile: Profile,
    frame: Frame | None,
    transcript: Transcript | None,
    kinds: Mapping[str, str],
) -> Conversation:
    clock = options.get("clock") or SystemClock()
    if transcript is None:
        origin = Place(store.name, store.cwd, f"{VERSION}{sevenfold.__version__}")
        transcript = Transcript(store.log, origin, clock=clock, ids=options.get("ids") or RandomIds())
    provider = provider_for(model, options.get("client"), options.get("wire"))
    profile = profile_through(provider, profile)
    folders = (store.memory, store.user_memory) if options.get("memory") else (None, None)
    memory, user_memory = (memory_in(folder, clock) if folder else None for folder in folders)
    services = Services(
        clock=clock,
        settings=store.settings,
        results=store.results,
        listeners=[*options.get("listen", ()), *_sinks(store)],
        recall=store.recall,
        meaning=store.recall.meaning,
        notes=store.notes,
        read_file=read_text if store.cwd else None,
        memory=memory,
        user_memory=user_memory,
        store=store.store,
        still_exists=partial(_is_there, Path(store.cwd)) if store.cwd else None,
        secrets=known_secrets(store, options.get("client")),
        path=store.path,
        within_quota=options.get("within_quota"),
        process=this_process(),
        is_alive=process_is_alive,
    )
    ladder = _REMEMBERING if services.memory is not None else _LADDER
    layers = options.get("layers")
    if layers is not None:
        ladder = Ladder(named_layers.resolved(layers))
    elif added := store.settings.current().layer_plugins:
        ladder = Ladder([*named_layers.resolved(added, where="the setting layer_plugins"), *ladder.layers])
    conversation = Conversation(
        transcript,
        _request_options(profile, options, kinds),
        profile,
        services,
        ladder,
        frame,
    )
    if store.branch and not store.fresh:
        begin_branch(conversation, store.branch)
    return conversation


def _request_options(profile: Profile, options: Options, kinds: Mapping[str, str]) -> RequestOptions:
    tools = [_described(tool, index) for index, tool in enumerate(options.get("tools", ()))]
    prompt = options.get("system", ())
    system = prompt if isinstance(prompt, SystemPrompt) else _system(prompt)
    fields = dict(options.get("fields", {}))
    if "thinking" in options:
        fields["thinking"] = options["thinking"]
    lifetime = options.get("lifetime")
    return RequestOptions(
        profile.model,
        options.get("max_tokens", min(USUAL_ANSWER, profile.max_output)),
        system,
        tuple(tool.schema for tool in tools),
        {**{str(tool.schema.get("name", "")): tool.kind for tool in tools}, **kinds},
        fields,
        tuple(options.get("betas", ())),
        Lifetimes(lifetime, lifetime) if lifetime else None,
        options.get("source", "main"),
        "Bedrock" in type(options.get("client")).__name__,
        reaches_provider(options.get("client"), profile),
    )


def reaches_provider(client: object, profile: Profile) -> bool:
    """Whether a client talks to the own API of the model's provider: through no gateway, on no other platform."""
    # Without a client, the caller sends the requests, and where to is not known.
    address = getattr(client, "address", None) or getattr(client, "base_url", None)
    return str(address or "").rstrip("/") == OWN_ADDRESSES.get(profile.provider)


def _described(definition: object, index: int) -> Tool:
    match definition:
        case Tool():
            return definition
        case Mapping():
            return tool(definition)
        case _:
            raise InputError(
                f"tools[{index}] is a {type(definition).__name__}; pass a mapping with a name, a description and a "
                "schema, or what tool() makes of it. Functions are for an Agent"
            )


def _system(prompt: object) -> tuple[bytes, ...]:
    """Convert texts, or text blocks, to the system prompt's blocks, without the caller's cache markers."""
    texts_given = (
        [prompt] if isinstance(prompt, str | Mapping) or not isinstance(prompt, Iterable) else list(prompt)
    )
    texts: list[str] = []
    for index, text_given in enumerate(texts_given):
        text = (
            text_given.get("text")
            if isinstance(text_given, Mapping) and text_given.get("type") == "text"
            else text_given
        )
        if not isinstance(text, str):
            raise InputError(
                f"system[{index}] is a {type(text_given).__name__}; pass a string, or a list of strings"
            )
        texts.append(text)
    not_blank = filter(str.strip, texts)
    return tuple(blocks.text(text).raw for text in not_blank)


def _sinks(store: SessionParts) -> list[Listener]:
    kind = store.settings.current().telemetry
    if kind == "jsonl" and store.telemetry is not None:
        return [JsonlSink(store.telemetry)]
    return [OtelSink()] if kind == "otel" else []
