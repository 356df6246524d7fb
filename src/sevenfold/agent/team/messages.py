"""Messages between agents: addressing, delivery, and how the receiving model sees them.

A message goes into the mailbox of the store. Its recipient takes it out between two tool rounds, or when it next runs,
and writes it to its own log under the message's id; only then does it acknowledge the message. So each message arrives
exactly once and in the sender's order, even if either side crashes.

The channel determines the sender of a message, never its text. The model sees the text quoted line by line, so nothing
in it can be mistaken for words of the user or the system, and nothing in it grants a permission. Agents can also send
each other control messages, which are accepted only from an authorized sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from msgspec import Meta, Struct

from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.texts import AgentMessageText
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.tool import ServiceTool
from sevenfold.errors import InputError, SevenfoldError
from sevenfold.ports import AgentMessage, Mailbox
from sevenfold.record.authorship import is_users
from sevenfold.record.blocks import ToolUse, read_fields
from sevenfold.record.quoting import escape_tags, quoted_lines
from sevenfold.session.options import unknown

if TYPE_CHECKING:
    from sevenfold.agent.tools.context import Context
    from sevenfold.conversation.conversation import Conversation

EVERYONE = "*"
SOCKET = "uds:"
BRIDGE = "bridge:"
LONGEST = 64 * 1024
"""The maximum length of a text, in bytes."""
MOST_ANSWERS = 8
"""How many messages two agents may exchange while the sender does nothing else; further ones are held."""
FIRST_HOLD = 5.0
LONGEST_HOLD = 600.0
"""The first and the longest time in seconds for which a message is held; the time doubles with each message."""
_KEY = "message:"

Control = Literal["shutdown_request", "shutdown_response", "plan_approval_response"]
Relation = Literal["leader", "worker", "peer"]
REQUIRED_RELATION: dict[str, Relation] = {
    "shutdown_request": "leader",
    "plan_approval_response": "leader",
    "shutdown_response": "worker",
}
"""The required relation of a control message's sender to its recipient."""
INVERSE: dict[Relation, Relation] = {"leader": "worker", "worker": "leader", "peer": "peer"}


class Correspondent(Struct, frozen=True):
    """An agent that messages can be sent to."""

    id: str
    name: str = ""
    relation: Relation = "peer"
    """Its relation to the agent that looks it up: the leader that started that one, a worker it started, or a peer."""

    @property
    def label(self) -> str:
        """The name and id, for display."""
        return f"{self.name} ({self.id})" if self.name else self.id


class Directory(Protocol):
    """The agents that one agent may send messages to."""

    def everyone(self) -> Sequence[Correspondent]:
        """Return all of them; if two have the same name, it means the first."""

    def notify(self, to: Correspondent, due: float = 0.0) -> str:
        """Notify one of them of a message: wake it if it is waiting, restart it if it has ended; not before ``due``.

        Returns a text that says what was done.
        """


class Receipt(Struct, frozen=True):
    """The outcome of sending a message to one recipient."""

    to: str
    state: Literal["queued", "delivered", "held", "refused"]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.to}: {self.state}" + (f", {self.reason}" if self.reason else "")


class Outgoing(Struct, frozen=True):
    """A message without sender and recipient."""

    text: str
    summary: str = ""
    kind: str = "message"
    approve: bool | None = None


