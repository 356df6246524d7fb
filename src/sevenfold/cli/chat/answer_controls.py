"""The commands about the model's answers: `/effort` and `/thinking`.

A change opens a new epoch, as every change of what precedes the messages does. The provider may have
to write the conversation to its cache again, so the price of that is shown before anything is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.menu import Menu, MenuItem
from sevenfold.cli.text import money, short_count
from sevenfold.conversation.controls import check_effort, control_fields, efforts_of, thinking_of
from sevenfold.errors import Refused
from sevenfold.request.watch import SECONDS

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

_THINKING = {
    "shown": "it thinks, and a summary is shown as one line that opens",
    "hidden": "it thinks unseen",
    "off": "it thinks as little as it can before it answers",
}


def effort(chat: Chat, arguments: str) -> None:
    """Show or change the effort the model puts into its answers."""
    profile = chat.agent.assembly.profile
    allowed = efforts_of(profile)
    if not allowed:
        raise Refused(f"{profile.model} takes no effort")
    chosen = arguments.lower()
    if not chosen:
        now = chat.options.effort or profile.effort
        items = (
            MenuItem(each, "", _marks(each, now=now, usual=profile.effort), value=each) for each in allowed
        )
        chosen = chat.ask(Menu(f"How much effort for {profile.model}?", tuple(items)))
        if chosen is None:
            return
    check_effort(profile, chosen)
    if chat.options.thinking is not None:
        _check(chat, chosen, chat.options.thinking)
    price = _price_of_change(chat)
    chat.switch(replace(chat.options, effort=chosen, resumed=True))
    chat.say("note", f"effort is {chosen} from now on{price}")


def thinking(chat: Chat, arguments: str) -> None:
    """Show or change whether the model thinks, and shows it."""
    profile = chat.agent.assembly.profile
    allowed = thinking_of(profile)
    if not allowed:
        raise Refused(f"{profile.model} takes no choice about thinking; /effort may do what you want")
    chosen = arguments.lower()
    if not chosen:
        now = chat.options.thinking
        items = (
            MenuItem(each, "", f"{_THINKING[each]}{' (now)' if each == now else ''}", value=each)
            for each in allowed
        )
        chosen = chat.ask(Menu(f"Should {profile.model} think?", tuple(items)))
        if chosen is None:
            return
    _check(chat, chat.options.effort, chosen)
    price = _price_of_change(chat)
    chat.switch(replace(chat.options, thinking=chosen, resumed=True))
    chat.say("note", f"thinking is {chosen} from now on{price}")


def _check(chat: Chat, chosen_effort: str | None, chosen_thinking: str) -> None:
    """Raise `InputError` if the model does not take the two together."""
    conversation = chat.agent.session.conversation
    control_fields(
        conversation.profile, chosen_effort, chosen_thinking, conversation.epoch.frame.max_tokens
    )


def _marks(each: str, *, now: str | None, usual: str | None) -> str:
    marks = [word for word, meant in (("now", now), ("the default", usual)) if each == meant]
    return f"({', '.join(marks)})" if marks else ""


def _price_of_change(chat: Chat) -> str:
    """What the change may cost with the next request; empty in a conversation that has not been sent."""
    conversation = chat.agent.session.conversation
    if not chat.agent.session.gauge.requests:
        return ""
    tokens = conversation.size().tokens
    usd = _write_usd(conversation, tokens)
    written = f"{short_count(tokens)} tokens may have to be written to the cache again"
    return f": with your next message {written}{'' if usd is None else f', {money(usd)}'}"


def price_of_first_request(chat: Chat) -> str:
    """What the first request costs after another model has taken over; empty if nothing has been said."""
    conversation = chat.agent.session.conversation
    if not chat.agent.session.gauge.requests:
        return ""
    tokens = conversation.size().tokens
    if tokens >= conversation.window.threshold:
        held = short_count(conversation.window.threshold)
        return (
            f": the conversation has {short_count(tokens)} tokens and is compacted with your next message, because it "
            f"works with up to {held}"
        )
    usd = _write_usd(conversation, tokens)
    written = f"with your next message {short_count(tokens)} tokens are written to its cache"
    return f": {written}{'' if usd is None else f', {money(usd)}'}"


def _write_usd(conversation: Conversation, tokens: int) -> float | None:
    """The price of writing this many tokens to the cache; None if it is unknown."""
    price = conversation.profile.price(tokens)
    return None if price is None else tokens * price.write(SECONDS[conversation.epoch.lifetimes.tail]) / 1e6
