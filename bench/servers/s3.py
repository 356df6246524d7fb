"""A small server that speaks S3 on this machine alone, from the package moto in an environment of its own."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import Self
from urllib.request import Request, urlopen

from bench.peers.environments import python_with

PACKAGES = ("moto[s3,server]>=5",)
SECONDS_TO_START = 60
BUCKET = "results"


class S3Server:
    """The server, with one bucket; it keeps everything in memory and ends with `close`."""

    def __init__(self) -> None:
        """Raises `bench.peers.environments.Unavailable` if the package cannot be installed."""
        python = python_with("s3", PACKAGES)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        # Otherwise it listens on all addresses.
        command = [str(python.parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._make_bucket()
        except BaseException:
            self.close()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which clients find it."""
        return {
            "AWS_ENDPOINT": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "simulated",
            "AWS_SECRET_ACCESS_KEY": "simulated",
            "AWS_REGION": "us-east-1",
        }

    def _make_bucket(self) -> None:
        until = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                urlopen(Request(f"{self.address}/{BUCKET}", method="PUT")).close()
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the S3 server does not answer: {error}") from error
                time.sleep(0.1)
            else:
                return

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
