"""Messages between agents: whom they reach, what becomes of them, and how the model that gets one sees it.

A message goes into the mailbox of the store. Its recipient takes it out at the next boundary between two tool rounds,
or when it is next run, and writes it to its own log under the message's id; only then does it acknowledge it. So it
arrives exactly once and in the order of its sender, and a crash of either side changes nothing about that.

Whose a message is, its channel says, never its text. The model sees the text quoted line by line, so nothing in it can
pass for words of the user or of the system, and nothing in it permits anything. What agents may ask of one another
beyond words are control messages, and each of them is taken only from those who may send it.
"""

from __future__ import annotations

import re
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
from sevenfold.session.options import unknown

if TYPE_CHECKING:
    from sevenfold.agent.tools.context import Context
    from sevenfold.conversation.conversation import Conversation

EVERYONE = "*"
SOCKET, BRIDGE = "uds:", "bridge:"
LONGEST = 64 * 1024
"""Bytes of a text."""
MOST_ANSWERS = 8
"""Messages that a pair may exchange while the sender does nothing else; from then on they are held."""
FIRST_HOLD, LONGEST_HOLD = 5.0, 600.0
"""Seconds a message is held: twice as long each time."""
_KEY = "message:"
_TAG = re.compile(
    r"<(?=[/\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*(?:\w+-[\w-]*|antml|system|user|human|assistant|tool\w*|function\w*|invoke|result)\b)",
    re.IGNORECASE,
)
"""The beginning of what models or programs may take for a tag with a meaning, with invisible characters or without."""

Control = Literal["shutdown_request", "shutdown_response", "plan_approval_response"]
Relation = Literal["leader", "worker", "peer"]
PERMITTED: dict[str, Relation] = {
    "shutdown_request": "leader",
    "plan_approval_response": "leader",
    "shutdown_response": "worker",
}
"""What the sender of a control message must be to its recipient."""
INVERSE: dict[Relation, Relation] = {"leader": "worker", "worker": "leader", "peer": "peer"}


class Correspondent(Struct, frozen=True):
    """An agent that messages can be sent to."""

    id: str
    name: str = ""
    relation: Relation = "peer"
    """What it is to the agent that looks it up: the one that started it, one that it started, or neither."""

    @property
    def label(self) -> str:
        """What to show."""
        return f"{self.name} ({self.id})" if self.name else self.id


class Directory(Protocol):
    """Knows the agents that one agent may write to."""

    def everyone(self) -> Sequence[Correspondent]:
        """All of them; of two with the same name, the first has it."""

    def notify(self, to: Correspondent, due: float = 0.0) -> str:
        """There is a message for one of them: wake it up if it waits or has ended, but not before it is due.

        Returns what was done, to show.
        """


class Receipt(Struct, frozen=True):
    """What became of a message."""

    to: str
    state: Literal["queued", "delivered", "held", "refused"]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.to}: {self.state}" + (f", {self.reason}" if self.reason else "")


class Outgoing(Struct, frozen=True):
    """A message that has no sender and no recipient yet."""

    text: str
    summary: str = ""
    kind: str = "message"
    approve: bool | None = None


