"""Reads a copy of what passed and has it recorded, in a thread of its own.

The server only appends to a queue. Whatever goes wrong here (a full disk, an answer in an unknown form, a thread that
cannot keep up) is said once for each conversation or connection, and bytes go on flowing. What is not read yet is
bounded: a connection that would exceed the bound is no longer recorded.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter

import h11
from msgspec import Struct

from sevenfold.doors.follower.answer_reading import BodyReading
from sevenfold.doors.follower.follower import CallEnd, ClientCall, ConversationFollower, FollowedCall
from sevenfold.doors.follower.identity import api_of

MOST_WAITING = 256_000_000
"""Bytes that may wait to be read."""
MOST_HEAD = 1_000_000
Say = Callable[[str], None]


class CallStatistics(Struct):
    """What passed, in numbers."""

    requests: int = 0
    """Requests to models."""
    failed: int = 0
    """Requests to models that got an error or no answer."""
    unrecorded: int = 0
    """Requests to models that could not be recorded."""


class Recorder:
    """Records what passes on all connections."""

    def __init__(self, follower: ConversationFollower, say: Say) -> None:
        """``say`` gets a sentence about each failure, from the recorder's thread."""
        self.follower = follower
        self.statistics = CallStatistics()
        self._say = say
        self._said: set[str] = set()
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="gateway recorder", daemon=True)
        self._thread.start()

    def passage(self) -> RecordedPassage:
        """What a new connection reports to."""
        return RecordedPassage(self)

    def submit(self, size: int, work: Callable[[], None]) -> bool:
        """Have ``size`` bytes read by ``work`` in the thread; False if too much waits already."""
        with self._lock:
            if self._waiting and self._waiting + size > MOST_WAITING:
                return False
            self._waiting += size

        def counted() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._waiting -= size

        self._queue.put(counted)
        return True

    def failed(self, what: str, error: object = "") -> None:
        """Say once that something is not recorded, and why."""
        reason = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
        sentence = f"{what} is not recorded: {reason}" if reason else f"{what} is not recorded"
        self.say_once(sentence, about=what)

    def say_once(self, sentence: str, *, about: str = "") -> None:
        """Say something, unless a sentence about the same was said before."""
        if (about or sentence) not in self._said:
            self._said.add(about or sentence)
            self._say(sentence)

    def close(self) -> None:
        """Record everything that waits, then close the sessions."""
        self._queue.put(None)
        self._thread.join()
        try:
            self.follower.close()
        except Exception as error:  # noqa: BLE001 (the program's answers have all been passed on)
            self.failed("the end of a session", error)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 (recording must never end because of one request)
                self.failed("a request", error)


class RecordedPassage:
    """Reports what passes on one connection to the recorder; see `sevenfold.doors.gateway.relay.PassageWatcher`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._reading = ConnectionReading(recorder)
        self._lost = False

    def requested(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None,
        call: FollowedCall | None = None,
    ) -> None:
        """A request was sent; ``call`` if it was taken in before."""
        at = perf_counter()
        made = RoundTrip(method, target, headers, body, at, call)
        self._submit(len(body or b""), lambda: self._reading.requested(made))

    def received(self, chunk: bytes) -> None:
        """Bytes of the answer came."""
        at = perf_counter()
        self._submit(len(chunk), lambda: self._reading.received(chunk, at))

    def ended(self) -> None:
        """The connection has ended."""
        self._submit(0, self._reading.ended)

    def _submit(self, size: int, work: Callable[[], None]) -> None:
        if self._lost:
            return
        if not self._recorder.submit(size, work):
            self._lost = True
            self._recorder.failed("the rest of a connection", "more passes than can be recorded")


class RoundTrip(Struct, frozen=True):
    """A request as it was sent, and when it had been sent."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None
    at: float
    call: FollowedCall | None = None


