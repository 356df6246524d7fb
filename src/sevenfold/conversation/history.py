"""The requests of a session, looked back at: what they cost together, and the bytes of any one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.epoch import frame_of
from sevenfold.conversation.resume import read, resume
from sevenfold.errors import Refused
from sevenfold.ports import Log
from sevenfold.profiles import find
from sevenfold.record import entries
from sevenfold.record.blocks import Block
from sevenfold.record.blocks import read as read_block
from sevenfold.record.decisions import Billed, Epoch, Request
from sevenfold.record.entries import Boundary, Decision, Link, Said, Stored
from sevenfold.record.usage import Usage
from sevenfold.record.view import View
from sevenfold.record.wire import Message, Wire
from sevenfold.request import price
from sevenfold.request.frame import Body, Marker, assemble
from sevenfold.request.plan import Tail, tail_of

_REQUEST = b'"kind":"request"'


class Account(Struct, frozen=True):
    """What a session has cost so far."""

    requests: int = 0
    usd: float | None = 0.0
    """None once a call was made whose price is unknown."""
    tip: str | None = None
    """The newest record the last request held."""

    @classmethod
    def of(cls, log: Log) -> Account:
        """From the last request on record, which says what came before it, and the answers since."""
        newest = next(_requests(log), None)
        if newest is None:
            return cls()
        offset, last = newest
        account = cls(last.number + 1, last.spent, next((made.tip for _, made in _own_requests(log)), None))
        for _, entry in read(log, offset):
            match entry:
                case Said(role="assistant", usage=Usage() as usage, model=model):
                    account = account.billed(price.cost(usage, find(model)))
                case Decision(made=Billed(usage=raw, model=model)):
                    account = account.billed(price.cost(Usage.read(raw), find(model)))
                case _:
                    continue
        return account

    def billed(self, usd: float | None) -> Account:
        """After one more answer."""
        return replace(self, usd=None if self.usd is None or usd is None else self.usd + usd)


class Past(Struct, frozen=True):
    """A request that was made."""

    record: Request
    body: bytes
    """What was sent, byte for byte."""
    usage: Usage | None
    """What its answer reported; None if there was none."""
    usd: float | None
    prompt_usd: float | None
    """The part of it that the prompt cost."""
    model: str


class Prefix:
    """A log as it was when it was shorter."""

    def __init__(self, log: Log, end: int) -> None:
        self._log = log
        self._end = end

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> int:
        """The past takes no records."""
        raise Refused("a session cannot be written to as it was at an earlier time; rewind it instead")

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Lines up to then."""
        for offset, line in self._log.read(start):
            if offset >= self._end:
                break
            yield offset, line

    def holding(self, needle: bytes, before: int | None = None) -> Iterator[int]:
        """Offsets of lines up to then that contain ``needle``, the newest first."""
        return self._log.holding(needle, self._end if before is None else min(before, self._end))

    def close(self) -> None:
        """There is nothing to let go of."""


def past(log: Log, number: int) -> Past:
    """The request with this number, counted from 0; negative numbers count from the newest."""
    newest = next((made.number for _, made in _requests(log)), None)
    if newest is None:
        raise Refused("no request of this session is on record yet, so there is nothing to look back at")
    wanted = number if number >= 0 else newest + 1 + number
    for offset, made in _requests(log):
        if made.number == wanted:
            return _rebuilt(log, offset, made)
    raise Refused(f"there is no request number {number} on record; the newest is number {newest}")


def answered_at(log: Log) -> str:
    """When the newest answer came, on whatever branch; empty before the first."""
    answers = (said for said in _saids(log, b'"assistant"') if said.role == "assistant")
    return next((said.timestamp for said in answers if not said.sidechain and not said.synthetic), "")


def last_tail(log: Log) -> Tail | None:
    """Where the last marker of the newest request stood that was answered; None after a compaction."""
    for offset, made in _own_requests(log):
        for _, entry in read(log, offset):
            match entry:
                case Boundary():
                    return None
                case Said(role="assistant") as said if _answers(said, made):
                    markers = [Marker(*mark) for mark in made.markers]
                    return tail_of(markers)
                case _:
                    continue
    return None


def whole(log: Log) -> View:
    """The conversation as if it had never been compacted: every record that led to the present."""
    view = View()
    for offset, entry in read(log):
        match entry:
            case Boundary(uuid=uuid, logical_parent=parent):
                view.add(Link(uuid, parent), offset)
            case Said(summary=True, uuid=uuid, parent=parent):
                view.add(Link(uuid, parent), offset)
            case _:
                view.add(entry, offset)
    return view


def holds(log: Log, record: str) -> bool:
    """Is there something said under this id?"""
    needle = b'"uuid":' + msgspec.json.encode(record)
    return any(said.uuid == record and not said.sidechain for said in _saids(log, needle))


def keyed(log: Log, key: str) -> str:
    """The record that was said under this key; empty if there is none."""
    needle = b'"sevenfold_key":' + msgspec.json.encode(key)
    return next((said.uuid for said in _saids(log, needle) if said.key == key), "")


