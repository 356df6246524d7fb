"""The register of results that a clearing could take."""

from __future__ import annotations

import pytest

from sevenfold.conversation.room import Stock
from sevenfold.conversation.transcript import Transcript
from sevenfold.record import blocks
from sevenfold.record.decisions import MicrocompactMetadata, Offloaded
from tests.support import Story, answer, call, result, transcript

KINDS = {"Read": "read", "Ask": ""}


def asked(script: Transcript, id: str, name: str, said: str = "a result of some length") -> None:
    use = blocks.read(
        b'{"type":"tool_use","id":"%b","name":"%b","input":{}}' % (id.encode(), name.encode())
    )
    script.model(answer(use, id=f"msg_{id}"))
    script.user([blocks.result(id, said)])


def held(stock: Stock) -> list[str]:
    return [one.call for one in stock.results]


@pytest.mark.spec("S2.1")
def test_it_holds_results_of_reproducible_tools_alone_in_order() -> None:
    script, stock = transcript(), Stock(KINDS)
    script.user([blocks.text("begin")])
    for id, name in (("a", "Read"), ("b", "Ask"), ("c", "Unknown"), ("d", "Read")):
        asked(script, id, name)
        stock.follow(script.view)
    assert held(stock) == ["a", "d"]
    assert stock.tool_of("b") == "Ask"
    assert stock.tool_of("x") == ""
    assert stock.answered == 7
    assert stock.results[-1].place == 8


@pytest.mark.spec("S2.4")
def test_cleared_and_replaced_results_are_no_longer_in_it() -> None:
    script, stock = transcript(), Stock(KINDS)
    script.user([blocks.text("begin")])
    for id in "abcd":
        asked(script, id, "Read")
    stock.follow(script.view)
    whole = stock.weight
    script.clear(MicrocompactMetadata(compacted_tool_ids=["a"]))
    script.decide(Offloaded(tool_use_id="b", preview="begins…", path="p", size=1, sha256=""))
    stock.follow(script.view)
    assert held(stock) == ["c", "d"]
    assert stock.weight.text < whole.text


@pytest.mark.spec("S2.4")
def test_what_grew_gives_the_same_as_what_is_read_at_once() -> None:
    script, grown = transcript(), Stock(KINDS)
    script.user([blocks.text("begin")])
    for number in range(20):
        asked(script, f"t{number}", "Read" if number % 3 else "Ask")
        if number % 4 == 0:
            grown.follow(script.view)
    grown.follow(script.view)
    fresh = Stock(KINDS)
    fresh.follow(script.view)
    assert grown.results == fresh.results
    assert grown.weight == fresh.weight


@pytest.mark.spec("S2.4")
def test_an_error_that_another_tool_wrote_as_an_answer_is_no_answer() -> None:
    story, stock = Story(), Stock(KINDS)
    story.user("begin")
    story.assistant(call("a"))
    story.user([result("a", "a result of some length")])
    story.assistant("API Error", model="<synthetic>", isApiErrorMessage=True)
    stock.follow(story.view())
    assert stock.answered == 1 < stock.results[0].place
