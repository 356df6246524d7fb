"""Every error Sevenfold raises on purpose.

    SevenfoldError
    ├── UserError                 the caller can mend it: show the text, do not retry
    │   ├── SettingError          a setting has a wrong value; the text names the key and its source
    │   ├── InputError            a message, block or id cannot be accepted; nothing was stored
    │   ├── UnknownModelError     no profile and no default fits that name
    │   └── TranscriptError       a transcript cannot be opened or written
    │       ├── TranscriptMissing     there is no such file
    │       ├── TranscriptForeign     the file is not a transcript in any format known here
    │       ├── TranscriptDenied      the system refuses access
    │       ├── TranscriptLocked      another process is writing it
    │       ├── TranscriptTooNew      a newer Sevenfold wrote it: it opens read-only
    │       └── TranscriptFull        the disk would not take the record; what was there is intact
    └── (provider errors live in `sevenfold.ports`, beside the clients' port)

Each class docstring is the sentence shown when no better text is given.
"""

from __future__ import annotations


class SevenfoldError(Exception):
    """Something in Sevenfold failed."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class UserError(SevenfoldError):
    """The request cannot be carried out as it was given."""


class SettingError(UserError):
    """A setting has a value that cannot be used."""


class InputError(UserError):
    """The input cannot be accepted; nothing was stored."""


class UnknownModelError(UserError):
    """There is no profile for this model."""


class TranscriptError(UserError):
    """The transcript cannot be opened or written."""


class TranscriptMissing(TranscriptError):
    """There is no transcript there."""


class TranscriptForeign(TranscriptError):
    """The file is not a transcript in a known format."""


class TranscriptDenied(TranscriptError):
    """The system refuses access to the transcript."""


class TranscriptLocked(TranscriptError):
    """Another process is writing this transcript."""


class TranscriptTooNew(TranscriptError):
    """A newer Sevenfold wrote this transcript: it can be read, not continued."""


class TranscriptFull(TranscriptError):
    """The disk would not take the record; everything written before is intact."""
