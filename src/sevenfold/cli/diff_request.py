"""`sevenfold diff-request`: tells whether a request would read from the cache what another one wrote, and why not."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from sevenfold.cli import transcripts
from sevenfold.cli.output import ReportConsole
from sevenfold.cli.text import add_switches, print_json
from sevenfold.conversation.history import past
from sevenfold.errors import InputError
from sevenfold.profiles import Profile, find
from sevenfold.record.blocks import encode_json, read, read_field, text
from sevenfold.record.decisions import Epoch, Request
from sevenfold.record.weight import Estimator, opening
from sevenfold.record.wire import Message
from sevenfold.request.frame import Frame, Lifetimes, Marker
from sevenfold.request.watch import Sent, first_loss, rewrite_usd
from sevenfold.stores.jsonl.log import JsonlLog

BREAKS = 1
"""The exit code if the second request would not read all that the first one wrote to the cache."""


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


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("a", metavar="A")
    command.add_argument("b", metavar="B")
    add_switches(command, "--frame", "--json")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    (a, before), (b, now) = _request(options.a), _request(options.b)
    found = compare(before, now, frame_only=options.frame)
    if options.json:
        print_json({"a": a, "b": b, **msgspec.to_builtins(found)})
    else:
        _print(a, b, found)
    return BREAKS if found.breaks else 0


def compare(before: Sent, now: Sent, *, frame_only: bool = False) -> Comparison:
    """Find where the second request stops reading what the first one wrote to the cache, and the cost."""
    if frame_only:
        before, now = (msgspec.structs.replace(one, messages=()) for one in (before, now))
    profile = find(before.frame.model)
    change = first_loss(before, now, profile)
    if change is None:
        return Comparison(False)
    lost = round(_tokens(before, profile) * (1 - change.kept))
    usd = rewrite_usd(lost, now.lifetimes, profile)
    others = tuple(part for part in changed_parts(before, now) if part != change.part)
    diff = change.diff() if change.was or change.now else ""
    return Comparison(True, change.cause, change.part, lost, usd, others, diff)


def _tokens(sent: Sent, profile: Profile) -> int:
    parts = (*sent.frame.tools, *sent.frame.system, *(message.raw for message in sent.messages))
    return round(Estimator.of(profile.tokenizer).tokens(opening(*parts)))


def _request(name: str) -> tuple[str, Sent]:
    """The title and content of the request a user named: a JSON file, or a session with an optional number."""
    place, _, which = name.rpartition(":")
    if not (place and which.removeprefix("e").removeprefix("-").isdigit()) or Path(name).exists():
        place, which = name, "-1"
    path = transcripts.find(place)
    if path.suffix != ".jsonl":
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        return path.name, _body(path.read_bytes(), path.name)
    log = JsonlLog(path)
    number = _first_of_epoch(log, int(which[1:]), place) if which.startswith("e") else int(which)
    found = past(log, number)
    epoch = next(made for _, made in log.decisions(Epoch) if made.id == found.record.epoch)
    title = f"{path.stem}, request {found.record.number}"
    return title, _body(found.body, title, epoch.betas, Lifetimes(**epoch.lifetimes))


def _first_of_epoch(log: JsonlLog, wanted: int, place: str) -> int:
    """The number of the first request of an epoch; epochs without requests are not counted."""
    made = [one for _, one in log.decisions(Request) if not one.appended][::-1]
    epochs = list(dict.fromkeys(one.epoch for one in made))
    if (most := len(epochs)) <= wanted:
        raise InputError(f"{place} has requests in {most} epochs, numbered from 0; there is no e{wanted}")
    return next(one.number for one in made if one.epoch == epochs[wanted])


def _body(raw: bytes, name: str, betas: Iterable[str] = (), lifetimes: Lifetimes | None = None) -> Sent:
    try:
        return sent_of(raw, betas, lifetimes)
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{name} does not hold the body of a request as JSON, as it was sent: {error}"
        ) from error


def changed_parts(before: Sent, now: Sent) -> list[str]:
    """The names of all parts before the messages that were changed, removed or added."""
    was, parts = dict(before.frame.parts()), dict(now.frame.parts())
    changed = (name for name, raw in was.items() if parts.get(name) != raw)
    found = [name if name in parts else f"{name} is gone" for name in changed]
    return found + [f"{name} was added" for name in parts if name not in was]


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
        found = msgspec.json.decode(raw, type=str | list[Raw])
        return [Raw(text(found).raw)] if isinstance(found, str) else found

    tools = msgspec.json.decode(fields.pop("tools", b"[]"), type=list[Raw])
    system = blocks(fields.pop("system", Raw(b"[]")))
    messages = []
    for index, raw in enumerate(msgspec.json.decode(fields.pop("messages"), type=list[dict[str, Raw]])):
        parts = [bare(part, "messages", index, place) for place, part in enumerate(blocks(raw["content"]))]
        role = msgspec.json.decode(raw["role"], type=str)
        messages.append(Message.of(role, list(map(read, parts))))
    frame = Frame(
        msgspec.json.decode(fields.pop("model"), type=str),
        msgspec.json.decode(fields.pop("max_tokens", b"0"), type=int),
        tuple(bare(part, "system", place) for place, part in enumerate(system)),
        tuple(bare(part, "tools", place) for place, part in enumerate(tools)),
        tuple(sorted((name, bytes(raw)) for name, raw in fields.items() if name != "stream")),
        tuple(sorted(betas)),
    )
    return Sent(frame, tuple(messages), lifetimes or Lifetimes(), 0.0, tuple(markers))


def _print(before: str, now: str, found: Comparison) -> None:
    console = ReportConsole()
    if not found.breaks:
        console.say(f"{now} reads all that {before} left in the cache.", "bold green")
        return
    price = "" if found.usd is None else f", ${found.usd:.4f}"
    console.say(f"{found.part} differs: the cache breaks there", "bold red")
    console.say(f"about {found.tokens:,} tokens of {before} would be written again{price}")
    if found.also:
        console.say(f"also different: {', '.join(found.also)}")
    if found.diff:
        console.say(found.diff)
