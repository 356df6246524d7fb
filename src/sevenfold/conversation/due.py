"""A request that is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sevenfold.conversation.exchange import Prepared
from sevenfold.errors import InputError
from sevenfold.record.decisions import Why

if TYPE_CHECKING:
    from sevenfold.conversation.session import Session


class Turn:
    """A request that is due. It is put together, and written down, when somebody looks at it."""

    def __init__(self, session: Session, why: Why) -> None:
        self._session = session
        self._tip = session.transcript.view.tip
        self._prepared: Prepared | None = None
        self.why = why

    @property
    def prepared(self) -> Prepared:
        """The request, on record."""
        if self._prepared is None:
            if self._session.transcript.view.tip != self._tip:
                raise InputError(
                    "the conversation went on since this request was prepared; prepare another one"
                )
            self._prepared = self._session.materialise(self)
        return self._prepared
