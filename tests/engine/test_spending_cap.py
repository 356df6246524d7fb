"""A spending cap bounds what the engine's own calls may cost."""

from __future__ import annotations

import pytest

import sevenfold
from sevenfold.providers.offline import OfflineClient, Script

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")


def _session(cap: float | None) -> sevenfold.Session:
    settings: dict[str, object] = {"spending_cap_usd": cap, "notes": False, "background_compaction": False}
    client = OfflineClient(Script(lambda request: "an answer of some words" for _ in range(9)))
    return sevenfold.Session.in_memory(model="claude-opus-4-6", client=client, settings=settings)


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("cap", [0.0, None])
def test_models_are_asked_for_a_summary_only_below_the_cap(cap: float | None) -> None:
    with _session(cap) as session:
        session.user("What is the port? It is 8443.")
        session.complete()
        session.user("And the host?")
        session.complete()
        done = session.compact()
        assert done is not None
        reasons = " ".join(left.reason for left in done.left)
        assert ("may cost" in reasons) == (cap is not None)
        assert done.engine == "extractive" or cap is None
