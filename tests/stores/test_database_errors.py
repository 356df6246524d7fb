"""Which errors of PostgreSQL mean that the server is away, so that the same statement may succeed later."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from sevenfold.stores.postgres.database import is_away

pytestmark = pytest.mark.spec("S34.4")


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection refused"),
        psycopg.InterfaceError("the connection is closed"),
        errors.ConnectionFailure("lost"),
        errors.AdminShutdown("stopping"),
        errors.CrashShutdown("stopped"),
        errors.CannotConnectNow("starting"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_server_that_stops_starts_or_cannot_be_reached_is_away(error: psycopg.Error) -> None:
    assert is_away(error)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.ProgrammingError("a statement that does not fit its arguments"),
        psycopg.DataError("an integer out of range"),
        errors.UndefinedTable("no such table"),
        errors.UniqueViolation("twice"),
        errors.DiskFull("no space left"),
        errors.QueryCanceled("cancelled"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_statement_that_would_fail_again_is_no_reason_to_wait(error: psycopg.Error) -> None:
    assert not is_away(error)
