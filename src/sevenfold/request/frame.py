"""The frame of a request (all that is not a message, frozen for an epoch), the cache markers, and the request body.

System, tools and settings are encoded once, when an epoch opens; messages come encoded from the view. A body is these
parts joined: nothing is encoded twice, and the same parts always give the same bytes.

There are at most four cache markers, each with a purpose: the end of what never changes (the static part of the system
prompt, which covers the tools before it), the end of the session's part, and the tail, which the next request will
look up first. The provider looks back only a limited number of positions from a marker; if a turn has added more than
that, the fourth marker goes where the last request's tail was, so that its cached prefix is found. A marker below the
model's minimum would be ignored, so none is placed there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.errors import InputError
from sevenfold.profiles import Cache
from sevenfold.record.blocks import (
    THINKING,
    Block,
    ToolResult,
    ToolUse,
    encode_json,
    is_deferred,
    read_field,
)
from sevenfold.record.wire import PIECES, Message, pieces_of
from sevenfold.request.sections import SystemPrompt

EDITS = "context_management"
"""The setting that requests the provider's own edits."""
UNCACHED = frozenset(
    {"container", "diagnostics", "inference_geo", "metadata", "service_tier", "stop_sequences"}
    | {"user_profile_id", "workspace_id"}
)
"""Settings that do not affect the cache."""
_RUNS = frozenset({"tool_use", "tool_result"})


class Marker(Struct, frozen=True):
    """A place up to which the provider is asked to cache."""

    level: str
    """tools, system or messages"""
    index: int
    """Which tool, system block or message."""
    block: int = 0
    """Which block of the message."""
    ttl: str = "5m"


class Frame(Struct, frozen=True):
    """Everything that precedes the messages, as bytes."""

    model: str
    max_tokens: int
    system: tuple[bytes, ...] = ()
    tools: tuple[bytes, ...] = ()
    settings: tuple[tuple[str, bytes], ...] = ()
    """Other encoded fields of the request, such as ``thinking`` and ``context_management``."""
    betas: tuple[str, ...] = ()
    sections: tuple[tuple[str, str], ...] = ()
    """Name and text of each section in the system blocks, to report which one changed."""

    @classmethod
    def of(
        cls,
        model: str,
        max_tokens: int,
        *,
        system: SystemPrompt | Sequence[bytes] = (),
        tools: Iterable[Any] = (),
        betas: Iterable[str] = (),
        **settings: Any,
    ) -> Frame:
        """Encode the fixed parts of requests; tools keep their order, betas are sorted."""
        encoded = [(_tool_name(tool, number), encode_json(tool)) for number, tool in enumerate(tools)]
        names = [name for name, _ in encoded]
        if twice := {name for name in names if names.count(name) > 1}:
            raise InputError(
                f"two tools are called {sorted(twice)[0]!r}; every tool needs a name of its own"
            )
        set_fields = {name: value for name, value in sorted(settings.items()) if value is not None}
        fields = tuple((name, encode_json(value)) for name, value in set_fields.items())
        named = tuple(system.parts().items()) if isinstance(system, SystemPrompt) else ()
        system_blocks = system.blocks() if isinstance(system, SystemPrompt) else tuple(system)
        schemas = tuple(raw for _, raw in encoded)
        return cls(model, max_tokens, system_blocks, schemas, fields, tuple(sorted(set(betas))), named)

    def words(self) -> str:
        """The system prompt as text."""
        return "\n\n".join(read_field(part, "text") for part in self.system)

    @property
    def edits(self) -> bytes | None:
        """The setting for the provider's own edits; None if there is none."""
        return next((raw for name, raw in self.settings if name == EDITS), None)

    def with_system(self, prompt: SystemPrompt) -> Frame:
        """The frame with this system prompt instead."""
        return replace(self, system=prompt.blocks(), sections=tuple(prompt.parts().items()))

    def parts(self) -> list[tuple[str, bytes]]:
        """Every part that affects the cache, by name, in the order in which the provider caches them."""
        named = [("model", self.model.encode())]
        named += [(f"tool {tool_name(raw)}", raw) for raw in self.tools if not is_deferred(raw)]
        named += [(f"system block {place + 1}", raw) for place, raw in enumerate(self.system)]
        # On providers that document it, changing these keeps the cache of tools and system.
        named.append(("betas", ",".join(self.betas).encode()))
        named += [(f"setting {name}", raw) for name, raw in self.settings if name not in UNCACHED]
        return named

    def with_fields(self, fields: Mapping[str, bytes | Raw]) -> Frame:
        """The frame for one request with other fields; null removes a field, ``betas`` are added."""
        if not fields:
            return self
        settings = {**dict(self.settings), **{name: bytes(raw) for name, raw in fields.items()}}
        max_tokens = settings.pop("max_tokens", None)
        betas = settings.pop("betas", None)
        return replace(
            self,
            max_tokens=self.max_tokens if max_tokens is None else int(max_tokens),
            settings=tuple(sorted((name, raw) for name, raw in settings.items() if raw != b"null")),
            betas=tuple(sorted({*self.betas, *(msgspec.json.decode(betas) if betas else ())})),
        )