class Post:
    """Sends and receives the messages of one agent."""

    def __init__(
        self, mailbox: Mailbox, address: str, directory: Directory, conversation: Conversation
    ) -> None:
        self.address = address
        """The id by which others address it."""
        self.control: Callable[[AgentMessage], None] = lambda message: None
        """Called with each control message from an authorized sender; after a crash possibly twice."""
        self.leave: Callable[[], None] = lambda: None
        """Ends the agent after it has agreed to shut down."""
        self.by_socket: Callable[[str, AgentMessage], Receipt] | None = None
        """Sends to the socket of another session; None if not available."""
        self._mailbox = mailbox
        self._directory = directory
        self._conversation = conversation

    # -- sending --------------------------------------------------------------------------------

    def send(self, to: str, message: Outgoing, key: str) -> list[Receipt]:
        """Send a message to an address; a repeated ``key`` does not send it again.

        An address is a name, an id, ``*`` for all, or ``uds:<path>``. Raises `InputError` if there is no such agent.
        """
        if len(message.text.encode(errors="replace")) > LONGEST:
            reason = f"it is longer than {LONGEST:,} bytes; write it to a file and send the path"
            return [Receipt(to, "refused", reason)]
        if to.startswith(BRIDGE):
            return [Receipt(to, "refused", "sessions on other machines cannot be reached from here")]
        if to.startswith(SOCKET):
            return [self._send_by_socket(to, message, key)]
        return [self._send(receiver, message, key) for receiver in self._addressed(to)]

    def _addressed(self, to: str) -> list[Correspondent]:
        correspondents = list(self._directory.everyone())
        if to == EVERYONE:
            if not correspondents:
                raise InputError("there is no other agent to send to")
            return correspondents
        by_id = [correspondent for correspondent in correspondents if correspondent.id == to]
        matching = by_id or [correspondent for correspondent in correspondents if correspondent.name == to]
        if not matching:
            names = [correspondent.name or correspondent.id for correspondent in correspondents]
            if not names:
                raise InputError(f"there is no agent {to!r}, and no other agent to send to")
            raise InputError(unknown("agent", to, names))
        return matching[:1]

    def _send(self, to: Correspondent, message: Outgoing, key: str) -> Receipt:
        required = REQUIRED_RELATION.get(message.kind)
        if required is not None and INVERSE[to.relation] != required:
            return Receipt(to.label, "refused", f"only its {required} may send a {message.kind}")
        hold = self._hold(to)
        addressed = self._addressed_message(to.id, message, key, hold)
        try:
            state = self._mailbox.send(addressed)
        except SevenfoldError as error:
            return Receipt(to.label, "refused", str(error))
        if state == "refused":
            return Receipt(to.label, "refused", "too many messages wait for it already; try again later")
        if hold and state == "queued":
            reason = f"the two of you only answer one another; it is delivered in {hold:.0f} s. Do something, or stop"
            self._conversation.events.aside("messages", f"{to.label}: held for {hold:.0f} s, {reason}")
            self._directory.notify(to, addressed.due)
            return Receipt(to.label, "held", reason)
        return Receipt(to.label, state, self._directory.notify(to) if state == "queued" else "")

    def _send_by_socket(self, to: str, message: Outgoing, key: str) -> Receipt:
        if self.by_socket is None:
            return Receipt(to, "refused", "sockets are not available here")
        if message.kind != "message":
            return Receipt(to, "refused", f"a {message.kind} cannot go to another session")
        return self.by_socket(to.removeprefix(SOCKET), self._addressed_message(to, message, key, 0.0))

    def _addressed_message(self, to: str, message: Outgoing, key: str, hold: float) -> AgentMessage:
        gate = self._conversation.gate
        sent_at = self._conversation.clock.now()
        # Lone surrogates cannot be stored.
        text = message.text.encode(errors="replace").decode()
        summary = message.summary.encode(errors="replace").decode()
        return AgentMessage(
            id=sha256(f"{key}\0{to}".encode(errors="replace")).hexdigest()[:16],
            sender=self.address,
            to=to,
            text=gate.text(text) if gate else text,
            summary=gate.text(summary) if gate else summary,
            kind=message.kind,
            approve=message.approve,
            at=sent_at,
            due=sent_at + hold if hold else 0.0,
        )

    def _hold(self, to: Correspondent) -> float:
        """Return the seconds to hold the next message: increasing for two agents that only answer each other."""
        excess = sum(1 for _ in self._exchanged(to)) - MOST_ANSWERS
        return 0.0 if excess < 0 else min(LONGEST_HOLD, FIRST_HOLD * 2.0 ** min(excess, 10))

    def _exchanged(self, to: Correspondent) -> Iterator[object]:
        """Yield the messages to and from an agent since this one last did something else or the user spoke."""
        for item in reversed(self._conversation.transcript.view.items):
            record = item.record
            if record.key.startswith(f"{_KEY}{to.id}:"):
                yield record
            elif record.role == "user" and is_users(record):
                return
            for block in record.blocks if record.role == "assistant" else ():
                body = block.body() if block.kind == "tool_use" else None
                if isinstance(body, ToolUse):
                    if body.name != SendMessageTool.name:
                        return
                    if read_fields(body.input).get("to") in (to.id, to.name):
                        yield body

    # -- receiving ------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether there are messages to deliver now."""
        return bool(self._due())

    def deliver(self) -> int:
        """Add due messages to the conversation, each exactly once; return how many there were."""
        messages = self._due()
        for message in messages:
            self._receive(message)
        if messages:
            self._mailbox.acknowledge(messages)
        return len(messages)

    def _due(self) -> list[AgentMessage]:
        """Return the waiting messages that are due; see `due`."""
        try:
            waiting = self._mailbox.waiting(self.address)
        except SevenfoldError as error:
            self._conversation.events.aside("messages", str(error))
            return []
        return due(waiting, self._conversation.clock.now())

    def _receive(self, message: AgentMessage) -> None:
        sender = next(
            (
                correspondent
                for correspondent in self._directory.everyone()
                if correspondent.id == message.sender
            ),
            Correspondent(message.sender),
        )
        control = message.kind != "message"
        if control and REQUIRED_RELATION.get(message.kind) != sender.relation:
            reason = f"a {message.kind} of {sender.label} was ignored: it may not send that"
            self._conversation.events.aside("messages", reason)
            return
        self._conversation.note(framed(message, sender), key=f"{_KEY}{message.sender}:{message.id}")
        if control:
            self.control(message)


