"""Settings for the tests of the gateway."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A loop that ends closes its sockets a moment later than its thread is gone; nothing is left open by that.
    ignored = (
        "ignore:Exception ignored in. <function _SelectorTransport:pytest.PytestUnraisableExceptionWarning"
    )
    for item in items:
        if "gateway" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings(ignored))