class Body(Struct, frozen=True):
    """A complete request body."""

    raw: bytes
    markers: tuple[Marker, ...]

    @property
    def sha256(self) -> str:
        """The hash of the body."""
        return hashlib.sha256(self.raw).hexdigest()


def assemble(
    frame: Frame,
    messages: Sequence[Message],
    markers: Sequence[Marker] = (),
    extra: Mapping[str, bytes] | None = None,
    message_pieces: list[bytes] | None = None,
) -> Body:
    """The body of a request: the frame, the messages, the markers, and ``extra`` fields of this request.

    ``message_pieces`` are the pieces of the messages, if the caller already has them.
    """
    system = list(frame.system)
    tools = list(frame.tools)
    message_pieces = pieces_of(messages) if message_pieces is None else message_pieces
    in_messages: dict[int, dict[int, str]] = {}
    for marker in markers:
        if marker.level == "messages":
            in_messages.setdefault(marker.index, {})[marker.block] = marker.ttl
            continue
        level = system if marker.level == "system" else tools
        level[marker.index] = marked(level[marker.index], marker.ttl)
    for index, ttls in in_messages.items():
        message_pieces[PIECES * index + 1] = _with_markers(messages[index], ttls)
    pieces = [b'{"model":', encode_json(frame.model), b',"max_tokens":%d' % frame.max_tokens]
    for name, parts in (("tools", tools), ("system", system)):
        if parts:
            pieces += [b',"%b":[' % name.encode(), b",".join(parts), b"]"]
    for name, raw in (*frame.settings, *(extra or {}).items()):
        pieces += [b',"%b":' % name.encode(), raw]
    pieces += [b',"messages":[', *message_pieces, b"]}"]
    return Body(b"".join(pieces), tuple(markers))


def marked(block: bytes, ttl: str) -> bytes:
    """An encoded block or tool with a cache marker as its last field."""
    control = b'{"type":"ephemeral"}' if ttl == "5m" else b'{"type":"ephemeral","ttl":"%b"}' % ttl.encode()
    bare = block.rstrip()
    comma = b"" if bare[:-1].rstrip().endswith(b"{") else b","
    return bare[:-1] + comma + b'"cache_control":' + control + b"}"


def markable(block: Block) -> bool:
    """Whether this block can have a cache marker."""
    return block.kind not in THINKING and block.kind != "cache_edits" and not block.blank


def excluded_tools(edits: bytes) -> set[str]:
    """Tools whose results the provider's own edits exclude."""
    decoded: dict[str, Any] = msgspec.json.decode(edits)
    requested = decoded.get("edits") or ()
    return set(chain.from_iterable(edit.get("exclude_tools") or () for edit in requested))


def tool_name(raw: bytes) -> str:
    """The name of an encoded tool, or its type if it has none."""
    return read_field(raw, "name") or read_field(raw, "type")


def _tool_name(tool: Any, index: int) -> str:
    name = tool.get("name") or tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(name, str):
        raise InputError(
            f"tool number {index + 1} has no name; a tool is a mapping with name and input_schema"
        )
    return name


def _with_markers(message: Message, ttls: dict[int, str]) -> bytes:
    """The content of a message with markers on some of its blocks."""
    encoded = []
    for index, part in enumerate(message.parts):
        encoded.append(marked(part.raw, ttls[index]) if index in ttls else part.raw)
    return b",".join(encoded)


# -- where the markers go --------------------------------------------------------------------------


class Lifetimes(Struct, frozen=True):
    """How long each part is cached; decided once per session, because a change would write a new cache entry."""

    fixed: str = "5m"
    """System and tools."""
    tail: str = "5m"
    """The conversation; never longer than `fixed`."""


class Sizes(Struct, frozen=True):
    """Estimated tokens up to the end of each part: enough to tell which are below the minimum."""

    tools: int
    system: tuple[int, ...]
    messages: int


class Tail(Struct, frozen=True):
    """The place of a cache marker in the messages: message and block."""

    index: int
    block: int


