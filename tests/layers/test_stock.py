"""The register of results that a clearing could take."""

from __future__ import annotations

import pytest

from sevenfold.conversation.room import ClearableResults
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


def held(clearable: ClearableResults) -> list[str]:
    return [one.call for one in clearable.results]


@pytest.mark.spec("S2.1")
def test_it_holds_results_of_reproducible_tools_alone_in_order() -> None:
    script, clearable = transcript(), ClearableResults(KINDS)
    script.user([blocks.text("begin")])
    for id, name in (("a", "Read"), ("b", "Ask"), ("c", "Unknown"), ("d", "Read")):
        asked(script, id, name)
        clearable.follow(script.view)
    assert held(clearable) == ["a", "d"]
    assert clearable.tool_of("b") == "Ask"
    assert clearable.tool_of("x") == ""
    assert clearable.answered == 7
    assert clearable.results[-1].place == 8


@pytest.mark.spec("S2.4")
def test_cleared_and_replaced_results_are_no_longer_in_it() -> None:
    script, clearable = transcript(), ClearableResults(KINDS)
    script.user([blocks.text("begin")])
    for id in "abcd":
        asked(script, id, "Read")
    clearable.follow(script.view)
    whole = clearable.weight
    script.clear(MicrocompactMetadata(compacted_tool_ids=["a"]))
    script.decide(Offloaded(tool_use_id="b", preview="begins…", path="p", size=1, sha256=""))
    clearable.follow(script.view)
    assert held(clearable) == ["c", "d"]
    assert clearable.weight.text < whole.text


@pytest.mark.spec("S2.4")
def test_what_grew_gives_the_same_as_what_is_read_at_once() -> None:
    script, grown = transcript(), ClearableResults(KINDS)
    script.user([blocks.text("begin")])
    for number in range(20):
        asked(script, f"t{number}", "Read" if number % 3 else "Ask")
        if number % 4 == 0:
            grown.follow(script.view)
    grown.follow(script.view)
    fresh = ClearableResults(KINDS)
    fresh.follow(script.view)
    assert grown.results == fresh.results
    assert grown.weight == fresh.weight


@pytest.mark.spec("S2.4")
def test_an_error_that_another_tool_wrote_as_an_answer_is_no_answer() -> None:
    story, clearable = Story(), ClearableResults(KINDS)
    story.user("begin")
    story.assistant(call("a"))
    story.user([result("a", "a result of some length")])
    story.assistant("API Error", model="<synthetic>", isApiErrorMessage=True)
    clearable.follow(story.view())
    assert clearable.answered == 1 < clearable.results[0].place
