"""Every error Sevenfold raises on purpose.

    SevenfoldError
    ├── UserError                 the caller can fix it: show the text, do not retry
    │   ├── SettingError          a setting has a wrong value; the text names the key and its source
    │   ├── InputError            a message, block or id cannot be accepted; nothing was stored
    │   ├── ContextFull           the next request would not fit; the text says what can be done
    │   ├── Refused               the operation is not possible now; the text says why and what is
    │   ├── JobFailed             a job failed or was cancelled; the text says why
    │   └── TranscriptError       a transcript cannot be opened or written
    │       ├── TranscriptMissing     there is no such file
    │       ├── TranscriptForeign     the file is not a transcript in a known format
    │       ├── TranscriptDenied      the system refuses access
    │       ├── TranscriptLocked      another process is writing it
    │       ├── TranscriptOvertaken   another process took over as its writer: open it again
    │       ├── TranscriptLost        the store lost records it had acknowledged: open it again, what is left is there
    │       ├── TranscriptTooNew      a newer Sevenfold wrote it: it opens read-only
    │       ├── TranscriptFull        no room on disk for the record; everything written before is intact
    │       └── ResultMissing         there is no stored result under that reference
    └── ModelError                a model did not answer as asked; carries the partial answer
        ├── PromptTooLong             the prompt exceeds the window: shorten it by the stated gap, retry
        ├── BodyTooLarge              the request has too many bytes: remove media, retry
        ├── RateLimited               wait as long as it says, retry
        ├── Overloaded                the provider is busy: retry later
        ├── ProviderFailed            the provider had an error: retry
        │   └── Stalled               the connection is alive, but no content comes: retry
        ├── BoundThinking             reasoning no longer fits what precedes it: drop it, retry
        ├── RequestRefused            the request itself is wrong: do not retry
        │   └── ThreadLost            the provider does not hold the conversation: send all of it, retry
        ├── NotAuthenticated          the key is missing or wrong: tell the user
        ├── NotPermitted              the key is right, but may not do this, or the account cannot pay: tell the user
        ├── ModelNotServed            the provider has no such model: tell the user
        ├── Unreachable               no server answers at that address: tell the user
        └── Aborted                   the caller stopped it: nothing went wrong

Each class docstring is the message shown to users if none is given.
"""

from __future__ import annotations

from typing import Literal

Network = Literal["", "name", "refused", "reset", "secure", "silent", "proxy", "connect"]
"""What failed on the way to a server: its name is not known, it refused the connection, the connection broke off, no
secure connection came about, nothing arrived for too long, the proxy failed, or no connection came about."""


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


class JobFailed(UserError):
    """The job did not succeed."""


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

    holder = ""
    """Which process that is, in words; empty if that is not known."""


class TranscriptOvertaken(TranscriptError):
    """Another process took over as the writer of this transcript."""


class TranscriptLost(TranscriptError):
    """The store lost records that it had acknowledged."""


class TranscriptTooNew(TranscriptError):
    """A newer Sevenfold wrote this transcript: it can be read, not continued."""


class TranscriptFull(TranscriptError):
    """The disk would not take the record; everything written before is intact."""


class ResultMissing(TranscriptError):
    """There is no stored result under that reference."""


class ModelError(SevenfoldError):
    """The model did not answer."""

    retryable = False
    """Whether the same request may succeed later; a server may overrule this for a single error."""
    retry_after: float | None = None
    """Seconds to wait before a retry, if the provider said so."""
    network: Network = ""
    """What failed on the way to the provider; empty if the provider itself refused or failed."""

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
        """The provider's own error code, if it gives one."""
        self.request_id = request_id
        self.partial = partial
        """The answer up to the failure, a `sevenfold.record.log.Answer`; None if there was none."""


class PromptTooLong(ModelError):
    """The prompt does not fit the model's window."""

    used: int | None = None
    """Tokens of the prompt, if the provider said so."""
    limit: int | None = None
    """Tokens the provider accepts, if it said so."""

    @property
    def gap(self) -> int | None:
        """How many tokens the prompt is over the limit; None if not known."""
        return None if self.used is None or self.limit is None else self.used - self.limit


class BodyTooLarge(ModelError):
    """The request has more bytes than the provider takes."""


class RateLimited(ModelError):
    """The provider accepts no more requests for now."""

    retryable = True


class Overloaded(ModelError):
    """The provider is overloaded."""

    retryable = True


class ProviderFailed(ModelError):
    """The provider failed."""

    retryable = True


class Stalled(ProviderFailed):
    """The answer stopped growing, although the connection is alive."""

    network = "silent"


class BoundThinking(ModelError):
    """Reasoning, or a summary of the provider's, is bound to something else than what it was sent with."""


class RequestRefused(ModelError):
    """The provider refuses the request as it is."""


class ThreadLost(RequestRefused):
    """The provider does not hold the conversation that the request continues."""

    UNSUPPORTED = "thread_unsupported_request"

    @property
    def unsupported(self) -> bool:
        """Whether it would hold no other either."""
        return self.code == self.UNSUPPORTED


class NotAuthenticated(ModelError):
    """The provider does not accept the key."""


class NotPermitted(ModelError):
    """The provider knows the key, but refuses this request to its account."""


class ModelNotServed(ModelError):
    """The provider has no model of that name."""


class Unreachable(ModelError):
    """No server answers at the provider's address."""

    retryable = True


class Aborted(ModelError):
    """The call was stopped."""