def plan(
    frame: Frame,
    messages: Sequence[Message],
    cache: Cache,
    sizes: Sizes,
    lifetimes: Lifetimes,
    *,
    last_tail: Tail | None = None,
    shared: int | None = None,
    edge: Tail | None = None,
) -> tuple[Marker, ...]:
    """The cache markers of a request.

    ``last_tail`` is the tail of the request that this one extends. ``edge`` is the last result that the provider's
    edits clear: after it, each request differs from the one before, so the next can read the cache only up to there.
    ``shared`` is how many messages a fork shares with its parent: its last marker is there, and its own are not cached.
    """
    if cache.markers == 0:
        return ()
    fixed = _fixed(frame, cache, sizes, lifetimes)
    cached_messages = messages if shared is None else messages[:shared]
    tail = _last_markable(cached_messages)
    if tail is None or sizes.messages < cache.minimum:
        return tuple(fixed[: cache.markers])
    room = cache.markers - 1
    conversation = [tail]
    if (
        edge is not None
        and _stands(cached_messages, edge)
        and (edge.index, edge.block) < (tail.index, tail.block)
    ):
        room -= 1
        conversation.insert(0, edge)
    elif last_tail is not None and last_tail != tail and _too_far(cached_messages, last_tail, tail, cache):
        room -= 1
        conversation.insert(0, last_tail)
    markers = fixed[-room:] if room < len(fixed) else fixed
    markers += [Marker("messages", mark.index, mark.block, lifetimes.tail) for mark in conversation]
    return tuple(markers)


def shared_edge(messages: Sequence[Message]) -> Tail | None:
    """Where forks made at the same place diverge: before the last block of each."""
    if not messages:
        return None
    *earlier, last = messages
    content = last.parts[:-1]
    tail = _last_markable([Message(last.role, content, b"")]) if content else None
    return Tail(len(earlier), tail.block) if tail is not None else _last_markable(earlier)


def edge_of(messages: Sequence[Message], cleared: int, excluded: Collection[str]) -> Tail | None:
    """The last of the ``cleared`` oldest results, which the provider clears; ``excluded`` tools are not counted."""
    names: dict[str, str] = {}
    edge = None
    for index, message in enumerate(messages):
        for block_index, block in enumerate(message.parts):
            match block.body() if block.kind in _RUNS else None:
                case ToolUse(id=call, name=name):
                    names[call] = name
                case ToolResult(tool_use_id=call) if cleared > 0 and names.get(call, "") not in excluded:
                    cleared -= 1
                    edge = Tail(index, block_index)
        if cleared <= 0:
            break
    return edge


def tail_of(markers: Sequence[Marker]) -> Tail | None:
    """The place of the last marker in the messages; None if there is none."""
    last = next((mark for mark in reversed(markers) if mark.level == "messages"), None)
    return Tail(last.index, last.block) if last else None


def positions(blocks: Sequence[Block], *, runs_collapse: bool) -> int:
    """How many positions of the provider's look-back these blocks take."""
    count = 0
    kind_before = ""
    for block in blocks:
        if not (runs_collapse and block.kind in _RUNS and block.kind == kind_before):
            count += 1
        kind_before = block.kind
    return count


def _fixed(frame: Frame, cache: Cache, sizes: Sizes, lifetimes: Lifetimes) -> list[Marker]:
    markers = []
    shown = [index for index, raw in enumerate(frame.tools) if not is_deferred(raw)]
    if shown and not frame.system and sizes.tools >= cache.minimum:
        markers.append(Marker("tools", shown[-1], ttl=lifetimes.fixed))
    for index, size in enumerate(sizes.system):
        if size >= cache.minimum:
            markers.append(Marker("system", index, ttl=lifetimes.fixed))
    # The provider takes four markers in all, and the conversation may need two.
    return markers[-2:]


def _last_markable(messages: Sequence[Message]) -> Tail | None:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "system":
            continue
        for block in range(len(messages[index].parts) - 1, -1, -1):
            if markable(messages[index].parts[block]):
                return Tail(index, block)
    return None


def _too_far(messages: Sequence[Message], last_tail: Tail, tail: Tail, cache: Cache) -> bool:
    """Whether the provider's look-back from the new tail would miss the old one."""
    if cache.look_back is None or not _stands(messages, last_tail):
        return False
    passed = (
        list(messages[last_tail.index].parts[last_tail.block + 1 :]) if last_tail.index < tail.index else []
    )
    for message in messages[last_tail.index + 1 : tail.index]:
        passed += message.parts
    passed += messages[tail.index].parts[: tail.block + 1]
    return positions(passed, runs_collapse=cache.runs_collapse) + 1 > cache.look_back


def _stands(messages: Sequence[Message], mark: Tail) -> bool:
    """Whether the block at this place exists and can be marked; an undo may have put other messages there."""
    parts = messages[mark.index].parts if mark.index < len(messages) else ()
    return mark.block < len(parts) and markable(parts[mark.block])
