"""The answer of the Responses API to a request for a summary: one item that only the provider can read.

It comes in one piece, behind copies of the user's messages, which are ours anyway. The item is kept byte for byte,
as a compaction block.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from sevenfold.ports import Piece, Reply
from sevenfold.providers.failures import Garbled
from sevenfold.providers.openai.responses_stream import Counted
from sevenfold.providers.partial_block import decoded
from sevenfold.record import blocks
from sevenfold.record.blocks import minify
from sevenfold.record.log import Answer


class _Compacted(Struct, frozen=True):
    id: str = ""
    output: list[Raw] = []
    usage: Counted | None = None


_compacted = msgspec.json.Decoder(_Compacted)


class CompactionReader:
    """Reads the provider's summary; ``model`` is who was asked, ``seed`` names an answer without a name."""

    def __init__(self, model: str, seed: Callable[[], str]) -> None:
        self._model = model
        self._seed = seed
        self._came: _Compacted | None = None

    @property
    def whole(self) -> bool:
        """The answer is there."""
        return self._came is not None

    def event(self, data: bytes) -> list[Piece]:
        """Refuse events: this answer has none."""
        raise Garbled("a summary came as a stream")

    def body(self, raw: bytes) -> list[Piece]:
        """Take the answer."""
        self._came = decoded(_compacted, raw)
        return []

    def reply(self, request_id: str | None) -> Reply:
        """The item, if there is one, and what it cost."""
        came = self._came or _Compacted()
        items = [blocks.read(minify(bytes(item))) for item in came.output]
        made = tuple(item for item in items if blocks.opaque(item))
        return Reply(
            Answer(
                id=came.id or f"resp_{self._seed()}",
                model=self._model,
                blocks=made[-1:],
                usage=(came.usage or Counted()).usage(),
                stop_reason="compaction" if made else "end_turn",
                request_id=request_id,
            )
        )

    def partial(self, request_id: str | None) -> Answer | None:
        """Nothing: half an item is none."""
        return None