class Post:
    """One agent's end of the mail."""

    def __init__(
        self, mailbox: Mailbox, address: str, directory: Directory, conversation: Conversation
    ) -> None:
        self.address = address
        """The id others know it by."""
        self.control: Callable[[AgentMessage], None] = lambda message: None
        """Called with each control message from those who may send it; after a crash perhaps a second time."""
        self.leave: Callable[[], None] = lambda: None
        """Ends the agent, once it has agreed to that."""
        self.by_socket: Callable[[str, AgentMessage], Receipt] | None = None
        """Sends to a socket of another session; None: not available."""
        self._mailbox = mailbox
        self._directory = directory
        self._conversation = conversation

    # -- sending --------------------------------------------------------------------------------

    def send(self, to: str, words: Outgoing, key: str) -> list[Receipt]:
        """Send to an address; the same ``key`` again sends nothing again.

        An address is a name or an id, ``*`` for all, or ``uds:<path>``. Raises `InputError` for one that leads nowhere.
        """
        if len(words.text.encode(errors="replace")) > LONGEST:
            reason = f"it is longer than {LONGEST:,} bytes; write it to a file and send the path"
            return [Receipt(to, "refused", reason)]
        if to.startswith(BRIDGE):
            return [Receipt(to, "refused", "sessions on other machines cannot be reached from here")]
        if to.startswith(SOCKET):
            return [self._send_by_socket(to, words, key)]
        return [self._send(one, words, key) for one in self._addressed(to)]

    def _addressed(self, to: str) -> list[Correspondent]:
        known = list(self._directory.everyone())
        if to == EVERYONE:
            if not known:
                raise InputError("there is no other agent to send to")
            return known
        by_id = [one for one in known if one.id == to]
        found = by_id or [one for one in known if one.name == to]
        if not found:
            names = [one.name or one.id for one in known]
            if not names:
                raise InputError(f"there is no agent {to!r}, nor any other to send to")
            raise InputError(unknown("agent", to, names))
        return found[:1]

    def _send(self, to: Correspondent, words: Outgoing, key: str) -> Receipt:
        needed = PERMITTED.get(words.kind)
        if needed is not None and INVERSE[to.relation] != needed:
            return Receipt(to.label, "refused", f"only its {needed} may send a {words.kind}")
        message = self._written(to.id, words, key, hold := self._hold(to))
        try:
            state = self._mailbox.send(message)
        except SevenfoldError as error:
            return Receipt(to.label, "refused", str(error))
        if state == "refused":
            return Receipt(to.label, "refused", "too many messages wait for it already; try again later")
        if hold and state == "queued":
            reason = f"the two of you only answer one another; it is delivered in {hold:.0f} s. Do something, or stop"
            self._conversation.events.aside("messages", f"{to.label}: held for {hold:.0f} s, {reason}")
            self._directory.notify(to, message.due)
            return Receipt(to.label, "held", reason)
        return Receipt(to.label, state, self._directory.notify(to) if state == "queued" else "")

    def _send_by_socket(self, to: str, words: Outgoing, key: str) -> Receipt:
        if self.by_socket is None:
            return Receipt(to, "refused", "sockets are not available here")
        if words.kind != "message":
            return Receipt(to, "refused", f"a {words.kind} cannot go to another session")
        return self.by_socket(to.removeprefix(SOCKET), self._written(to, words, key, 0.0))

    def _written(self, to: str, words: Outgoing, key: str, hold: float) -> AgentMessage:
        gate, now = self._conversation.gate, self._conversation.clock.now()
        # Half of a surrogate pair cannot be stored.
        text, summary = (one.encode(errors="replace").decode() for one in (words.text, words.summary))
        return AgentMessage(
            id=sha256(f"{key}\0{to}".encode(errors="replace")).hexdigest()[:16],
            sender=self.address,
            to=to,
            text=gate.text(text) if gate else text,
            summary=gate.text(summary) if gate else summary,
            kind=words.kind,
            approve=words.approve,
            at=now,
            due=now + hold if hold else 0.0,
        )

    def _hold(self, to: Correspondent) -> float:
        """How long the next message has to wait: longer and longer for two that only answer one another."""
        over = sum(1 for _ in self._exchanged(to)) - MOST_ANSWERS
        return 0.0 if over < 0 else min(LONGEST_HOLD, FIRST_HOLD * 2.0 ** min(over, 10))

    def _exchanged(self, to: Correspondent) -> Iterator[object]:
        """The messages to and from an agent since this one last did something else, or heard from the user."""
        for item in reversed(self._conversation.transcript.view.items):
            said = item.said
            if said.key.startswith(f"{_KEY}{to.id}:"):
                yield said
            elif said.role == "user" and is_users(said):
                return
            for block in said.blocks if said.role == "assistant" else ():
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
        """Take what is due into the conversation, each message once; returns how many there were."""
        found = self._due()
        for message in found:
            self._take(message)
        if found:
            self._mailbox.acknowledge(found)
        return len(found)

    def _due(self) -> list[AgentMessage]:
        """What waits, without that of senders whose next message is held: theirs stay in order."""
        try:
            waiting = self._mailbox.waiting(self.address)
        except SevenfoldError as error:
            self._conversation.events.aside("messages", str(error))
            return []
        return due(waiting, self._conversation.clock.now())

    def _take(self, message: AgentMessage) -> None:
        sender = next(
            (one for one in self._directory.everyone() if one.id == message.sender),
            Correspondent(message.sender),
        )
        control = message.kind != "message"
        if control and PERMITTED.get(message.kind) != sender.relation:
            reason = f"a {message.kind} of {sender.label} was ignored: it may not send that"
            self._conversation.events.aside("messages", reason)
            return
        self._conversation.note(framed(message, sender), key=f"{_KEY}{message.sender}:{message.id}")
        if control:
            self.control(message)


def due(waiting: Sequence[AgentMessage], now: float) -> list[AgentMessage]:
    """The messages to deliver now; what follows one that is held, from the same sender, is held with it."""
    held, found = set[str](), list[AgentMessage]()
    for message in waiting:
        if message.due > now:
            held.add(message.sender)
        if message.sender not in held:
            found.append(message)
    return found


def framed(message: AgentMessage, sender: Correspondent) -> str:
    """A message as the model sees it; see the module for what its text cannot do."""
    where = "another session" if message.sender.startswith(SOCKET) else "the agent"
    match message.kind, message.approve:
        case "shutdown_request", _:
            what = f"{sender.label}, which started you, asks you to end. Answer with a shutdown_response"
        case ("shutdown_response", yes):
            what = f"{sender.label} {'agrees' if yes else 'refuses'} to end"
        case ("plan_approval_response", yes):
            what = f"{sender.label}, which started you, {'approves' if yes else 'rejects'} your plan"
        case _:
            what = f"Message from {where} {sender.label}"
    return AgentMessageText(plain_tags(what), quoted(message.text)).render()


def quoted(text: str) -> str:
    """Another agent's text, every line of it marked, and what looks like a tag with a meaning made plain."""
    return "\n".join(f"> {line}" for line in plain_tags(text).splitlines()) or "> (no text)"


def plain_tags(text: str) -> str:
    """A text in which nothing looks like a tag with a meaning."""
    return _TAG.sub("&lt;", text)


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

    def requires(self, given: SendMessageInput, context: Context) -> PermissionRequest:
        """Nothing within the team; the user is asked before anything goes to another session."""
        away = given.to.startswith((SOCKET, BRIDGE))
        return PermissionRequest(self.name, "call" if away else "none", given.to)

    def act(self, given: SendMessageInput, context: Context) -> ToolOutput:
        """Send it; the result is a receipt for each recipient."""
        post = self.service()
        if post is None:
            return failed("There is no mail in this session.")
        said = given.message
        if isinstance(said, str):
            words = Outgoing(said, given.summary)
        elif said.type.endswith("_response") and said.approve is None:
            return failed(f"A {said.type} needs approve: true or false.")
        else:
            words = Outgoing(said.reason, given.summary, said.type, said.approve)
        receipts = post.send(given.to, words, context.call)
        refused = all(one.state == "refused" for one in receipts)
        if words.kind == "shutdown_response" and words.approve and not refused:
            post.leave()
        return ToolOutput("\n".join(map(str, receipts)), is_error=refused)
