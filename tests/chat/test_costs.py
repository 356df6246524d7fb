"""What a session has cost counts answers, however many records another tool wrote them in."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.cli.chat.reports import Spending
from sevenfold.profiles import find
from sevenfold.record.usage import Usage
from sevenfold.stores.jsonl.log import JsonlLog
from tests.profile import making


@pytest.mark.spec("S22.24")
def test_an_answer_in_several_records_costs_once(tmp_path: Path) -> None:
    tape = making.Tape()
    tape.record("user", message={"role": "user", "content": "Look around."})
    for number in range(3):
        # The last record of an answer reports how long it became in the end.
        for part, output in (("First.", 10), ("Second.", 10), ("Third.", 400)):
            message = {
                "role": "assistant",
                "id": f"msg_{number}",
                "type": "message",
                "model": making.MODEL,
                "content": [making.text(part)],
                "usage": making.usage(fresh=5, read=1_000, short=200, output=output),
            }
            tape.record("assistant", message=message)
        tape.record("user", message={"role": "user", "content": "And on."})
    path = tmp_path / "session.jsonl"
    path.write_text("".join(f"{line}\n" for line in tape.lines))
    spent = Spending.of(JsonlLog(path))
    assert (spent.answers, spent.prompt, spent.output_tokens) == (3, 3 * 1_205, 3 * 400)
    one = Usage(input_tokens=5, cache_read_input_tokens=1_000, cache_creation_5m=200, output_tokens=400)
    assert spent.usd == pytest.approx(3 * (one.cost(find(making.MODEL)) or 0.0))
