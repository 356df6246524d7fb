"""Every error Sevenfold raises on purpose.

    SevenfoldError
    ├── UserError                 the caller can fix it: show the text, do not retry
    │   ├── SettingError          a setting has a wrong value; the text names the key and its source
    │   ├── InputError            a message, block or id cannot be accepted; nothing was stored
    │   ├── ContextFull           the next request would not fit; the text names what can be done
    │   ├── Refused               what was asked for cannot be done now; the text says why and what can
    │   └── TranscriptError       a transcript cannot be opened or written
    │       ├── TranscriptMissing     there is no such file
    │       ├── TranscriptForeign     the file is not a transcript in any format known here
    │       ├── TranscriptDenied      the system refuses access
    │       ├── TranscriptLocked      another process is writing it
    │       ├── TranscriptOvertaken   another process took over as its writer: open it again
    │       ├── TranscriptTooNew      a newer Sevenfold wrote it: it opens read-only
    │       ├── TranscriptFull        the disk would not take the record; what was there is intact
    │       └── ResultMissing         there is no stored result under that reference
    └── ModelError                a model did not answer as asked; carries what it had already said
        ├── PromptTooLong             the prompt is over the window: shorten it by the stated gap, ask again
        ├── BodyTooLarge              the request has too many bytes: take media out, ask again
        ├── RateLimited               wait as long as it says, ask again
        ├── Overloaded                the provider is busy: ask again later
        ├── ProviderFailed            the provider broke: ask again
        ├── BoundThinking             reasoning no longer fits what precedes it: drop it, ask again
        ├── RequestRefused            the request itself is wrong: do not repeat it
        ├── NotAuthenticated          the key is missing or wrong: tell the user
        ├── ModelNotServed            the provider has no such model: tell the user
        ├── Unreachable               nobody answers at that address: tell the user
        └── Aborted                   the caller stopped it: nothing went wrong

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


class SettingIgnored(UserWarning):
    """A value in a settings file or in the environment cannot be used, so it is ignored."""


class InputError(UserError):
    """The input cannot be accepted; nothing was stored."""


class ContextFull(UserError):
    """The conversation does not fit the window any more."""


class Refused(UserError):
    """That cannot be done now."""


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


class TranscriptOvertaken(TranscriptError):
    """Another process took over as the writer of this transcript."""


class TranscriptTooNew(TranscriptError):
    """A newer Sevenfold wrote this transcript: it can be read, not continued."""


class TranscriptFull(TranscriptError):
    """The disk would not take the record; everything written before is intact."""


class ResultMissing(TranscriptError):
    """There is no stored result under that reference."""


class ModelError(SevenfoldError):
    """The model did not answer."""

    retryable = False
    """Whether the same request may succeed later."""

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        code: str = "",
        request_id: str = "",
        partial: object = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        """The provider's own name for it, where it gives one."""
        self.request_id = request_id
        self.partial = partial
        """What the model had said before it broke off, a `sevenfold.record.log.Answer`; None if nothing."""


class PromptTooLong(ModelError):
    """The prompt does not fit the model's window."""

    used: int | None = None
    """Tokens of the prompt, where the provider said so."""
    limit: int | None = None
    """Tokens the provider takes."""

    @property
    def gap(self) -> int | None:
        """How many tokens too many."""
        return None if self.used is None or self.limit is None else self.used - self.limit


class BodyTooLarge(ModelError):
    """The request has more bytes than the provider takes."""


class RateLimited(ModelError):
    """The provider accepts no more requests for now."""

    retryable = True
    retry_after: float | None = None
    """Seconds, where the provider said so; without it a spending cap is likely, and waiting is no help."""


class Overloaded(ModelError):
    """The provider is overloaded."""

    retryable = True


class ProviderFailed(ModelError):
    """The provider failed."""

    retryable = True


class BoundThinking(ModelError):
    """Reasoning, or a summary of the provider's, is bound to something else than what it was sent with."""


class RequestRefused(ModelError):
    """The provider refuses the request as it is."""


class NotAuthenticated(ModelError):
    """The provider does not accept the key."""


class ModelNotServed(ModelError):
    """The provider has no model of that name."""


class Unreachable(ModelError):
    """No server answers at the provider's address."""

    retryable = True


class Aborted(ModelError):
    """The call was stopped."""
