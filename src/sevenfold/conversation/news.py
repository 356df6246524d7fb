"""What may be said next: whether there is anything to send, and which calls still take a result."""

from __future__ import annotations

from collections.abc import Sequence

from sevenfold.errors import InputError
from sevenfold.record.layout import Item
from sevenfold.record.view import View
from sevenfold.record.wire import Message


def must_have_news(view: View) -> None:
    """Raise if the next request would hold nothing that the model has not heard or said."""
    waiting, newest = view.pending_calls, view.newest
    if newest is None:
        raise InputError("there is nothing to send yet: say something with user() first")
    if newest.said.role == "assistant" and not _goes_on(newest):
        need = f"tool_results() for {', '.join(waiting)}" if waiting else "user()"
        raise InputError(f"the model spoke last, so there is nothing new to send: call {need} first")
    if waiting and newest.said.answers:
        raise InputError(
            f"calls still wait for results: {', '.join(waiting)}; give them with tool_results() first"
        )


def still_waiting(pending: Sequence[str], sent: Sequence[Message]) -> list[str]:
    """The calls that are open; no longer those that what is being sent says were interrupted."""
    answered = {repair.where for message in sent[-2:] for repair in message.repairs}
    return [call for call in pending if call not in answered]


def nobody_waits(call: str, waiting: Sequence[str], *, late: bool) -> InputError:
    """The error of a result that nobody waits for."""
    if late:
        return InputError(
            f"the result of {call!r} comes too late: the request under way says that the call was interrupted; if "
            "it matters, say it with user()"
        )
    return InputError(f"no call {call!r} waits for a result; those that do: {', '.join(waiting) or 'none'}")


def _goes_on(item: Item) -> bool:
    """Did the provider leave this answer open, to be sent back as it is?"""
    ending = item.shown[-1].kind
    return ending == "server_tool_use" or (ending.endswith("_tool_result") and ending != "tool_result")
