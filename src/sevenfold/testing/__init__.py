"""Contract suites: the tests that an implementation of a port must pass. They need pytest."""

import pytest

pytest.register_assert_rewrite(
    "sevenfold.testing.jobs",
    "sevenfold.testing.logs",
    "sevenfold.testing.providers",
    "sevenfold.testing.stores",
)
