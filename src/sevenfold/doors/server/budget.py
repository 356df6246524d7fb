"""No model is asked before what the answer may cost has been reserved.

What a call may cost at most holds by construction: no tokenizer makes more tokens than there are bytes, pictures and
documents count extra, and the answer counts as long as it may be. Each at the dearest price it may be billed at.
"""

from __future__ import annotations

import math

import msgspec
from msgspec import Struct

from sevenfold.doors.server.accounts import NANO, Accounts, BudgetSpent, Caller
from sevenfold.errors import Aborted, ModelError, ProviderFailed
from sevenfold.ports import Call, Client, Reply, Watcher, count_with
from sevenfold.profiles import Profile, find
from sevenfold.providers.mapped import WrappedClient, WrappedLister
from sevenfold.providers.models import Lister
from sevenfold.record.log import Answer
from sevenfold.record.usage import MILLION, Usage

_FRAME_TOKENS = 4_000
"""What a provider adds to the bytes of a request: its own words around tools, roles and messages."""
_IMAGE_TOKENS = 8_000
_DOCUMENT_TOKENS = 400_000


class _Asked(Struct):
    model: str = ""
    max_tokens: int = 0


class BudgetedClient(WrappedClient):
    """A client that makes requests on behalf of a caller with a budget."""

    def __init__(self, client: Client, accounts: Accounts, caller: Caller) -> None:
        super().__init__(client)
        self._accounts = accounts
        self.caller = caller
        """Whose budget counts, as it was when they last sent a request."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Ask within the budget; raises `BudgetSpent` if the call might exceed it."""
        most = most_nano(call.body)
        if most is None:
            if self.caller.tenant.budget is not None or self.caller.tenant.user_budget is not None:
                raise BudgetSpent(unpriced(_asked(call.body).model))
            most = 0
        reservation = self._accounts.reserve(self.caller, most)
        spent = most
        try:
            reply: Reply = self.inner.ask(call, watch)
            spent = _billed(reply.answer, most)
            return reply
        except ModelError as error:
            spent = _billed_in_part(error, most)
            raise
        finally:
            self._accounts.settle(reservation, spent)

    def count(self, call: Call) -> int | None:
        """The tokens of the request's prompt, which cost nothing; None if the server does not say."""
        return count_with(self.inner, call)

    def close(self) -> None:
        """Do nothing: others use the client, too."""


class _BudgetedLister(BudgetedClient, WrappedLister):
    pass


def budgeted(client: Client, accounts: Accounts, caller: Caller) -> BudgetedClient:
    """The client within the budget of a caller."""
    kind = _BudgetedLister if isinstance(client, Lister) else BudgetedClient
    return kind(client, accounts, caller)


def most_nano(body: bytes) -> int | None:
    """What a request may cost at most, in billionths of a dollar; None if the prices of its model are unknown."""
    request = _asked(body)
    profile = find(request.model)
    if profile.price(0) is None:
        return None
    prompt = len(body) + _FRAME_TOKENS
    prompt += body.count(b'"image"') * _IMAGE_TOKENS + body.count(b'"document"') * _DOCUMENT_TOKENS
    answer = request.max_tokens or profile.max_output
    inputs, outputs = _dearest(profile)
    return math.ceil((prompt * inputs + answer * outputs) / MILLION * NANO)


def unpriced(model: str) -> str:
    """Why a budget does not allow a model."""
    return (
        f"what {model} costs is not known, so no budget can be kept with it; choose another model, or ask whoever runs "
        "the server"
    )


def _dearest(profile: Profile) -> tuple[float, float]:
    """The highest prices of a million tokens in a prompt and in an answer."""
    inputs = 0.0
    outputs = 0.0
    for price in profile.prices:
        inputs = max(inputs, price.input, price.write_5m, price.write_1h, price.read)
        outputs = max(outputs, price.output)
    return inputs, outputs


def _billed(answer: Answer, tokens: int) -> int:
    """What an answer cost, in billionths of a dollar."""
    usage = Usage.read(answer.usage)
    cost = usage.cost(find(answer.model))
    # An answer may come from another model than the one that was asked, of which no price is known.
    return tokens if cost is None else math.ceil(cost * NANO)


def _billed_in_part(error: ModelError, tokens: int) -> int:
    """What a call cost that failed: what the provider had reported, or all it may have cost if that is not known."""
    partial = error.partial
    if isinstance(partial, Answer) and partial.usage not in (b"{}", b"null"):
        return _billed(partial, tokens)
    if isinstance(error, Aborted | ProviderFailed) and error.status is None:
        # Nothing was heard: the provider may have begun to work on it all the same.
        return tokens
    return 0


def _asked(body: bytes) -> _Asked:
    try:
        return msgspec.json.decode(body, type=_Asked)
    except msgspec.DecodeError:
        return _Asked()
