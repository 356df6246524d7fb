"""Orders of the user to a session that some process has open: stop a task, undo a decision, agree to a proposal.

Only the process that holds a session's lease may write to it, so whoever wants something done there sends it an order
through the mailbox of the store. Agents reach the mailbox too. So an order is sealed with a key from a file that only
the user can read: it is in no tool's environment, and the seal that travels with the order does not give it away. What
carries no seal, such as every message of an agent, is not an order.

An order names the run it is meant for, that is, one opening of one session, and a run carries out each order once. So
an order that is sent again, to another session, or to a process that came later, does nothing.
"""

from __future__ import annotations

import hmac
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal
from uuid import uuid4

import msgspec
from msgspec import Struct

from sevenfold.clock import SystemClock
from sevenfold.errors import SevenfoldError
from sevenfold.ports import AgentMessage, Mailbox
from sevenfold.record.decoding import NOT_JSON
from sevenfold.stores import token_file
from sevenfold.stores.home import user_home
from sevenfold.stores.lineage import must_be_user

Action = Literal["stop", "undo", "agree", "decline"]
KEY_FILE = "orders.key"
PATIENCE = 20.0
"""Seconds after which an order that was not carried out is void."""
LOOK_SECONDS = 0.05
OUTCOMES = 20
"""How many of the newest outcomes a session keeps for those who ordered."""
USER = "user"
"""The sender of orders; no agent has this id."""
ORDER = "order"
_PURPOSE = b"sevenfold order\0"


class Order(Struct, frozen=True):
    """What the user wants a session to do."""

    id: str
    run: str
    """The opening of the session that it is meant for."""
    action: Action
    target: str
    """The task, the decision or the proposal."""
    until: float
    """When it becomes void, in seconds since 1970."""


class SealedOrder(Struct, frozen=True):
    """An order as it is sent."""

    order: Order
    seal: str


class OrderOutcome(Struct, frozen=True):
    """What became of an order."""

    order: str
    done: bool
    text: str
    """What was done, or why nothing was."""


def order_key() -> bytes:
    """The key of this user's orders, made if it is missing; raises `InputError` if others can read it."""
    return token_file.token(user_home().root / KEY_FILE).encode()


def seal(order: Order, key: bytes) -> str:
    """The seal of an order."""
    return hmac.digest(key, _PURPOSE + msgspec.json.encode(order), "sha256").hex()


class OrderBox:
    """The orders to one session, in the mailbox of its store."""

    def __init__(
        self,
        mailbox: Mailbox,
        name: str,
        key: Callable[[], bytes] = order_key,
        now: Callable[[], float] = SystemClock.now,
    ) -> None:
        """``name`` is the session's safe name."""
        self.address = f"orders:{name}"
        self._mailbox = mailbox
        self._key = key
        self._now = now

    def send(self, run: str, action: Action, target: str, patience: float = PATIENCE) -> AgentMessage:
        """Send an order of the user's; raises `Refused` in a process that an agent started."""
        must_be_user(f"to {action} something in a session")
        order = Order(uuid4().hex, run, action, target, self._now() + patience)
        text = msgspec.json.encode(SealedOrder(order, seal(order, self._key()))).decode()
        message = AgentMessage(order.id, USER, self.address, text, kind=ORDER)
        self._mailbox.send(message)
        return message

    def withdraw(self, message: AgentMessage) -> None:
        """Take an order back."""
        self._mailbox.acknowledge([message])

    def waiting(self) -> list[AgentMessage]:
        """Everything that is not acknowledged yet, orders or not."""
        return list(self._mailbox.waiting(self.address))

    def read(self, message: AgentMessage, run: str) -> Order | str:
        """The order in a message to this run, or why there is none in it."""
        try:
            sealed = msgspec.json.decode(message.text, type=SealedOrder)
        except NOT_JSON:
            return "it is no order"
        order = sealed.order
        expected = seal(order, self._key()).encode()
        if not hmac.compare_digest(expected, sealed.seal.encode(errors="replace")):
            return "its seal is not the user's"
        if order.run != run:
            return "it was meant for another run of a session"
        return order if self._now() <= order.until else "it came too late"


class OrderTaker:
    """Carries out the orders to one opening of a session, each once."""

    def __init__(
        self, box: OrderBox, acts: Mapping[Action, Callable[[str], str]], report: Callable[[str], object]
    ) -> None:
        """``acts`` carry out an action on a target and say what they did; ``report`` is told of what is ignored."""
        self.run = uuid4().hex
        self.outcomes: deque[OrderOutcome] = deque(maxlen=OUTCOMES)
        self._box = box
        self._acts = acts
        self._report = report
        self.due: frozenset[Action] = frozenset()
        """Actions that were ordered and not taken when the mailbox was last looked into."""
        self._taken: set[str] = set()

    def take(self, *actions: Action) -> None:
        """Carry out what is waiting, if it is one of these actions; raises what the mailbox raises."""
        not_taken = set[Action]()
        for message in self._box.waiting():
            order = self._box.read(message, self.run)
            if isinstance(order, str):
                self._box.withdraw(message)
                self._report(f"an order was ignored: {order}")
            elif order.id in self._taken:
                self._box.withdraw(message)
            elif order.action not in actions:
                not_taken.add(order.action)
            else:
                # First, so that nothing is done twice whatever happens next.
                self._taken.add(order.id)
                self.outcomes.append(self._carried_out(order))
                self._box.withdraw(message)
        self.due = frozenset(not_taken)

    def _carried_out(self, order: Order) -> OrderOutcome:
        try:
            return OrderOutcome(order.id, True, self._acts[order.action](order.target))
        except (SevenfoldError, OSError) as error:
            return OrderOutcome(order.id, False, str(error))


def await_outcome(
    find: Callable[[str], OrderOutcome | None],
    box: OrderBox,
    message: AgentMessage,
    patience: float = PATIENCE,
) -> OrderOutcome | None:
    """Wait for what becomes of an order, and withdraw it after ``patience`` seconds; None if nothing did."""
    until = time.monotonic() + patience
    while (outcome := find(message.id)) is None:
        if time.monotonic() > until:
            box.withdraw(message)
            # The session may have been faster.
            return find(message.id)
        time.sleep(LOOK_SECONDS)
    return outcome
