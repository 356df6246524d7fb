"""Two requests compared to the byte: whether the second reads from the cache what the first one wrote, and why not."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from sevenfold.conversation.history import past
from sevenfold.errors import InputError
from sevenfold.ports import Log
from sevenfold.profiles import Profile, find
from sevenfold.record.blocks import encode_json, read, read_field, text
from sevenfold.record.decisions import Epoch, Request
from sevenfold.record.decoding import NOT_JSON
from sevenfold.record.weight import Estimator, opening
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame, Lifetimes, Marker
from sevenfold.request.watch import Sent, first_loss, rewrite_usd


class Comparison(Struct, frozen=True):
    """Whether and where the cache would break between two requests, and what that costs."""

    breaks: bool
    cause: str = ""
    part: str = ""
    tokens: int = 0
    """Estimated tokens of the first request that would be written to the cache again."""
    usd: float | None = None
    also: tuple[str, ...] = ()
    """Other parts before the messages that differ."""
    diff: str = ""


def compare(earlier: Sent, later: Sent, *, frame_only: bool = False) -> Comparison:
    """Find where the second request stops reading what the first one wrote to the cache, and the cost."""
    if frame_only:
        earlier, later = (msgspec.structs.replace(sent, messages=()) for sent in (earlier, later))
    profile = find(earlier.frame.model)
    change = first_loss(earlier, later, profile)
    if change is None:
        return Comparison(False)
    lost = round(_tokens(earlier, profile) * (1 - change.kept))
    usd = rewrite_usd(lost, later.lifetimes, profile)
    other_parts = tuple(part for part in changed_parts(earlier, later) if part != change.part)
    diff = change.diff() if change.was or change.now else ""
    return Comparison(True, change.cause, change.part, lost, usd, other_parts, diff)


def _tokens(sent: Sent, profile: Profile) -> int:
    parts = (*sent.frame.tools, *sent.frame.system, *(message.raw for message in sent.messages))
    return round(Estimator.of(profile.tokenizer).tokens(opening(*parts)))


def recorded(log: Log, number: int, name: str) -> tuple[str, Sent]:
    """The title and the content of a session's request by its number; negative numbers count from the newest."""
    request = past(log, number)
    epochs = (epoch for _, epoch in log.decisions(Epoch))
    epoch = next(epoch for epoch in epochs if epoch.id == request.record.epoch)
    title = f"{name}, request {request.record.number}"
    return title, from_body(request.body, title, epoch.betas, Lifetimes(**epoch.lifetimes))


def first_of_epoch(log: Log, wanted: int, name: str) -> int:
    """The number of the first request of an epoch; epochs without requests are not counted."""
    requests = [request for _, request in log.decisions(Request) if not request.appended][::-1]
    epochs = list(dict.fromkeys(request.epoch for request in requests))
    if (available := len(epochs)) <= wanted:
        raise InputError(
            f"{name} has requests in {available} epochs, numbered from 0; there is no e{wanted}"
        )
    return next(request.number for request in requests if request.epoch == epochs[wanted])


def from_body(raw: bytes, name: str, betas: Iterable[str] = (), lifetimes: Lifetimes | None = None) -> Sent:
    """The content of a request from its body; raises `InputError` if it is none."""
    try:
        return sent_of(raw, betas, lifetimes)
    except (*NOT_JSON, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{name} does not hold the body of a request as JSON, as it was sent: {error}"
        ) from error


def changed_parts(earlier: Sent, later: Sent) -> list[str]:
    """The names of all parts before the messages that were changed, removed or added."""
    was = dict(earlier.frame.parts())
    later_parts = dict(later.frame.parts())
    changed = (name for name, raw in was.items() if later_parts.get(name) != raw)
    names = [name if name in later_parts else f"{name} is gone" for name in changed]
    return names + [f"{name} was added" for name in later_parts if name not in was]


def sent_of(body: bytes, betas: Iterable[str] = (), lifetimes: Lifetimes | None = None) -> Sent:
    """Read a request's body as the cache sees it; raises a msgspec error or `KeyError` if it is not one."""
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    markers: list[Marker] = []

    def bare(raw: Raw, level: str, index: int, block: int = 0) -> bytes:
        held = msgspec.json.decode(raw, type=dict[str, Raw])
        if control := held.pop("cache_control", None):
            markers.append(Marker(level, index, block, read_field(bytes(control), "ttl") or "5m"))
        return encode_json(held) if control else bytes(raw)

    def blocks(raw: Raw) -> list[Raw]:
        content = msgspec.json.decode(raw, type=str | list[Raw])
        return [Raw(text(content).raw)] if isinstance(content, str) else content

    tools = msgspec.json.decode(fields.pop("tools", b"[]"), type=list[Raw])
    system = blocks(fields.pop("system", Raw(b"[]")))
    messages = []
    for index, raw in enumerate(msgspec.json.decode(fields.pop("messages"), type=list[dict[str, Raw]])):
        parts = [
            bare(part, "messages", index, position) for position, part in enumerate(blocks(raw["content"]))
        ]
        role = msgspec.json.decode(raw["role"], type=str)
        messages.append(Message.of(role, list(map(read, parts))))
    frame = Frame(
        msgspec.json.decode(fields.pop("model"), type=str),
        msgspec.json.decode(fields.pop("max_tokens", b"0"), type=int),
        tuple(bare(part, "system", position) for position, part in enumerate(system)),
        tuple(bare(part, "tools", position) for position, part in enumerate(tools)),
        tuple(sorted((name, bytes(raw)) for name, raw in fields.items() if name != "stream")),
        tuple(sorted(betas)),
    )
    return Sent(frame, tuple(messages), lifetimes or Lifetimes(), 0.0, tuple(markers))
