"""The way of a tool result into the session: masked if that is asked for, never empty, and offloaded if too big."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from sevenfold.errors import TranscriptError, TranscriptFull
from sevenfold.events import Acted, Proposed, SteppedAside
from sevenfold.layers import offload
from sevenfold.layers.offload import Whole
from sevenfold.ports import Results
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Keep, Offload
from sevenfold.record.entries import Stored
from sevenfold.runtime.announce import Announcer
from sevenfold.runtime.transcript import Transcript
from sevenfold.settings import Settings

CHARACTERS_PER_TOKEN = 3
"""To tell about how much an offload saves; the gauge knows better once it is in view."""


class Unstored(Struct, frozen=True):
    """A result that should have gone to disk and could not."""

    block: Block
    shown: Block


class Gate:
    """Lets results into the transcript."""

    def __init__(
        self, transcript: Transcript, results: Results, announcer: Announcer, kinds: Mapping[str, str]
    ) -> None:
        self._transcript = transcript
        self._results = results
        self._announcer = announcer
        self._reader = offload.reader_of(kinds)

    def admit(
        self, given: Sequence[Block], tool_of: Callable[[str], str], settings: Settings, *, key: str = ""
    ) -> str:
        """Record results as they will be sent; returns the record's id."""
        shown: list[Block] = []
        stored: dict[str, Stored] = {}
        failed: list[Unstored] = []
        for block in given:
            if offload.nothing(block):
                block = offload.filled(block)
            limit = settings.offload_limit(tool_of(block.id)) if settings.offload else None
            found = offload.whole(block) if limit is not None and len(block.raw) > limit else None
            if limit is None or found is None or len(found.text) <= limit:
                shown.append(block)
                continue
            why = f"a result of {tool_of(block.id) or 'a tool'} may have {limit:,} characters"
            try:
                preview = self._moved(block, found, why, stored, settings)
            except TranscriptError as error:
                failed.append(Unstored(block, offload.truncated(block, found, limit, str(error))))
                self._announcer.tell(
                    SteppedAside(layer="offload", reason=str(error), error=type(error).__name__)
                )
                preview = block
            shown.append(preview)
        return self._record(shown, stored, failed, key)

    def _moved(
        self, block: Block, found: Whole, why: str, stored: dict[str, Stored], settings: Settings
    ) -> Block:
        """The result's preview, once the whole is on disk; the result itself if a listener refuses."""
        saved = (len(found.text) - settings.preview_bytes) // CHARACTERS_PER_TOKEN
        what = f"offload a result of {len(found.text):,} characters"
        proposed = Proposed(
            layer="offload",
            mechanism="store",
            what=what,
            why=why,
            items=1,
            tokens=saved,
            targets=(block.id,),
        )
        if not self._announcer.may(proposed):
            return block
        place = self._keep(block.id, found)
        stored[block.id] = place
        self._tell(what, why, found, settings, place.path)
        return offload.stored(block, found, place.path, self._reader, settings)

    def share(self, unsent: Sequence[Block], settings: Settings) -> None:
        """Results that are too much together: the largest leave, and all are decided about for good."""
        if not settings.offload or sum(len(block.raw) for block in unsent) <= settings.round_characters:
            return
        why = f"results in one message may have {settings.round_characters:,} characters together"
        leaving = offload.too_much_together(unsent, settings)
        gone: set[str] = set()
        for block in leaving:
            found = offload.whole(block)
            what = f"offload a result of {len(found.text):,} characters"
            proposed = Proposed(
                layer="offload", mechanism="share", what=what, why=why, items=1, targets=(block.id,)
            )
            if not self._announcer.may(proposed):
                continue
            try:
                place = self._keep(block.id, found)
            except TranscriptError as error:
                self._announcer.tell(
                    SteppedAside(layer="offload", reason=str(error), error=type(error).__name__)
                )
                continue
            preview = offload.stored(block, found, place.path, self._reader, settings)
            self._decide(block.id, preview, place)
            gone.add(block.id)
            self._tell(what, why, found, settings, place.path)
        if gone:
            left = [block.id for block in unsent if block.id not in gone]
            self._transcript.decide(Keep(tool_use_ids=left))

    def _record(
        self, shown: list[Block], stored: dict[str, Stored], failed: Sequence[Unstored], key: str
    ) -> str:
        try:
            uuid = self._transcript.user(shown, key=key, stored=stored)
        except TranscriptFull:
            if not failed:
                raise
            # The disk took neither the file nor the record: what fits of the result is still worth having.
            cut = {one.block.id: one.shown for one in failed}
            return self._transcript.user(
                [cut.get(block.id, block) for block in shown], key=key, stored=stored
            )
        for one in failed:
            found = offload.whole(one.block)
            self._decide(one.block.id, one.shown, Stored("", len(found.text.encode()), _digest(found)))
        return uuid

    def _keep(self, call: str, found: Whole) -> Stored:
        content = found.text.encode(errors="surrogatepass")
        path = self._results.keep(call + found.name_ending, content)
        return Stored(path, len(content), hashlib.sha256(content).hexdigest())

    def _decide(self, call: str, shown: Block, place: Stored) -> None:
        self._transcript.decide(
            Offload(
                tool_use_id=call,
                preview=offload.words(shown),
                path=place.path,
                size=place.size,
                sha256=place.sha256,
            )
        )

    def _tell(self, what: str, why: str, found: Whole, settings: Settings, path: str) -> None:
        before = len(found.text) // CHARACTERS_PER_TOKEN
        after = min(len(found.text), settings.preview_bytes) // CHARACTERS_PER_TOKEN
        self._announcer.tell(
            Acted(
                layer="offload",
                mechanism="store",
                what=what,
                why=why,
                items=1,
                tokens_before=before,
                tokens_after=after,
                reference=path,
                undoable=False,
            )
        )


def _digest(found: Whole) -> str:
    return hashlib.sha256(found.text.encode(errors="surrogatepass")).hexdigest()
