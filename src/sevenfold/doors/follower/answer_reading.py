"""Reads a copy of an answer's body as it passes: decoded, and as the model's answer that it holds."""

from __future__ import annotations

import sys
import zlib
from typing import Any, Protocol

import msgspec

from sevenfold.record.log import Answer
from sevenfold.wire.chat_answer import ChatReader
from sevenfold.wire.client_request import Api
from sevenfold.wire.error_report import ErrorAnswer, MalformedAnswer, report_of
from sevenfold.wire.messages_answer import MessagesReader
from sevenfold.wire.reader import EventLines, Reader
from sevenfold.wire.responses_answer import ResponsesReader, summary_reader

MOST_ANSWER = 128_000_000
"""Bytes of an answer that are read, after decompression."""


class Decoder(Protocol):
    """Undoes the encoding of an answer's body, piece by piece."""

    def decompress(self, data: bytes, /) -> bytes:
        """The decoded content of the next piece."""


class BodyReading:
    """Reads the body of an answer of a model."""

    def __init__(self, api: Api, target: str, asked: bytes, headers: dict[str, str]) -> None:
        self._reader = _reader(api, target, asked)
        self._lines = EventLines() if "event-stream" in headers.get("content-type", "") else None
        self._request_id = headers.get("request-id") or headers.get("x-request-id")
        self._pieces: list[bytes] = []
        self._size = 0
        self._problem = ""
        self._decoders: list[Decoder] = []
        for encoding in reversed(headers.get("content-encoding", "").split(",")):
            if (name := encoding.strip().lower()) and name != "identity":
                self._add_decoder(name)

    def take(self, data: bytes) -> None:
        """Read the next bytes."""
        if self._problem:
            return
        try:
            for decoder in self._decoders:
                data = decoder.decompress(data)
            self._size += len(data)
            if self._size > MOST_ANSWER:
                raise MalformedAnswer(f"it has more than {MOST_ANSWER:,} bytes")
            if self._lines is None:
                self._pieces.append(data)
                return
            for event in self._lines.feed(data):
                self._reader.event(event)
        except ErrorAnswer as error:
            self._problem = f"{error.report.kind}: {error.report.message}".strip(": ")
        except Exception as error:  # noqa: BLE001 (decoders raise errors of their own)
            self._problem = f"the answer cannot be read: {error}"

    def ended(self, status: int) -> tuple[Answer | None, str]:
        """The answer or its usable part, and what is wrong with it."""
        if status >= 400:
            return None, self._problem or _error_in(b"".join(self._pieces), status)
        try:
            if self._lines is None and not self._problem:
                self._reader.body(b"".join(self._pieces))
            if self._reader.whole and not self._problem:
                return self._reader.reply(self._request_id).answer, ""
            return self._reader.partial(self._request_id), self._problem or "the answer broke off"
        except ErrorAnswer as error:
            return None, f"{error.report.kind}: {error.report.message}".strip(": ")
        except MalformedAnswer as error:
            return None, f"the answer cannot be read: {error}"

    def _add_decoder(self, name: str) -> None:
        try:
            self._decoders.append(_decoder(name))
        except (ImportError, KeyError):
            self._problem = f"the answer is encoded as {name}, which cannot be read here"


class _Inflated:
    """Undoes gzip and deflate."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._inflate = zlib.decompressobj(bits)

    def decompress(self, data: bytes, /) -> bytes:
        """The decoded content; gzip may consist of several members."""
        parts = [self._inflate.decompress(data)]
        while self._inflate.eof and self._inflate.unused_data:
            rest = self._inflate.unused_data
            self._inflate = zlib.decompressobj(self._bits)
            parts.append(self._inflate.decompress(rest))
        return b"".join(parts)


class _Brotli:
    """Undoes brotli."""

    def __init__(self) -> None:
        import brotli

        self._decompressor = brotli.Decompressor()

    def decompress(self, data: bytes, /) -> bytes:
        """The decoded content."""
        content: bytes = self._decompressor.process(data)
        return content


def _decoder(name: str) -> Decoder:
    """What undoes an encoding; raises `KeyError` for an unknown one, `ImportError` if its library is missing."""
    if name == "zstd":
        decompressor: Decoder = _zstd().ZstdDecompressor()
        return decompressor
    if name == "br":
        return _Brotli()
    return _Inflated({"gzip": 31, "x-gzip": 31, "deflate": 15}[name])


def _zstd() -> Any:
    """The module of the standard library, or its backport for Python before 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _reader(api: Api, target: str, asked: bytes) -> Reader:
    if api == "messages":
        return MessagesReader()
    if target.partition("?")[0].rstrip("/").endswith("/compact"):
        return summary_reader(asked)
    return ChatReader(asked) if api == "chat" else ResponsesReader(asked)


def _error_in(body: bytes, status: int) -> str:
    """What a provider said in the body of an error."""
    try:
        content: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        content = body.decode(errors="replace")
    report = report_of(content, status)
    return f"{report.kind}: {report.message}".strip(": ")
