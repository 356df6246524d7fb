"""Finding messages and results by key, call or reference: first in view, then in the whole log if necessary."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from sevenfold.conversation import history
from sevenfold.conversation.results import same
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import ResultMissing
from sevenfold.ports import Results
from sevenfold.record import blocks
from sevenfold.record.blocks import Block, ToolResult
from sevenfold.record.decisions import Offloaded, Purged, ShownResult
from sevenfold.record.entries import Clearing, Stored


class Finder:
    """Looks up messages and results of a session."""

    def __init__(self, transcript: Transcript, results: Results) -> None:
        self._transcript = transcript
        self._results = results

    def keyed(self, key: str) -> str:
        """The id of the live branch's message with this key; empty if there is none."""
        for item in reversed(self._transcript.view.items):
            if item.record.key == key:
                return item.record.uuid
        if self._transcript.view.boundary is None or not self._transcript.log.keyed(key):
            return ""
        messages = (item.record for item in reversed(history.whole(self._transcript.log).items))
        return next((record.uuid for record in messages if record.key == key), "")

    def answered(self, call: str) -> bool:
        """Whether this call has a result, in view or before a compaction."""
        if any(call in item.record.answers for item in self._transcript.view.items):
            return True
        compacted = self._transcript.view.boundary is not None
        return compacted and self._transcript.log.result(call) is not None

    def result(self, call: str) -> Block | None:
        """The result of a call as recorded; None if there is none."""
        for item in self._transcript.view.items:
            if call in item.record.answers:
                return next(block for block in item.record.blocks if block.id == call)
        return self._transcript.log.result(call)

    def same_result(self, block: Block) -> bool:
        """Whether this equals the session's result for the same call; also True if the session has none."""
        recorded = self.result(block.id)
        stored = self._transcript.log.stored(block.id) if recorded is not None else None
        return recorded is None or same(recorded, block, stored)

    def fetch(self, reference: str) -> bytes:
        """The full content of an offloaded or cleared result, by call, path or decision; raises `ResultMissing`."""
        stored = self._stored(reference)
        if isinstance(stored, Stored) and stored.path:
            return self.whole(stored)
        block = self.result(stored if isinstance(stored, str) else reference)
        if block is None:
            raise ResultMissing(f"there is no result for {reference!r} in this session")
        body = block.body()
        content = body.content if isinstance(body, ToolResult) else None
        if isinstance(content, list):
            only_texts = all(blocks.read(bytes(raw)).kind == "text" for raw in content)
            return blocks.words_of(block).encode() if only_texts else msgspec.json.encode(content)
        return (content or "").encode()

    def whole(self, stored: Stored) -> bytes:
        """The content of a stored result; raises `sevenfold.errors.ResultMissing` if it was changed since."""
        content = self._results.fetch(stored.path)
        digest = hashlib.sha256(content).hexdigest()
        purged = (digest in purge.results.values() for _, purge in self._transcript.log.decisions(Purged))
        if digest != stored.sha256 and not any(purged):
            raise ResultMissing(
                f"{stored.path!r}: it was changed since it was stored, so it is not what the tool returned; "
                "make the call again"
            )
        return content

    def _stored(self, reference: str) -> Stored | str | None:
        """Where the full content of a result is: its place on disk, or the call it answers; None if unknown."""
        decisions = self._transcript.view.decisions()
        shown_by_layers = {
            candidate.tool_use_id for candidate in decisions if isinstance(candidate, ShownResult)
        }
        for candidate in decisions:
            match candidate:
                case ShownResult(id=decision, tool_use_id=call) if decision == reference:
                    return self._stored(call) or call
                case Offloaded(tool_use_id=call) if reference == call and call in shown_by_layers:
                    # This one has what the layer showed; the record has the tool's own result.
                    continue
                case Offloaded():
                    stored = Stored(candidate.path, candidate.size, candidate.sha256)
                    if reference in (candidate.id, candidate.tool_use_id) or (
                        candidate.path and stored.is_at(reference)
                    ):
                        return stored if candidate.path else candidate.tool_use_id
                case Clearing(uuid=uuid, about=about) if uuid == reference:
                    return self._cleared(uuid, about.compacted_tool_ids)
        for item in self._transcript.view.items:
            for call, stored in item.record.stored.items():
                if reference == call or stored.is_at(reference):
                    return stored
        return self._transcript.log.stored(reference)

    def _cleared(self, clearing: str, calls: Sequence[str]) -> Stored | str | None:
        if len(calls) == 1:
            return self._stored(calls[0]) or calls[0]
        raise ResultMissing(
            f"{clearing} cleared {len(calls)} results: fetch one of them by its call ({', '.join(calls)})"
        )
