"""An MCP server at an address: streamable HTTP, with answers that cannot fill the memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sevenfold.agent.mcp.process import MOST_BYTES
from sevenfold.agent.mcp.server import Address

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams


@asynccontextmanager
async def http(address: Address) -> AsyncGenerator[TransportStreams, None]:
    """The streams the SDK talks through."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # Reading has no limit of its own here: how long a call may take is settled where it is made.
    timeout = httpx2.Timeout(address.startup_seconds, read=None)
    headers = {**address.headers, "accept-encoding": "identity"}
    client = httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks={"response": [_bound]})
    async with (
        client,
        streamable_http_client(address.url, http_client=client, max_sse_event_size=MOST_BYTES) as streams,
    ):
        yield streams


async def _bound(response: httpx2.Response) -> None:
    """Let no answer grow without end."""
    import httpx2

    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.ReadError("the answer is compressed, though that was not asked for")
    whole = response.stream
    if isinstance(whole, httpx2.AsyncByteStream) and not _is_stream(response):
        response.stream = _bounded(whole)


def _is_stream(response: httpx2.Response) -> bool:
    """A stream of events may go on for ever; each of its events has a bound of its own."""
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _bounded(whole: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """The same bytes, up to a point."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            seen = 0
            async for chunk in whole:
                seen += len(chunk)
                if seen > MOST_BYTES:
                    raise httpx2.ReadError(f"the answer has more than {MOST_BYTES:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await whole.aclose()

    return Bounded()