def stored(log: Log, reference: str) -> Stored | None:
    """Where the whole of a result is, by its call or its path."""
    for said in _saids(log, b'"sevenfold_results"'):
        for call, place in said.stored.items():
            if reference in (call, place.path):
                return place
    return None


def result(log: Log, call: str) -> Block | None:
    """The result of a call, wherever in the log it is."""
    for said in _saids(log, msgspec.json.encode(call)):
        if call in said.answers:
            return next(block for block in said.blocks if block.id == call)
    return None


def called(log: Log, call: str) -> bool:
    """Does the model make this call anywhere in the log?"""
    return any(call in said.calls for said in _saids(log, msgspec.json.encode(call)))


def _saids(log: Log, needle: bytes) -> Iterator[Said]:
    for offset in log.holding(needle):
        for _, line in log.read(offset):
            match entries.read(line):
                case Said() as said:
                    yield said
            break


def requests(log: Log) -> Iterator[Request]:
    """All requests on record, the newest first."""
    return (made for _, made in _requests(log))


def rebuild(epoch: Epoch, request: Request, messages: Sequence[Message]) -> Body:
    """A request as it was sent, from its records and the messages of the view at its tip."""
    markers = [Marker(*mark) for mark in request.markers]
    if request.appended and request.tip is None:
        # A fork that did not begin with the whole of what was in view has all its messages with it.
        messages = ()
    extra = {name: bytes(raw) for name, raw in request.parameters.items()}
    own = [_message(bytes(raw)) for raw in request.appended]
    return assemble(frame_of(epoch), [*messages, *own], markers, extra)


def _shared(view: View, made: Request) -> list[Message]:
    """The messages of the view a request begins with: all of them, or those up to a record."""
    if made.upto is None:
        return view.messages()
    wire = Wire()
    for number, item in enumerate(view.items):
        wire.add(number, item.role, item.said.message_id, item.shown)
        if item.said.uuid == made.upto:
            break
    return wire.messages()


def _message(raw: bytes) -> Message:
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    parts = tuple(
        read_block(bytes(part)) for part in msgspec.json.decode(fields["content"], type=list[msgspec.Raw])
    )
    return Message(msgspec.json.decode(fields["role"], type=str), parts, raw)


def _requests(log: Log) -> Iterator[tuple[int, Request]]:
    for offset in log.holding(_REQUEST):
        for _, line in log.read(offset):
            match entries.read(line):
                case Decision(made=Request() as made):
                    yield offset, made
            break


def _own_requests(log: Log) -> Iterator[tuple[int, Request]]:
    """Those of the conversation itself, forks aside."""
    return ((offset, made) for offset, made in _requests(log) if not made.appended)


def _rebuilt(log: Log, offset: int, made: Request) -> Past:
    view = resume(Prefix(log, offset))
    if view.epoch is None or (view.epoch.id != made.epoch and not made.appended):
        raise Refused(
            f"request number {made.number} cannot be rebuilt: the record of what preceded its messages is gone"
        )
    epoch = view.epoch
    body = rebuild(epoch, made, _shared(view, made))
    if body.sha256 != made.sha256 and made.appended:
        epoch, body = _fork_body(log, offset, made) or (epoch, body)
    if body.sha256 != made.sha256:
        raise Refused(
            f"request number {made.number} cannot be rebuilt byte for byte: the transcript has been changed since, "
            "by a purge or by another program"
        )
    usage, model = _answer(log, offset, made)
    if usage is None:
        return Past(made, body.raw, None, None, None, epoch.model)
    profile = find(model)
    prompt = replace(usage, output_tokens=0, iterations=())
    return Past(made, body.raw, usage, price.cost(usage, profile), price.cost(prompt, profile), epoch.model)


def _fork_body(log: Log, offset: int, made: Request) -> tuple[Epoch, Body] | None:
    """The request of a fork that was taken when the conversation was shorter than when it was sent."""
    view = View()
    for place, entry in read(log):
        if place >= offset:
            break
        view.add(entry, place)
        if view.tip == made.tip and view.epoch is not None and view.epoch.id == made.epoch:
            body = rebuild(view.epoch, made, _shared(view, made))
            if body.sha256 == made.sha256:
                return view.epoch, body
    return None


def _answer(log: Log, offset: int, made: Request) -> tuple[Usage | None, str]:
    """What the answer to the request at this place reported."""
    for place, entry in read(log, offset):
        match entry:
            case Decision(made=Request(appended=[])) if place > offset and not made.appended:
                break
            case Decision(made=Billed(request=request, usage=raw, model=model)) if request == made.id:
                return Usage.read(raw), model
            case Said(role="assistant", usage=usage, model=model) as said if _answers(said, made):
                return usage, model
            case _:
                continue
    return None, ""


def _answers(said: Said, made: Request) -> bool:
    return not made.appended and said.parent == made.tip