def due(waiting: Sequence[AgentMessage], now: float) -> list[AgentMessage]:
    """Return the messages to deliver now; to keep their order, those after a held one of the same sender wait too."""
    held: set[str] = set()
    deliverable: list[AgentMessage] = []
    for message in waiting:
        if message.due > now:
            held.add(message.sender)
        if message.sender not in held:
            deliverable.append(message)
    return deliverable


def framed(message: AgentMessage, sender: Correspondent) -> str:
    """Return a message as the model sees it; the module docstring explains why its text is quoted."""
    kind_of_sender = "another session" if message.sender.startswith(SOCKET) else "the agent"
    match message.kind, message.approve:
        case "shutdown_request", _:
            heading = f"{sender.label}, which started you, asks you to end. Answer with a shutdown_response"
        case ("shutdown_response", approved):
            heading = f"{sender.label} {'agrees' if approved else 'refuses'} to end"
        case ("plan_approval_response", approved):
            heading = (
                f"{sender.label}, which started you, {'approves' if approved else 'rejects'} your plan"
            )
        case _:
            heading = f"Message from {kind_of_sender} {sender.label}"
    return AgentMessageText(escape_tags(heading), quoted_lines(message.text)).render()


# -- the tool ----------------------------------------------------------------------------------------


class ControlInput(Struct, forbid_unknown_fields=True):
    """A message that asks for more than reading."""

    type: Control
    approve: Annotated[bool | None, Meta(description="The answer of a response.")] = None
    reason: str = ""


class SendMessageInput(Struct, forbid_unknown_fields=True):
    """What to send, and to whom.

    Args:
        to: A name or id, * for all, or uds:<path> of a session.
        summary: The message in 5 to 10 words.
    """

    to: Annotated[str, Meta(min_length=1, max_length=512)]
    message: str | ControlInput
    summary: Annotated[str, Meta(max_length=200)] = ""


class SendMessageTool(ServiceTool[SendMessageInput, Callable[[], Post | None]]):
    """Sends messages to other agents."""

    def requires(self, arguments: SendMessageInput, context: Context) -> PermissionRequest:
        """Need no permission within the team; ask the user before sending to another session."""
        away = arguments.to.startswith((SOCKET, BRIDGE))
        return PermissionRequest(self.name, "call" if away else "none", arguments.to)

    def act(self, arguments: SendMessageInput, context: Context) -> ToolOutput:
        """Send the message; return a receipt for each recipient."""
        post = self.service()
        if post is None:
            return failed("There is no mail in this session.")
        content = arguments.message
        if isinstance(content, str):
            message = Outgoing(content, arguments.summary)
        elif content.type.endswith("_response") and content.approve is None:
            return failed(f"A {content.type} needs approve: true or false.")
        else:
            message = Outgoing(content.reason, arguments.summary, content.type, content.approve)
        receipts = post.send(arguments.to, message, context.call)
        refused = all(receipt.state == "refused" for receipt in receipts)
        if message.kind == "shutdown_response" and message.approve and not refused:
            post.leave()
        return ToolOutput("\n".join(map(str, receipts)), is_error=refused)
