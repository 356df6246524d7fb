"""How a call names itself to a broker, which holds it for workers that may be killed."""

from __future__ import annotations

from collections.abc import Mapping

CALL_HEADER = "x-sevenfold-call"
"""The record of the request in its session's log; another worker that asks for the same names the same record."""
RECORDED_HEADER = "x-sevenfold-recorded"
"""The last call of the session whose answer is in its log, so that it will not be requested again."""
BROKER_HEADERS = frozenset({CALL_HEADER, RECORDED_HEADER})


def broker_headers(name: str, recorded: str) -> Mapping[str, str]:
    """The headers of a call with this name; none if it has no name."""
    if not name:
        return {}
    return {CALL_HEADER: name, RECORDED_HEADER: recorded} if recorded else {CALL_HEADER: name}
