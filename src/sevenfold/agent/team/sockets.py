"""Messages between sessions of one user on one machine, through a socket in a folder that only the user can access.

The listening session puts each message into its own mailbox, so that it is stored, ordered and delivered like any
other. The operating system identifies the peer: both ends check that the other one belongs to the same user. A reply
address is trusted only if the process that listens there is the sender.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.team.messages import LONGEST, SOCKET, Receipt
from sevenfold.errors import Refused, SevenfoldError
from sevenfold.ports import AgentMessage, Mailbox
from sevenfold.stores.files import private_folder

PATIENCE = 5.0
"""The timeout of socket operations, in seconds."""
_MOST = 8 * LONGEST
"""The maximum bytes read from the other end; JSON may need six bytes for one byte of text."""
_CREDENTIALS = struct.Struct("3i")
NOT_HERE = "sockets between sessions need Linux: nothing else here says which user is at the other end"


class Envelope(Struct, frozen=True):
    """What is sent over the socket: a message, and the reply address that its sender claims."""

    message: AgentMessage
    answer: str = ""


class MessageSocket:
    """The socket of a session, with a thread that puts incoming messages into its mailbox."""

    def __init__(
        self, path: Path, mailbox: Mailbox, address: str, arrived: Callable[[], None] = lambda: None
    ) -> None:
        """Start listening; ``arrived`` is called after each message. Raises `Refused` if no socket can be opened."""
        self.path = path
        self._arrived = arrived
        self._mailbox = mailbox
        self._address = address
        private_folder(path.parent)
        path.unlink(missing_ok=True)
        try:
            with _short_path(path) as name:
                self._listening = _socket()
                self._listening.bind(name)
                self._listening.listen(8)
        except OSError as error:
            raise Refused(f"{path}: the socket could not be opened ({error})") from error
        self._thread = threading.Thread(target=self._serve, daemon=True, name="sevenfold-socket")
        self._thread.start()

    def send(self, path: str, message: AgentMessage) -> Receipt:
        """Send to the socket of another session; see `Post.by_socket`."""
        return send(path, message, answer=str(self.path))

    def close(self) -> None:
        """Stop listening."""
        self.path.unlink(missing_ok=True)
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            # A sender notices a failure by itself, because it gets no receipt.
            with connection, suppress(OSError, msgspec.MsgspecError):
                connection.settimeout(PATIENCE)
                connection.sendall(msgspec.json.encode(self._delivered(connection)))
                self._arrived()

    def _delivered(self, connection: socket.socket) -> Receipt:
        process, user = _peer(connection)
        if user != os.getuid():
            return Receipt("", "refused", "it belongs to another user")
        envelope = msgspec.json.decode(_receive_all(connection), type=Envelope)
        message = envelope.message
        if message.kind != "message" or len(message.text.encode(errors="replace")) > LONGEST:
            return Receipt("", "refused", "only words can be sent this way, and not too many")
        sender = f"pid-{process}"
        if envelope.answer and _listener(envelope.answer) == (process, user):
            sender = envelope.answer
        try:
            state = self._mailbox.send(
                replace(message, sender=f"{SOCKET}{sender}", to=self._address, due=0.0)
            )
        except SevenfoldError as error:
            return Receipt("", "refused", str(error))
        return Receipt("", state, "too many messages wait there already" if state == "refused" else "")


def send(path: str, message: AgentMessage, answer: str = "") -> Receipt:
    """Send to the socket at a path; return the receipt of the session that listens there."""
    to = f"{SOCKET}{path}"
    try:
        with _connected(path) as connection:
            if _peer(connection)[1] != os.getuid():
                return Receipt(to, "refused", "what listens there belongs to another user")
            connection.sendall(msgspec.json.encode(Envelope(message, answer)))
            connection.shutdown(socket.SHUT_WR)
            return replace(msgspec.json.decode(_receive_all(connection), type=Receipt), to=to)
    except Refused as error:
        return Receipt(to, "refused", str(error))
    except (OSError, msgspec.MsgspecError) as error:
        return Receipt(to, "refused", f"no session answers there ({error}); it is safe to send it again")


def _socket() -> socket.socket:
    if not hasattr(socket, "SO_PEERCRED"):
        raise Refused(NOT_HERE)
    unix_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unix_socket.settimeout(None)
    return unix_socket


@contextmanager
def _connected(path: str) -> Iterator[socket.socket]:
    with _socket() as unix_socket, _short_path(Path(path)) as name:
        unix_socket.settimeout(PATIENCE)
        unix_socket.connect(name)
        yield unix_socket


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Yield a short path to a socket: the system limits it to about a hundred bytes, and folders may be deep."""
    folder = os.open(path.parent, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return the process id and user id of the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return process, user


def _listener(path: str) -> tuple[int, int] | None:
    """Return the process id and user id of the listener at a path; None if there is none."""
    try:
        with _connected(path) as connection:
            return _peer(connection)
    except (OSError, Refused):
        return None


def _receive_all(connection: socket.socket) -> bytes:
    """Read everything the other end sends; raises `OSError` if it is too much."""
    received = bytearray()
    while chunk := connection.recv(65536):
        received += chunk
        if len(received) > _MOST:
            raise OSError("it says too much")
    return bytes(received)
