"""The provider that the tests of clients ask: one for all of them, new for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.asking import Provider, provided


@pytest.fixture(scope="session")
def standing() -> Iterator[Provider]:
    with provided() as provider:
        yield provider


@pytest.fixture
def provider(standing: Provider) -> Provider:
    standing.renew()
    return standing
