"""A call that was paid for survives the worker that asked: the broker holds the provider's connection."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import anthropic
import pytest

import sevenfold
from sevenfold.doors.gateway.broker import KEPT_SECONDS, Broker
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.doors.gateway.relay import Handling
from sevenfold.doors.gateway.server import Gateway
from sevenfold.doors.gateway.upstreams import Upstreams
from sevenfold.stores.memory import MemoryStore
from sevenfold.wire.brokered import CALL_HEADER, RECORDED_HEADER
from sevenfold.wire.messages_events import message_events
from tests.gateway.standing import follower

pytestmark = pytest.mark.spec("S34.11")

MODEL = "claude-sonnet-5-5"
SECONDS = 60


def message(number: int) -> dict[str, object]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": f"Answer {number}."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 9},
    }


@dataclass
class Provider:
    """A provider that numbers its answers, and can stop in the middle of one until it is told to go on."""

    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    """How each is given: whole, error, error event or cut; whole if there are no more."""
    go_on: threading.Event = field(default_factory=threading.Event)
    clients_are_gone: threading.Event = field(default_factory=threading.Event)

    @property
    def calls(self) -> int:
        return len(self.headers)


def handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            how = provider.answers.pop(0) if provider.answers else "whole"
            number = provider.calls
            provider.headers.append({name.lower(): value for name, value in self.headers.items()})
            streams = bool(body.get("stream"))
            content = b"".join(message_events(message(number), 1000)) if streams else b""
            content = content or json.dumps(message(number)).encode()
            if how == "error event":
                error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
                content = content[: len(content) // 2].rpartition(b"\n\n")[0] + b"\n\n"
                content += b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
            self.send_response(529 if how == "error" else 200)
            self.send_header("content-type", "text/event-stream" if streams else "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:10])
            self.wfile.flush()
            assert provider.go_on.wait(SECONDS)
            if how == "cut":
                self.close_connection = True
                return
            self.wfile.write(content[10:])

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler


class Brokered:
    """A provider and a gateway that is a broker before it."""

    def __init__(self, folder: Path) -> None:
        self.provider = Provider()
        self.provider.go_on.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self.provider))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.time = 0.0
        self.broker = Broker(now=lambda: self.time)
        upstreams = Upstreams.chosen(f"http://127.0.0.1:{self._server.server_port}", {})
        recorder = Recorder(follower(folder), lambda _: None)
        self.gateway = Gateway(recorder, upstreams, handling=Handling(broker=self.broker))
        self.gateway.__enter__()

    def close(self) -> None:
        self.provider.go_on.set()
        self.gateway.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def asking(
        self, name: str, *, words: str = "Hello.", recorded: str = "", key: str = "k", stream: bool = False
    ) -> Iterator[http.client.HTTPResponse]:
        """A worker's request, and the head of its answer; with its end the worker is gone."""
        headers = {CALL_HEADER: name, "x-api-key": key, "content-type": "application/json"}
        headers |= {RECORDED_HEADER: recorded} if recorded else {}
        body = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": words}]}
        parts = urlsplit(self.gateway.url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=SECONDS)
        try:
            connection.request(
                "POST", "/v1/messages", json.dumps({**body, "stream": True} if stream else body), headers
            )
            response = connection.getresponse()
            with response:
                yield response
        finally:
            connection.close()

    def ask(self, name: str, **options: object) -> tuple[int, bytes]:
        with self.asking(name, **options) as response:  # type: ignore[arg-type]
            try:
                return response.status, response.read()
            except http.client.IncompleteRead as error:
                return 0, error.partial


@pytest.fixture
def brokered(tmp_path: Path) -> Iterator[Brokered]:
    both = Brokered(tmp_path)
    yield both
    both.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_worker_that_is_gone_in_the_middle_of_an_answer_leaves_it_to_the_next_one(brokered, stream):
    brokered.provider.go_on.clear()
    with brokered.asking("r1", stream=stream) as response:
        assert response.status == 200
    brokered.provider.go_on.set()
    status, body = brokered.ask("r1", stream=stream)
    assert status == 200
    assert b"Answer 0." in body
    assert brokered.ask("r1", stream=stream) == (status, body)
    assert brokered.provider.calls == 1


def test_two_workers_share_an_answer_that_is_still_coming(brokered):
    brokered.provider.go_on.clear()
    with brokered.asking("r1") as first, brokered.asking("r1") as second:
        brokered.provider.go_on.set()
        assert first.read() == second.read()
    assert brokered.provider.calls == 1


