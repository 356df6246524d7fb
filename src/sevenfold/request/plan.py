"""Where the cache markers go.

At most four, and each for a reason: the end of what never changes (the static part of the system prompt,
which covers the tools before it), the end of what changes from session to session, and the tail, where the
next request will look first. The provider looks back only so many positions from a marker; when a turn has
added more than that, the fourth stands where the last request's tail was, so that its entry is found. A
marker below the model's minimum would be ignored, and none is spent on it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from sevenfold.profiles import Cache
from sevenfold.record.blocks import Block, ToolResult, ToolUse
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame, Marker, markable

_RUNS = frozenset({"tool_use", "tool_result"})


class Lifetimes(Struct, frozen=True):
    """How long each part is to be kept; decided once a session, because a change would be a new entry."""

    fixed: str = "5m"
    """System and tools."""
    tail: str = "5m"
    """The conversation; never longer than what stands before it."""


class Sizes(Struct, frozen=True):
    """Tokens, estimated, up to the end of each part: enough to tell what is below the minimum."""

    tools: int
    system: tuple[int, ...]
    messages: int


class Tail(Struct, frozen=True):
    """Where the last request of a source put its last marker."""

    index: int
    block: int


def plan(
    frame: Frame,
    messages: Sequence[Message],
    cache: Cache,
    sizes: Sizes,
    lifetimes: Lifetimes,
    *,
    before: Tail | None = None,
    shared: int | None = None,
    edge: Tail | None = None,
) -> tuple[Marker, ...]:
    """The markers of a request.

    ``before`` is the tail of the request this one extends. ``edge`` is the last result the provider itself
    clears: behind it every request differs from the one before, so that is where the next one finds something.
    ``shared`` is the number of messages a fork
    has in common with its parent: its last marker stands there, and what the fork adds is not written.
    """
    if cache.markers == 0:
        return ()
    fixed = _fixed(frame, cache, sizes, lifetimes)
    said = messages if shared is None else messages[:shared]
    tail = _last_markable(said)
    if tail is None or sizes.messages < cache.minimum:
        return tuple(fixed[: cache.markers])
    room = cache.markers - 1
    conversation = [tail]
    if edge is not None and _stands(said, edge) and (edge.index, edge.block) < (tail.index, tail.block):
        room -= 1
        conversation.insert(0, edge)
    elif before is not None and before != tail and _too_far(said, before, tail, cache):
        room -= 1
        conversation.insert(0, before)
    markers = fixed[-room:] if room < len(fixed) else fixed
    markers += [Marker("messages", place.index, place.block, lifetimes.tail) for place in conversation]
    return tuple(markers)


def shared_edge(messages: Sequence[Message]) -> Tail | None:
    """Where forks that were taken at the same place part: before the last text of each."""
    if not messages:
        return None
    *before, last = messages
    said = last.parts[:-1]
    found = _last_markable([Message(last.role, said, b"")]) if said else None
    return Tail(len(before), found.block) if found is not None else _last_markable(before)


def edge_of(messages: Sequence[Message], cleared: int, excluded: Collection[str]) -> Tail | None:
    """The last of so many results that the provider clears, oldest first, those of ``excluded`` tools not counted."""
    names: dict[str, str] = {}
    edge = None
    for index, message in enumerate(messages):
        for place, block in enumerate(message.parts):
            match block.body() if block.kind in _RUNS else None:
                case ToolUse(id=call, name=name):
                    names[call] = name
                case ToolResult(tool_use_id=call) if cleared > 0 and names.get(call, "") not in excluded:
                    cleared -= 1
                    edge = Tail(index, place)
        if cleared <= 0:
            break
    return edge


def tail_of(markers: Sequence[Marker]) -> Tail | None:
    """Where the conversation's last marker stands."""
    return next(
        (Tail(mark.index, mark.block) for mark in reversed(markers) if mark.level == "messages"), None
    )


def positions(blocks: Sequence[Block], *, runs_collapse: bool) -> int:
    """How many steps of the provider's look-back these blocks are."""
    count, before = 0, ""
    for block in blocks:
        if not (runs_collapse and block.kind in _RUNS and block.kind == before):
            count += 1
        before = block.kind
    return count


def _fixed(frame: Frame, cache: Cache, sizes: Sizes, lifetimes: Lifetimes) -> list[Marker]:
    markers = []
    if frame.tools and not frame.system and sizes.tools >= cache.minimum:
        markers.append(Marker("tools", len(frame.tools) - 1, ttl=lifetimes.fixed))
    for place, size in enumerate(sizes.system):
        if size >= cache.minimum:
            markers.append(Marker("system", place, ttl=lifetimes.fixed))
    return markers[-2:]


def _last_markable(messages: Sequence[Message]) -> Tail | None:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "system":
            continue
        for block in range(len(messages[index].parts) - 1, -1, -1):
            if markable(messages[index].parts[block]):
                return Tail(index, block)
    return None


def _too_far(messages: Sequence[Message], before: Tail, tail: Tail, cache: Cache) -> bool:
    """Would the look-back from the new tail miss the old one?"""
    if cache.look_back is None or not _stands(messages, before):
        return False
    passed: list[Block] = (
        list(messages[before.index].parts[before.block + 1 :]) if before.index < tail.index else []
    )
    for message in messages[before.index + 1 : tail.index]:
        passed += message.parts
    passed += messages[tail.index].parts[: tail.block + 1]
    return positions(passed, runs_collapse=cache.runs_collapse) + 1 > cache.look_back


def _stands(messages: Sequence[Message], place: Tail) -> bool:
    return place.index < len(messages) and place.block < len(messages[place.index].parts)
