"""Rules by which a provider drops cached messages that are sent again as they were."""

from __future__ import annotations

import pytest

from sevenfold.profiles import find
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, encode_json
from sevenfold.record.wire import Message
from sevenfold.request.cache_rules import first_loss

MODEL = find("claude-sonnet-5-5")
PICTURE = blocks.read(
    encode_json({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}})
)


def document(*, cited: bool) -> Block:
    source = {"type": "text", "media_type": "text/plain", "data": "The harbour closes at eight."}
    return blocks.read(encode_json({"type": "document", "source": source, "citations": {"enabled": cited}}))


def user(*parts: Block) -> Message:
    return Message("user", parts, b"")


def answer() -> Message:
    return Message("assistant", (blocks.text("yes"),), b"")


HELLO = user(blocks.text("hello"))
SHOWN = user(PICTURE, blocks.text("what is on it?"))
CITED = user(document(cited=True), blocks.text("when does it close?"))


@pytest.mark.spec("S21.24")
@pytest.mark.parametrize(
    ("before", "now", "part"),
    [
        ([HELLO], [HELLO, answer(), SHOWN], "the first image"),
        ([SHOWN, answer(), HELLO], [HELLO], "the last image is gone"),
        ([SHOWN], [SHOWN, answer(), SHOWN], ""),
        ([SHOWN, answer(), SHOWN], [SHOWN], ""),
        ([HELLO], [HELLO, answer(), CITED], "the first document with citations"),
        ([CITED, answer(), HELLO], [HELLO], "the last document with citations is gone"),
        ([CITED], [CITED, answer(), CITED], ""),
        ([HELLO], [HELLO, answer(), user(document(cited=False))], ""),
        ([HELLO], [HELLO, answer(), HELLO], ""),
        ([], [SHOWN], "the first image"),
    ],
)
def test_the_first_picture_or_citation_and_the_loss_of_the_last_break_the_cache(
    before: list[Message], now: list[Message], part: str
) -> None:
    loss = first_loss(before, now, MODEL)
    assert (loss.part if loss else "") == part


@pytest.mark.spec("S21.24")
def test_a_picture_leaves_the_system_prompt_in_the_cache_and_a_citation_does_not() -> None:
    picture = first_loss([HELLO], [HELLO, answer(), SHOWN], MODEL)
    cited = first_loss([HELLO], [HELLO, answer(), CITED], MODEL)
    assert picture is not None
    assert cited is not None
    assert (picture.cause, picture.keeps_system) == ("image", True)
    assert (cited.cause, cited.keeps_system) == ("citations", False)


@pytest.mark.spec("S21.24")
def test_a_picture_in_a_result_is_a_picture() -> None:
    content = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]
    result = blocks.read(encode_json({"type": "tool_result", "tool_use_id": "t1", "content": content}))
    loss = first_loss([HELLO], [HELLO, answer(), user(result)], MODEL)
    assert loss is not None
    assert loss.part == "the first image"
