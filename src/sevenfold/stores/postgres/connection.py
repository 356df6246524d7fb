"""Connections that work for one tenant at a time, and statements that are sent before anybody reads their answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import psycopg
from psycopg import generators, pq

_FOR_CONNECTION = (
    b"SELECT set_config('sevenfold.tenant', %s, false), set_config('synchronous_commit', %s, false)"
)
_NAMED = re.compile(rb"%\((\w+)\)s")
_BIGINT, _BYTEA, _BIGINTS = 20, 17, 1016
_TYPES = {b"line": _BYTEA, b"names": _BIGINTS}
"""The types of values that are not numbers."""


class TenantConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that works for one tenant at a time."""

    _bound: tuple[int, str] | None = None
    _announced: frozenset[bytes] = frozenset()
    """The statements that `announce` has prepared here."""

    def bind(self, tenant: int, waits: str) -> None:
        """Work for this tenant from now on; ``waits`` says whether commits wait for the disk."""
        if self._bound != (tenant, waits):
            self._bound = None
            self.execute(_FOR_CONNECTION, (str(tenant), waits))
            self._bound = tenant, waits

    def announce(self, name: bytes, sql: bytes, values: Mapping[str, Any]) -> None:
        """Send a statement under a name of its own, and return without its answer; raises what psycopg raises."""
        numbered, names = _numbered(sql)
        if name not in self._announced:
            types = [_TYPES.get(value, _BIGINT) for value in names]
            answer = self.pgconn.prepare(name, numbered, types)
            if answer.status != pq.ExecStatus.COMMAND_OK:
                raise psycopg.OperationalError(answer.get_error_message())
            self._announced |= {name}
        encoded = [_encoded(values[value.decode()]) for value in names]
        formats = [int(value == b"line") for value in names]
        self.pgconn.send_query_prepared(name, encoded, param_formats=formats)
        self.wait(generators.send(self.pgconn))


class AnnouncedStatement:
    """A statement that has been sent to the server on a connection of its own; `written` reads the answer."""

    def __init__(
        self, connection: TenantConnection, give_back: Callable[[AnnouncedStatement], None]
    ) -> None:
        self.connection = connection
        self._give_back = give_back
        self._reading = threading.Lock()
        self._over = False
        self._written: bool | None = None

    def written(self) -> bool | None:
        """Wait for the answer: whether a row was changed; None if that is not known, because the connection broke."""
        with self._reading:
            if not self._over:
                self._over = True
                try:
                    results = self.connection.wait(generators.fetch_many(self.connection.pgconn))
                    if results and results[0].status == pq.ExecStatus.TUPLES_OK:
                        self._written = results[0].get_value(0, 0) == b"1"
                except psycopg.Error:
                    pass  # the caller checks whether it was carried out
                finally:
                    self._give_back(self)
            return self._written


@cache
def _numbered(sql: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """A statement with numbers for its named values, and the names in order."""
    names = tuple(dict.fromkeys(_NAMED.findall(sql)))
    return _NAMED.sub(lambda match: b"$%d" % (names.index(match[1]) + 1), sql), names


def _encoded(value: bytes | int | list[int]) -> bytes:
    match value:
        case bytes():
            return value
        case list():
            return b"{%s}" % b",".join(b"%d" % number for number in value)
    return b"%d" % value
