"""What the demonstration cost, what it would have cost at best, and what it costs those who do not care.

All three are held against the same conversation and the same list of prices:

    paid    what the simulated provider billed, for every request, those for notes and summaries included
    ideal   the same requests with a perfect cache: every token that ever followed the same tokens is read, all
            others are written once
    naive   the whole history with every turn, nothing cached; when it no longer fits, the oldest messages are cut off
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from sevenfold.lab.simulator.tokens import Counter
from sevenfold.profiles import Profile
from sevenfold.record.usage import Usage
from sevenfold.request.price import cost

FIVE_MINUTES = 300
_MARKER = re.compile(rb',?"cache_control":\{[^}]*\}')


class _Message(Struct):
    content: list[Raw] | str
    role: str = ""


class _Body(Struct):
    messages: list[_Message]
    system: list[Raw] | str = ""
    tools: list[Raw] = []


_read = msgspec.json.Decoder(_Body).decode


class Bill(Struct, frozen=True):
    """Sums in US dollars, and how much of the prompts came from the cache."""

    paid: float
    ideal: float
    prompt: int
    read: int

    @property
    def read_share(self) -> float:
        """Of all tokens sent, those read from the cache."""
        return self.read / max(1, self.prompt)


class Meter:
    """Adds up requests as they are answered."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._counter = Counter()
        self._known: dict[tuple[int, bytes], int] = {}
        self._paid = self._ideal = 0.0
        self._prompt = self._read = 0

    @property
    def bill(self) -> Bill:
        """What it comes to so far."""
        return Bill(self._paid, self._ideal, self._prompt, self._read)

    def add(self, raw: bytes, usage: Usage) -> None:
        """One more request that was answered."""
        price = self._profile.price(usage.prompt)
        assert price is not None
        fresh = min(usage.prompt, self._fresh(raw))
        self._paid += cost(usage, self._profile) or 0.0
        ideal = (usage.prompt - fresh) * price.read + fresh * price.write(FIVE_MINUTES)
        self._ideal += (ideal + usage.output_tokens * price.output) / 1e6
        self._prompt += usage.prompt
        self._read += usage.cache_read_input_tokens

    def _fresh(self, raw: bytes) -> int:
        """Tokens of the parts that never followed the same parts before."""
        place, fresh = 0, 0
        for part, opens in _parts(_read(raw)):
            known = self._known.get((place, part))
            if known is None:
                known = self._known[place, part] = len(self._known) + 1
                load = self._counter.measure(msgspec.json.decode(part))
                fresh += self._counter.tokens(load, self._profile.tokenizer)
                fresh += self._counter.per_message if opens else 0
            place = known
        return fresh


def _parts(body: _Body) -> Iterable[tuple[bytes, bool]]:
    """All parts of a prompt in order, without cache markers, each with whether a message begins with it."""
    for block in [*body.tools, *_listed(body.system)]:
        yield _MARKER.sub(b"", bytes(block)), False
    for message in body.messages:
        for place, block in enumerate(_listed(message.content)):
            yield _MARKER.sub(b"", bytes(block)), place == 0


def _listed(content: list[Raw] | str) -> list[Raw]:
    if isinstance(content, list):
        return content
    return [Raw(msgspec.json.encode({"type": "text", "text": content}))] if content else []


class Naive:
    """The same conversation held without any care: turns are added as they come."""

    def __init__(self, profile: Profile, room: int) -> None:
        self._profile = profile
        self._room = room
        self._messages: list[int] = []
        self._first = 0
        self._fixed = 0
        self._sent = 0
        self._all = 0
        self._results = 0
        self.usd = 0.0

    @property
    def needed(self) -> int:
        """Tokens of the whole conversation: the window it would have needed."""
        return self._fixed + self._all

    def begin(self, prompt: int) -> None:
        """The first request had so many tokens: what is more than was said is there with every request."""
        if not self._fixed:
            self._fixed = prompt - self._all

    def said(self, tokens: int) -> None:
        """One more message."""
        self._messages.append(tokens)
        self._sent += tokens
        self._all += tokens

    def used(self, tokens: int) -> None:
        """A result; those of one turn are one message, in whatever order they come."""
        self._results += tokens

    def ask(self, output: int) -> None:
        """A request with all that fits, and its answer."""
        if self._results:
            self.said(self._results)
            self._results = 0
        while self._fixed + self._sent > self._room and self._first < len(self._messages) - 1:
            self._sent -= self._messages[self._first]
            self._first += 1
        prompt = self._fixed + self._sent
        price = self._profile.price(prompt)
        assert price is not None
        self.usd += (prompt * price.input + output * price.output) / 1e6
        self.said(output)
