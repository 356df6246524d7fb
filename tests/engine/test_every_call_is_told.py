"""Every call of a model is seen: as events, with who asked and what it cost, and on the session's bill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sevenfold.cli.chat.reports import Spending
from sevenfold.events import Answered, Failed, Sending
from sevenfold.lab.simulator.faults import Fault
from tests.engine.working import ASKED, begun, world


@pytest.mark.spec("S4.18", "S7.10")
@pytest.mark.parametrize("engine", ["provider", "fork", "plain"])
def test_a_compactions_calls_are_told_and_on_the_bill(engine: Any) -> None:
    with world() as here, begun(here, 6, 4_000) as session:
        done = session.compact(engine=engine)
        assert done is not None
        assert done.engine == engine
        asked, answered = here.told(Sending, source="compact"), here.told(Answered, source="compact")
        assert len(asked) == len(answered) == done.calls == 1
        assert [event.request for event in asked] == [event.request for event in answered]
        assert done.usd is not None
        assert answered[0].usd == done.usd > 0
        assert answered[0].output_tokens > 0
        books = Spending.of(session.conversation.transcript.log)
        assert books.by_source["compact"] == pytest.approx(done.usd)
        assert books.usd == pytest.approx(session.gauge.usd)


@pytest.mark.spec("S4.18")
def test_what_a_compaction_cost_is_still_known_after_a_resume(tmp_path: Path) -> None:
    with world() as here:
        with here.open(tmp_path / "s.jsonl") as session:
            session.user(ASKED)
            here.work(session, 6, 4_000)
            session.compact(engine="plain")
            spent = session.gauge.usd
        with here.open(tmp_path / "s.jsonl") as again:
            assert again.gauge.usd == pytest.approx(spent)


@pytest.mark.spec("S4.18")
def test_calls_that_fail_are_told_each() -> None:
    with world() as here, begun(here, 6, 4_000) as session:
        here.simulator.faults.then(Fault("overloaded"))
        session.compact(engine="plain")
        assert len(here.told(Sending, source="compact")) == 2
        assert [event.error for event in here.told(Failed, source="compact")] == ["Overloaded"]
        assert len(here.told(Answered, source="compact")) == 1