def test_another_request_other_bytes_or_another_credential_is_another_call(brokered):
    bodies = {
        brokered.ask("r1")[1],
        brokered.ask("r2")[1],
        brokered.ask("r1", words="Goodbye.")[1],
        brokered.ask("r1", key="another")[1],
    }
    assert len(bodies) == brokered.provider.calls == 4


def test_what_a_log_has_recorded_is_neither_kept_nor_paid_for_again(brokered):
    brokered.ask("r1")
    assert brokered.ask("r2", words="And then?", recorded="r1")[0] == 200
    status, body = brokered.ask("r1")
    assert status == 410
    assert b"another process has recorded the answer" in body
    assert brokered.ask("r1", key="another")[0] == 200
    assert brokered.provider.calls == 3


@pytest.mark.parametrize("how", ["error", "error event", "cut"])
def test_an_answer_that_failed_is_not_given_twice(brokered, how):
    brokered.provider.answers.append(how)
    stream = how == "error event"
    first = brokered.ask("r1", stream=stream)
    status, body = brokered.ask("r1", stream=stream)
    assert (status, body) != first
    assert (status, b"Answer 1." in body) == (200, True)


def test_answers_are_kept_for_an_hour(brokered):
    brokered.ask("r1")
    brokered.time = KEPT_SECONDS - 1
    brokered.ask("r2")
    brokered.ask("r1")
    assert brokered.provider.calls == 2
    brokered.time = KEPT_SECONDS + 1
    brokered.ask("r3")
    brokered.ask("r1")
    assert brokered.provider.calls == 4


def test_a_worker_is_told_that_its_connection_ends_with_the_answer(brokered):
    with brokered.asking("r1") as response:
        assert response.headers["connection"] == "close"
        assert response.read()


def test_the_provider_does_not_see_what_is_for_the_broker(brokered):
    brokered.ask("r1", recorded="r0")
    (headers,) = brokered.provider.headers
    assert not any("sevenfold" in name for name in headers)
    assert headers["x-api-key"] == "k"


def test_a_provider_that_cannot_be_reached_is_said(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    recorder = Recorder(follower(tmp_path), lambda _: None)
    upstreams = Upstreams.chosen(f"http://127.0.0.1:{port}", {})
    with Gateway(recorder, upstreams, handling=Handling(broker=Broker())) as gateway:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=SECONDS)
        connection.request("POST", "/v1/messages", "{}", {CALL_HEADER: "r1"})
        response = connection.getresponse()
        assert (response.status, b"no connection to" in response.read()) == (502, True)
        connection.close()


# -- with sessions ---------------------------------------------------------------------------------


def client_of(brokered: Brokered) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", base_url=brokered.gateway.url, max_retries=0)


def session(store: MemoryStore, brokered: Brokered, folder: Path) -> sevenfold.Session:
    return sevenfold.Session.open(
        "s",
        model=MODEL,
        store=store,
        folder=folder,
        client=client_of(brokered),
        settings={"broker": True},
    )


def test_the_next_process_gets_the_answer_of_one_that_never_recorded_it(brokered, tmp_path):
    store = MemoryStore()
    for words in ("Hello.", None):  # the second process is killed, too
        with session(store, brokered, tmp_path) as killed, client_of(brokered) as client:
            if words:
                killed.user(words)
            client.messages.create(**killed.prepare())
    assert not list(store.read("s").answers())
    with session(store, brokered, tmp_path) as last, client_of(brokered) as client:
        answer = last.observe(client.messages.create(**last.prepare()))
        assert answer.text == "Answer 0."
        assert brokered.provider.calls == 1
        last.user("And then?")
        assert last.complete().text == "Answer 1."


def test_a_question_that_is_put_again_is_another_call(brokered, tmp_path):
    store = MemoryStore()
    with session(store, brokered, tmp_path) as first:
        first.user("Hello.")
        first.complete()
        first.user("And then?")
        tip = first.conversation.transcript.view.tip
        assert first.complete().text == "Answer 1."
        first.rewind(tip)
        assert first.complete().text == "Answer 2."


def test_a_request_without_the_setting_has_no_name(brokered, tmp_path):
    with sevenfold.Session.open("s", model=MODEL, store=MemoryStore(), folder=tmp_path) as plain:
        plain.user("Hello.")
        assert CALL_HEADER not in plain.prepare().headers
    with session(MemoryStore(), brokered, tmp_path) as named:
        named.user("Hello.")
        assert named.prepare()["extra_headers"][CALL_HEADER]
