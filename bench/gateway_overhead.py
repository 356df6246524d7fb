"""How much later the first byte of an answer comes through the gateway, and how much memory it takes.

    python -m bench.gateway_overhead [--mode keep]

A server on this machine answers each request at once with a small stream. The same client, on kept connections, asks
it directly and through a gateway that records, in turns, so that both see the same load of the machine; between turns
it pauses for a moment, except in the last row, where each request comes while the one before is being recorded. What is
measured is the time from the first byte of the request sent to the first byte of the answer received. Bodies are of
conversations that grow by two messages each time, as those of agents do. The gateway runs in a process of its own, as
it does for users; its memory is read after each size. With ``--mode keep`` the last size is 1 MB in about 300 messages,
which the gateway prepares before it sends them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

SIZES = (1_000, 50_000, 200_000, 500_000)
KEPT_SIZE = 1_000_000
KEPT_STEP = 3_400
"""Bytes of a message, so that the size above has about 300 of them."""
ROUNDS = 150
SAID = "said"
"""What the server answers, and the next request of a conversation repeats."""
PAUSE = 0.05
"""Seconds between two requests: a program carries out a tool before it sends the next one."""
WARM_UP = 10
USAGE = {
    "input_tokens": 10,
    "output_tokens": 2,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}


def answer(number: int) -> bytes:
    head = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [],
    }
    events = [
        {"type": "message_start", "message": {**head, "usage": USAGE}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": SAID},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


async def serve() -> tuple[asyncio.Server, int]:
    numbers = iter(range(10**9))

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(answer(next(numbers)))
                await writer.drain()
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 22)
    return server, server.sockets[0].getsockname()[1]


def bodies(size: int, step: int = 1_000) -> Iterator[bytes]:
    """Requests of a conversation that has about this size, in messages of ``step`` bytes, and grows."""
    messages = [
        {"role": ("user", "assistant")[number % 2], "content": f"{number} " + "word " * (step // 5)}
        for number in range(max(1, size // step) | 1)
    ]
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    number = 0
    while True:
        yield json.dumps({"model": "claude-opus-4-6", "tools": tools, "messages": messages}).encode()
        messages += [
            {"role": "assistant", "content": SAID},
            {"role": "user", "content": f"more {number}"},
        ]
        number += 1


async def first_byte(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, body: bytes
) -> float:
    head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-sevenfold-session: s{len(body) // 20_000}\r\n"
    started = perf_counter()
    writer.write(
        f"{head}content-type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    await writer.drain()
    received = await reader.read(1)
    took = perf_counter() - started
    rest = await reader.readuntil(b"\r\n\r\n")
    length = int((received + rest).lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return took


async def measure(
    upstream: int, gateway: int, size: int, pause: float, step: int = 1_000
) -> tuple[list[float], list[float]]:
    direct = await asyncio.open_connection("127.0.0.1", upstream)
    passed = await asyncio.open_connection("127.0.0.1", gateway)
    times: tuple[list[float], list[float]] = ([], [])
    requests = bodies(size, step)
    for number in range(ROUNDS + WARM_UP):
        body = next(requests)
        await asyncio.sleep(pause)
        without = await first_byte(*direct, upstream, body)
        with_it = await first_byte(*passed, gateway, body)
        if number >= WARM_UP:
            times[0].append(without * 1000)
            times[1].append(with_it * 1000)
    for _, writer in (direct, passed):
        writer.close()
    return times


def memory(process: int) -> float:
    """The resident memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


async def main(mode: str) -> None:
    server, upstream = await serve()
    with tempfile.TemporaryDirectory() as home:
        command = [
            sys.executable,
            "-m",
            "sevenfold",
            "gateway",
            "--upstream",
            f"http://127.0.0.1:{upstream}",
            "--mode",
            mode,
        ]
        process = await asyncio.create_subprocess_exec(
            *command, env={"SEVENFOLD_HOME": home, "PATH": ""}, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        await process.stdout.readline()
        line = (await process.stdout.readline()).decode()
        gateway = int(line.rpartition(":")[2])
        print(
            f"{'body':>9}  {'direct p50':>10}  {'gateway p50':>11}  {'added p50':>9}  {'added p95':>9}  {'memory':>8}"
        )
        for size, pause in [*((size, PAUSE) for size in SIZES), (SIZES[-1], 0.0)]:
            direct, passed = await measure(upstream, gateway, size, pause)
            added = sorted(after - before for before, after in zip(direct, passed, strict=True))
            row = f"{size:>9,}{' ' if pause else '*'} {median(direct):>7.2f} ms  {median(passed):>8.2f} ms"
            p95 = quantiles(added, n=20)[-1]
            print(f"{row}  {median(added):>6.2f} ms  {p95:>6.2f} ms  {memory(process.pid):>5.0f} MB")
        print("* without a pause")
        if mode == "keep":
            direct, passed = await measure(upstream, gateway, KEPT_SIZE, PAUSE, KEPT_STEP)
            added = sorted(after - before for before, after in zip(direct, passed, strict=True))
            print(
                f"kept, {KEPT_SIZE:,} bytes in about 300 messages: {median(added):.2f} ms added at the median"
            )
        process.terminate()
        await process.wait()
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How much later the first byte comes through the gateway.")
    parser.add_argument("--mode", choices=("watch", "keep"), default="watch")
    asyncio.run(main(parser.parse_args().mode))
