"""`sevenfold simulate` as a user meets it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys

import anthropic
import pytest


def test_it_says_where_it_listens_answers_there_and_stops_at_ctrl_c():
    server = subprocess.Popen(
        [sys.executable, "-m", "sevenfold", "simulate"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    greeting = "".join(server.stdout.readline() for _ in range(5))
    assert "no model inside" in greeting
    address = re.search(r"base_url=(http://\S+)$", greeting, re.M)
    assert address is not None
    with anthropic.Anthropic(base_url=address[1], api_key="simulated-key", max_retries=8) as client:
        answer = client.messages.create(
            model="claude-sonnet-5-5", max_tokens=100, messages=[{"role": "user", "content": "hello"}]
        )
    assert "hello" in answer.to_json()
    server.send_signal(signal.SIGINT)
    _, errors = server.communicate(timeout=30)
    assert "Traceback" not in errors


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = subprocess.run(
            [sys.executable, "-m", "sevenfold", "simulate", "--port", port],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("port", ["0", "-1", "http", "99999"])
def test_a_senseless_port_is_refused(port):
    ran = subprocess.run(
        [sys.executable, "-m", "sevenfold", "simulate", f"--port={port}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert "not a whole number from 1 to 65535" in ran.stderr
