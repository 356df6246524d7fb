"""The gate: masks secrets before anything is written or sent, if the setting ``redaction`` asks for it.

Requests are folded from the log, so a secret that is in no record is in no request either. Every record of any kind
passes the gate when it is appended. So do frames, the messages a fork adds, and content kept in files: stored
results, notes, agent state and the output of commands. The model's own content stays unchanged in records and
requests, since providers check it; it is masked wherever it is copied to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from sevenfold.events import Masked
from sevenfold.record import entries, redact
from sevenfold.record.blocks import Block
from sevenfold.record.known_secrets import MAX_VALUES, KnownSecrets
from sevenfold.record.log import Written
from sevenfold.record.redact import MaskedBlocks, MaskedJson, MaskedStream, Redacted
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.options import Services
    from sevenfold.ports import StoredText
    from sevenfold.request.frame import Frame

Found = TypeVar("Found", Redacted, MaskedJson, MaskedBlocks)
_log = logging.getLogger(__name__)


class Gate:
    """Masks secrets and calls ``tell`` with its findings. Masking masked content again changes nothing."""

    def __init__(self, tell: Callable[[Masked], None] | None = None, known: Iterable[str] = ()) -> None:
        self.known = KnownSecrets.of(known)
        if self.known.left_out:
            _warn_of_left_out(self.known.left_out)
        self._tell = tell

    @classmethod
    def of(
        cls, settings: Settings, tell: Callable[[Masked], None] | None = None, known: Iterable[str] = ()
    ) -> Gate | None:
        """The gate these settings ask for; None if nothing is masked.

        ``known`` are secret values; they are masked in any encoding.
        """
        return cls(tell, known) if settings.redaction == "gate" else None

    def text(self, text: str) -> str:
        """The text with its secrets masked."""
        return self._reported(redact.mask(text, self.known)).text

    def content(self, raw: bytes) -> bytes:
        """The content of a file with its secrets masked."""
        return redact.mask_bytes(raw, self.known)

    def stream(self) -> MaskedStream:
        """A stream that masks output as it arrives."""
        return MaskedStream(self.known)

    def json(self, raw: bytes) -> bytes:
        """The JSON with the secrets in its strings masked."""
        return self._reported(redact.mask_json(raw, self.known)).raw

    def blocks(self, content: Sequence[Block]) -> list[Block]:
        """The content blocks with their secrets masked."""
        return self._reported(redact.mask_blocks(content, self.known)).blocks

    def record(self, written: Written) -> Written:
        """The record with its secrets masked, parsed again from its masked line."""
        line = self.json(written.line)
        return written if line is written.line else Written(line.rstrip() + b"\n", entries.read(line))

    def frame(self, frame: Frame) -> Frame:
        """The frame with its secrets masked."""
        return replace(
            frame,
            system=tuple(map(self.json, frame.system)),
            tools=tuple(map(self.json, frame.tools)),
            settings=tuple((name, self.json(raw)) for name, raw in frame.settings),
            sections=tuple((name, redact.mask(text, self.known).text) for name, text in frame.sections),
        )

    def services(self, services: Services) -> Services:
        """The services with this gate in front of the files they read and the notes they write."""
        read = services.read_file
        notes = services.notes
        return replace(
            services,
            read_file=(lambda path: self.text(read(path))) if read else None,
            notes=GatedText(notes, self) if notes else None,
        )

    def _reported(self, masked: Found) -> Found:
        if masked.findings and self._tell is not None:
            kinds = tuple(sorted({finding.kind for finding in masked.findings}))
            self._tell(Masked(kinds=kinds, count=len(masked.findings)))
        return masked


class GatedText:
    """A stored text that is masked when it is written; see `sevenfold.ports.StoredText`."""

    def __init__(self, text: StoredText, gate: Gate) -> None:
        self._kept = text
        self._gate = gate
        self.path = text.path

    def read(self) -> str | None:
        """The text, or None if there is none yet."""
        return self._kept.read()

    def write(self, text: str) -> None:
        """Mask the text, then replace the stored one with it."""
        self._kept.write(self._gate.text(text))


@cache
def _warn_of_left_out(left_out: int) -> None:
    """Warn once: a process may open many gates with the same values."""
    _log.warning(
        "%d secret values from the environment and .env files are not masked: only the %d most random ones are; "
        "remove variables with secret names that this program does not need",
        left_out,
        MAX_VALUES,
    )
