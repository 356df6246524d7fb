"""Runs inside the sandbox: passes connections to a local port on to a socket, and then runs the command.

It is a program of its own that imports nothing of Sevenfold, because Sevenfold is not visible there. Arguments: the
socket, the port, and the command.
"""

import os
import socket
import sys
import threading
from contextlib import suppress

CHUNK = 65_536
LOOK_SECONDS = 1.0
"""How often it looks whether it is still needed."""


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass on bytes in one direction until there are no more."""
    with suppress(OSError):
        while chunk := source.recv(CHUNK):
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def connect(client: socket.socket, path: str) -> None:
    """Pass one connection on."""
    with client, socket.socket(socket.AF_UNIX) as out:
        try:
            out.connect(path)
        except OSError:
            return
        back = threading.Thread(target=pump, args=(out, client), daemon=True)
        back.start()
        pump(client, out)
        back.join()


def is_alone() -> bool:
    """Whether no process of the sandbox is left but its first, which waits for the others, and this one."""
    entries = os.listdir("/proc")  # noqa: PTH208 (starts with every command, and pathlib takes long to load)
    processes = {int(name) for name in entries if name.isdecimal()}
    return processes <= {1, os.getpid()}


def serve(listener: socket.socket, path: str) -> None:
    """Pass all connections on, until nothing is left that could ask for one.

    The sandbox lasts as long as any process in it. If this one waited for its end, neither would ever come.
    """
    listener.settimeout(LOOK_SECONDS)
    while True:
        try:
            client, _ = listener.accept()
        except TimeoutError:
            if is_alone():
                return
            continue
        client.settimeout(None)
        threading.Thread(target=connect, args=(client, path), daemon=True).start()


def main() -> None:
    """Start the forwarder as a child, and become the command."""
    path, port, *argv = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)))
    if os.fork() == 0:
        # Nothing the command waits for may be held open here: neither its output nor the pipes that tell it has ended.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        for descriptor in range(3, 256):
            if descriptor != listener.fileno():
                with suppress(OSError):
                    os.close(descriptor)
        serve(listener, path)
        os._exit(0)
    listener.close()
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