class ConnectionReading:
    """Reads the answers on one connection, each for its request."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._exchanges: deque[RoundTrip] = deque()
        self._early: list[tuple[bytes, float]] = []
        """Bytes that came before the request they answer had been sent."""
        self._answer: AnswerReading | None = None
        self._unreadable = False

    def requested(self, exchange: RoundTrip) -> None:
        """Take note of a request."""
        self._exchanges.append(exchange)
        early = self._early
        self._early = []
        for chunk, at in early:
            self.received(chunk, at)

    def received(self, chunk: bytes, at: float) -> None:
        """Read the next bytes."""
        while chunk and not self._unreadable:
            if self._answer is None:
                if not self._exchanges:
                    self._early.append((chunk, at))
                    return
                self._answer = AnswerReading(self._exchanges.popleft(), self._recorder)
            try:
                rest = self._answer.take(chunk, at)
            except h11.RemoteProtocolError as error:
                self._unreadable = True
                self._answer.broke_off(f"the answer is not HTTP: {error}")
                self._answer = None
                return
            if rest is None:
                return
            chunk = rest
            self._answer = None

    def ended(self) -> None:
        """Finish what is under way: the connection has ended."""
        if self._answer is not None:
            self._answer.connection_ended()
        for exchange in self._exchanges:
            AnswerReading(exchange, self._recorder).broke_off("no answer came")
        self._exchanges.clear()
        self._answer = None


class AnswerReading:
    """Reads one answer; a request to a model is taken in when the first byte of its answer comes."""

    def __init__(self, exchange: RoundTrip, recorder: Recorder) -> None:
        self._exchange = exchange
        self._recorder = recorder
        self._api = api_of(exchange.method, exchange.target)
        self._call: FollowedCall | None = None
        self._began = False
        self._first: float | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
        method = exchange.method if exchange.method in ("GET", "HEAD") else "POST"
        length = [] if method != "POST" else [("content-length", "0")]
        self._http.send(h11.Request(method=method, target="/", headers=[("host", "x"), *length]))
        self._http.send(h11.EndOfMessage())
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body: BodyReading | None = None

    def take(self, chunk: bytes, at: float) -> bytes | None:
        """Read the next bytes; returns what follows the answer, None while the answer goes on."""
        if self._first is None:
            self._first = at
            self._begin()
        self._http.receive_data(chunk)
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._status = event.status_code
                self._headers = {
                    name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers
                }
                if self._call is not None and self._api is not None:
                    asked = self._exchange.body or b""
                    self._body = BodyReading(self._api, self._exchange.target, asked, self._headers)
            elif isinstance(event, h11.Data):
                if self._body is not None:
                    self._body.take(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._end("")
                return self._http.trailing_data[0]
            elif event is h11.NEED_DATA or event is h11.PAUSED:
                return None
            elif isinstance(event, h11.ConnectionClosed):
                self._end("")
                return b""

    def connection_ended(self) -> None:
        """The connection has ended: with it the answer, or in the middle of it."""
        try:
            self._http.receive_data(b"")
            event = self._http.next_event()
        except h11.RemoteProtocolError:
            event = None
        self._end("" if isinstance(event, h11.EndOfMessage) else "the connection broke off")

    def broke_off(self, error: str) -> None:
        """Finish an answer that cannot be read any further."""
        self._begin()
        self._end(error)

    def _begin(self) -> None:
        """Take in the request, if it is one to a model."""
        exchange = self._exchange
        statistics = self._recorder.statistics
        if self._began or self._api is None:
            return
        self._began = True
        statistics.requests += 1
        if exchange.body is None:
            return
        if exchange.call is not None:
            self._call = exchange.call
            return
        call = ClientCall(self._api, exchange.target, exchange.headers, exchange.body)
        try:
            self._call = self._recorder.follower.sent(call)
        except Exception as error:  # noqa: BLE001 (whatever it is, only this request is not recorded)
            statistics.unrecorded += 1
            self._recorder.failed("a request", error)

    def _end(self, error: str) -> None:
        if self._api is None:
            return
        answer, problem = self._body.ended(self._status) if self._body is not None else (None, "")
        error = problem or error
        if answer is None or error:
            self._recorder.statistics.failed += 1
        if self._call is None:
            return
        waited = None if self._first is None else round((self._first - self._exchange.at) * 1000)
        end = CallEnd(self._status, answer, error, waited)
        try:
            self._recorder.follower.ended(self._call, end)
        except Exception as failure:  # noqa: BLE001 (whatever it is, only this answer is not recorded)
            self._recorder.statistics.unrecorded += 1
            self._recorder.failed(f"an answer in the session {self._call.conversation.name}", failure)
