"""Begins to answer the suggested prompt before the user sends it, in a fork that reads and changes nothing.

If the user then sends exactly that text, the answers that are ready, and the one under way, stand in for requests of
the conversation that are the same in all that a model sees; its tools are carried out again, so that a file that has
changed since leads to a new request. Anything else the user says throws all of it away. What the fork asks is billed
under its own query source as it is asked, and not again when an answer is used. It is cached for five minutes. It is
off unless both settings `prompt_suggestion` and `speculation` are on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import Ask, Effect, Flow, Signal, Wait, translated
from sevenfold.conversation.fork import Fork, fork
from sevenfold.conversation.request import Outcome, ToolCall
from sevenfold.conversation.tool_loop import work
from sevenfold.ports import Piece, Reply
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, Text, Thinking
from sevenfold.record.usage import BILLED_BEFORE, Usage

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

SOURCE = "speculation"
MOST_TURNS = 8
"""The most requests made for a prompt that may never be sent."""
READING = frozenset({"read", "search"})
"""The kinds of tools that it may use: what they do cannot be noticed outside."""
PATIENCE = 600.0
"""The most seconds that a turn waits for an answer of it."""
_NOT_SEEN = frozenset({"diagnostics", "metadata", "stream", "prompt_cache_key", "prompt_cache_options"})
"""Fields of a request that a model does not see."""
_MARKER = re.compile(rb',"cache_control":\{[^{}]*\}')

R = TypeVar("R")
Show = Callable[[Piece], None]


class _Prepared(Struct, frozen=True):
    """An answer that is ready, and the request it answers."""

    request: bytes
    reply: Reply


class _Stopped(Exception):
    """The fork would need more than reading, so it ends here."""


class Speculation:
    """The answer to the suggested prompt of one conversation, as far as it has come."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._prompt = ""
        """The prompt it answers; empty if it answers none."""
        self._expected = False
        """Whether the user has sent that prompt, so that its answers may be used."""
        self._prepared: list[_Prepared] = []
        self._asking: bytes | None = None
        """The request that it waits for an answer to."""
        self._is_working = False
        self._run = 0
        self._news = Signal()
        """Happens when it asks, has an answer, or ends."""

    def begin(self, prompt: str) -> None:
        """Begin to answer a prompt, if the settings and the spending cap allow it."""
        self.forget()
        c = self._c
        settings = c.settings
        if not (settings.prompt_suggestion and settings.speculation and prompt and c.may_spend()):
            return
        self._prompt = prompt
        self._is_working = True
        c.run_background(self._work(self._run, prompt), partial(self._ended, self._run), SOURCE)

    def forget(self) -> None:
        """Throw away what is there, and stop asking for more."""
        self._run += 1
        self._prompt = ""
        self._expected = self._is_working = False
        self._asking = None
        self._prepared = []
        self._tell()
        for task in self._c.tasks.running:
            if task.kind == SOURCE:
                self._c.tasks.kill(task.id)

    def expect(self, prompt: str) -> None:
        """Note what the user sends: any other prompt throws away what is there."""
        if prompt and prompt == self._prompt:
            self._expected = True
        elif self._prompt:
            self.forget()

    def answering(self, flow: Flow[R], show: Show) -> Flow[R]:
        """Wrap a turn so that an answer that is ready takes the place of a request; ``show`` gets its pieces."""
        return translated(flow, partial(self._step, show)) if self._expected else flow

    # -- in the conversation -----------------------------------------------------------------------

    def _step(self, show: Show, effect: Effect) -> Flow[Any]:
        if isinstance(effect, Ask) and effect.call.source == self._c.source.name and self._expected:
            reply = yield from self._answer_to(seen_by_model(effect.call.body))
            if reply is not None:
                for piece in _pieces(reply):
                    show(piece)
                return _as_billed(reply)
            # The conversation took another course: nothing that follows would fit.
            self.forget()
        return (yield from effect)

    def _answer_to(self, request: bytes) -> Flow[Reply | None]:
        """The answer to a request of the conversation, once it is there; None if there will be none."""
        run = self._run
        while run == self._run:
            news = self._news
            ready = [prepared for prepared in self._prepared if prepared.request == request]
            if ready:
                self._prepared.remove(ready[0])
                return ready[0].reply
            # While it carries out tools, its next request is not known yet, and may be this one.
            if not self._is_working or self._asking not in (None, request):
                return None
            if not (yield from Wait(news, PATIENCE)):
                return None
        return None

    # -- in the fork ---------------------------------------------------------------------------------

    def _work(self, run: int, prompt: str) -> Flow[None]:
        speculative = fork(self._c, SOURCE)
        speculative.cache_briefly()
        speculative.user(prompt)
        try:
            yield from translated(self._ask(speculative), partial(self._listen, run))
        except _Stopped:
            return

    def _ask(self, speculative: Fork) -> Flow[None]:
        yield from work(speculative, self, most_turns=MOST_TURNS, after_answer=_go_on)

    def carry_out(self, calls: Sequence[ToolCall], *, last: bool) -> Flow[Sequence[Block]]:
        """Carry out calls of reading tools; the fork ends before any other, which the conversation has to make."""
        kinds = self._c.kinds
        run = self._c.read_only
        if last or run is None or not all(kinds.get(call.name) in READING for call in calls):
            raise _Stopped
        results = yield from run(calls)
        return [blocks.read(msgspec.json.encode(result)) for result in results]

    def _listen(self, run: int, effect: Effect) -> Flow[Any]:
        """Note each request of the fork, and its answer."""
        if not isinstance(effect, Ask):
            return (yield from effect)
        request = seen_by_model(effect.call.body)
        if run == self._run:
            self._asking = request
            self._tell()
        reply = yield from effect
        if run == self._run:
            self._prepared.append(_Prepared(request, reply))
            self._asking = None
            self._tell()
        return reply

    def _ended(self, run: int, came: Exception | None) -> None:
        if isinstance(came, Exception) and run == self._run:
            self._c.events.aside(SOURCE, str(came), source=SOURCE, error=came)
        if run == self._run:
            self._is_working = False
            self._asking = None
            self._tell()

    def _tell(self) -> None:
        news = self._news
        self._news = Signal()
        news.happen()


def seen_by_model(body: bytes) -> bytes:
    """What a model sees of a request: all of it but cache markers and fields for the server."""
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    visible = {name: Raw(_MARKER.sub(b"", raw)) for name, raw in fields.items() if name not in _NOT_SEEN}
    return msgspec.json.encode(visible, order="sorted")


def _go_on(_: Outcome) -> Flow[None]:
    yield from ()


def _pieces(reply: Reply) -> list[Piece]:
    """An answer as it would have streamed."""
    pieces: list[Piece] = []
    for block in reply.answer.blocks:
        match block.body():
            case Text(text=text):
                pieces.append(Piece("text", text))
            case Thinking(thinking=text) if text:
                pieces.append(Piece("thinking", text))
    return pieces


def _as_billed(reply: Reply) -> Reply:
    """The answer with its usage marked as billed before, under this query source."""
    usage = Usage.read(reply.answer.usage)
    marked = {
        "input_tokens": usage.input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_creation_5m,
            "ephemeral_1h_input_tokens": usage.cache_creation_1h,
        },
        "output_tokens": usage.output_tokens,
        "service_tier": BILLED_BEFORE,
    }
    return replace(reply, answer=replace(reply.answer, usage=Raw(msgspec.json.encode(marked))))
