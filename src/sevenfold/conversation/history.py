"""The past requests of a session: their total cost, and the exact bytes of any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.epoch import frame_of
from sevenfold.conversation.resume import read, resume
from sevenfold.errors import Refused
from sevenfold.ports import Log
from sevenfold.profiles import find
from sevenfold.record.blocks import read as read_block
from sevenfold.record.decisions import (
    AgentEnd,
    Billed,
    Epoch,
    Fold,
    Pinned,
    Request,
    Rewound,
    ShownResult,
    Snip,
    Undone,
)
from sevenfold.record.entries import Boundary, Clearing, Decision, Link, Said
from sevenfold.record.layout import Item
from sevenfold.record.usage import Account, Usage
from sevenfold.record.view import View
from sevenfold.record.wire import Message
from sevenfold.request.frame import Body, Lifetimes, Marker, Tail, assemble, tail_of
from sevenfold.request.watch import Sent


def account_of(log: Log) -> Account:
    """The cost of a session: the total stored with the last request, plus the answers recorded after it."""
    newest = next(log.decisions(Request), None)
    if newest is None:
        return Account()
    position, last = newest
    account = Account(
        last.number + 1, last.spent, next((request.tip for _, request in own_requests(log)), None)
    )
    for _, entry in read(log, position):
        match entry:
            case Said(role="assistant", usage=Usage() as usage, model=model):
                account = account.billed(usage.cost(find(model)))
            case Decision(record=Billed(usage=raw, model=model)):
                account = account.billed(Usage.read(raw).cost(find(model)))
            case Decision(record=AgentEnd(usd=usd)):
                account = account.billed(usd)
    return account


def saved_by_cache(log: Log, start: int) -> float:
    """How much the cache saved on answers from a position on; answers without a known price do not count."""
    saved = 0.0
    for _, entry in read(log, start):
        if isinstance(entry, Said) and entry.role == "assistant" and isinstance(entry.usage, Usage):
            profile = find(entry.model or "")
            cost = entry.usage.cost(profile)
            uncached = entry.usage.uncached_cost(profile)
            saved += uncached - cost if cost is not None and uncached is not None else 0.0
    return saved


class Past(Struct, frozen=True):
    """A past request, rebuilt."""

    record: Request
    body: bytes
    """The exact bytes that were sent."""
    usage: Usage | None
    """The usage its answer reported; None if there was none."""
    usd: float | None
    prompt_usd: float | None
    """The part of ``usd`` that the prompt cost."""
    model: str
    shown: tuple[ShownResult, ...] = ()
    """What layers showed in it in place of tool results, oldest first."""


def past(log: Log, number: int) -> Past:
    """The request with this number, counted from 0; negative numbers count from the newest."""
    newest = next((request.number for request in requests(log)), None)
    if newest is None:
        raise Refused(
            "this session has no recorded requests yet; only sessions that Sevenfold ran record them"
        )
    wanted = number if number >= 0 else newest + 1 + number
    for position, request in log.decisions(Request):
        if request.number == wanted:
            return _rebuilt(log, position, request)
    raise Refused(f"there is no request number {number} on record; the newest is number {newest}")


def answered_at(log: Log) -> str:
    """When the newest answer on any branch was recorded; empty before the first."""
    answers = (answer for answer in log.answers() if not answer.sidechain and not answer.synthetic)
    return next((answer.timestamp for answer in answers), "")


class LastRequest(Struct, frozen=True):
    """The newest answered request of the conversation itself, forks excluded."""

    record: Request
    usage: Usage | None
    """The usage its answer reported; None if it reported none."""
    changed: bool = False
    """Whether a later decision changed the content that was sent."""

    @property
    def tail(self) -> Tail | None:
        """The position of its last cache marker."""
        return tail_of([Marker(*mark) for mark in self.record.markers])

    def sent(self, log: Log, view: View) -> Sent | None:
        """The request as the cache knows it; None if it cannot be reconstructed from the view."""
        epoch = next((opened for _, opened in log.decisions(Epoch) if opened.id == self.record.epoch), None)
        upto = view.skip_clearings(self.record.tip)
        if self.changed or epoch is None or upto is None or view.item(upto) is None:
            return None
        return Sent(
            frame_of(epoch),
            tuple(_messages(view, upto)),
            Lifetimes(**epoch.lifetimes),
            datetime.fromisoformat(self.record.timestamp).timestamp(),
            tuple(Marker(*mark) for mark in self.record.markers),
        )


def last_request(log: Log) -> LastRequest | None:
    """The newest answered request; None before the first, and after a compaction was made or undone."""
    for position, request in own_requests(log):
        last: LastRequest | None = None
        for _, entry in read(log, position):
            match entry:
                case Boundary():
                    return None
                case Said(role="assistant", usage=usage) as said if last is None and _answers(
                    said, request
                ):
                    last = LastRequest(request, usage)
                case Decision(record=Undone(decision=name)) if last and _is_boundary(log, name):
                    return None
                case Clearing() | Decision(record=Undone() | Rewound() | Snip() | Fold() | Pinned()) if (
                    last
                ):
                    last = replace(last, changed=True)
        if last is not None:
            return last
    return None


def _is_boundary(log: Log, name: str) -> bool:
    return any(boundary.uuid == name for _, boundary in log.boundaries())


def every_record(log: Log) -> list[Item]:
    """Every record of the live branch in order, compacted or not, without their weights."""
    return whole(log, weighs=False).items


def whole(log: Log, *, weighs: bool = True) -> View:
    """The view as if the conversation had never been compacted: every record of the live branch."""
    view = View(weighs=weighs)
    for position, entry in read(log):
        match entry:
            case Boundary(uuid=uuid, logical_parent=parent, sidechain=False):
                # Claude Code may name a record that it never wrote; what came before is the newest one then.
                is_here = parent is not None and view.entry(parent) is not None
                view.add(Link(uuid, parent if is_here else view.tip), position)
            case Boundary(uuid=uuid, logical_parent=parent):
                view.add(Link(uuid, parent), position)
            case Said(summary=True, uuid=uuid, parent=parent):
                view.add(Link(uuid, parent), position)
            case _:
                view.add(entry, position)
    return view


def holds(log: Log, uuid: str) -> bool:
    """Whether the conversation itself, sidechains excluded, has a message with this id."""
    _, entry = log.record(uuid) or (0, None)
    return isinstance(entry, Said) and not entry.sidechain


def requests(log: Log) -> Iterator[Request]:
    """All recorded requests, newest first."""
    return (request for _, request in log.decisions(Request))


def rebuild(epoch: Epoch, request: Request, messages: Sequence[Message]) -> Body:
    """Rebuild a request as it was sent, from its records and the messages in view at its tip."""
    markers = [Marker(*mark) for mark in request.markers]
    if request.appended and request.tip is None:
        # A fork that did not start with all messages in view recorded all of its own messages.
        messages = ()
    appended = [_message(bytes(raw)) for raw in request.appended]
    return assemble(frame_of(epoch).with_fields(request.parameters), [*messages, *appended], markers)


def _messages(view: View, upto: str | None) -> list[Message]:
    """The messages of the view, up to a record if one is given."""
    return view.messages() if upto is None else view.layout.messages_until(upto)


def _message(raw: bytes) -> Message:
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    content = [
        read_block(bytes(raw_block))
        for raw_block in msgspec.json.decode(fields["content"], type=list[msgspec.Raw])
    ]
    return Message.of(msgspec.json.decode(fields["role"], type=str), content)


def own_requests(log: Log) -> Iterator[tuple[int, Request]]:
    """The requests of the conversation itself, forks excluded, newest first, with their positions."""
    return ((position, request) for position, request in log.decisions(Request) if not request.appended)


def _rebuilt(log: Log, position: int, request: Request) -> Past:
    view = resume(log.upto(position))
    if view.epoch is None or (view.epoch.id != request.epoch and not request.appended):
        raise Refused(
            f"request number {request.number} cannot be rebuilt: the record of what preceded its messages is gone"
        )
    epoch = view.epoch
    body = rebuild(epoch, request, _messages(view, request.upto))
    if body.sha256 != request.sha256 and request.appended:
        epoch, body = _fork_body(log, position, request) or (epoch, body)
    if body.sha256 != request.sha256:
        raise Refused(
            f"request number {request.number} cannot be rebuilt byte for byte: the transcript has been changed since, "
            "by a purge or by another program"
        )
    usage, model = _answer(log, position, request)
    decided = (decision for decision in view.decisions() if isinstance(decision, ShownResult))
    shown = tuple(decision for decision in decided if decision.id not in view.undone)
    if usage is None:
        return Past(request, body.raw, None, None, None, epoch.model, shown)
    profile = find(model)
    prompt = replace(usage, output_tokens=0, iterations=())
    return Past(request, body.raw, usage, usage.cost(profile), prompt.cost(profile), epoch.model, shown)


def _fork_body(log: Log, position: int, request: Request) -> tuple[Epoch, Body] | None:
    """Rebuild the request of a fork that was taken from an earlier state of the conversation; None if none matches."""
    view = View()
    for at, entry in read(log):
        if at >= position:
            break
        view.add(entry, at)
        if view.tip == request.tip and view.epoch is not None and view.epoch.id == request.epoch:
            body = rebuild(view.epoch, request, _messages(view, request.upto))
            if body.sha256 == request.sha256:
                return view.epoch, body
    return None


def _answer(log: Log, position: int, wanted: Request) -> tuple[Usage | None, str]:
    """The usage and model that the answer to the request at this position reported."""
    for at, entry in read(log, position):
        match entry:
            case Decision(record=Request(appended=[])) if at > position and not wanted.appended:
                break
            case Decision(record=Billed(request=request, usage=raw, model=model)) if request == wanted.id:
                return Usage.read(raw), model
            case Said(role="assistant", usage=usage, model=model) as said if _answers(said, wanted):
                return usage, model
    return None, ""


def _answers(answer: Said, request: Request) -> bool:
    return not request.appended and answer.parent == request.tip
