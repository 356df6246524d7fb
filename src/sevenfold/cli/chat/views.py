"""Commands that only look."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from sevenfold.cli.chat import pages, window
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.ledger import Ledger
from sevenfold.cli.chat.markdown import rendered
from sevenfold.cli.config import entry
from sevenfold.conversation import history
from sevenfold.errors import InputError
from sevenfold.settings import by_name, described, unknown
from sevenfold.stores.home import user_home
from sevenfold.stores.settings_files import load


def context(chat: Chat, rest: str) -> None:
    """What fills the window."""
    held = window.contents(chat.agent.session.core)
    chat.screen.show(window.picture(held, chat.screen.signs, chat.screen.width))


def cost(chat: Chat, rest: str) -> None:
    """What the session has cost."""
    whole = Ledger.of(chat.agent.session.core.transcript.log)
    chat.screen.show(pages.cost_page(whole, chat.ledger, chat.agent.session.gauge))
    _say_who_is_paid(chat)


def _say_who_is_paid(chat: Chat) -> None:
    if chat.start.offline:
        model = chat.start.model
        chat.say(
            "note", f"nothing is paid: the offline model answers. Other amounts are what {model} would cost"
        )


def cache(chat: Chat, rest: str) -> None:
    """What the cache gave."""
    # Here, because reading foreign formats is nothing a chat begins with.
    from sevenfold.lab.profile.files import profile_file

    whole = Ledger.of(chat.agent.session.core.transcript.log)
    figures, _ = profile_file(user_home().project(chat.start.folder).transcript(chat.start.name))
    chat.screen.show(pages.cache_page(whole, chat.ledger, figures.cache_breaks))


def why(chat: Chat, rest: str) -> None:
    """Why a request was what it was: one by its number, or the conversation's last."""
    session = chat.agent.session
    main = (one.number for one in history.requests(session.core.transcript.log) if one.source == "main")
    chat.screen.show(pages.why_page(session.why(number(rest) if rest else next(main, -1))))
    _say_who_is_paid(chat)


def recall(chat: Chat, rest: str) -> None:
    """Search everything that was said."""
    if not rest:
        raise InputError("say what to look for: /recall QUERY")
    chat.screen.show(pages.recall_page(chat.agent.session.recall(rest, most=5)))


def notes(chat: Chat, rest: str) -> None:
    """The running notes."""
    text = chat.agent.session.notes()
    chat.screen.show(
        rendered(text) if text else Text("There are no notes of this session yet.", style="dim")
    )


def hooks(chat: Chat, rest: str) -> None:
    """What runs at which moment."""
    held = chat.agent.assembly.options.get("hooks")
    chat.screen.show(pages.hooks_page(held.hooks if held else (), held.skipped if held else ()))


def mcp(chat: Chat, rest: str) -> None:
    """How MCP servers are doing; with a name, that one is started anew."""
    from sevenfold.cli.mcp_page import mcp_page

    servers = chat.agent.assembly.servers
    if servers is not None and rest:
        servers.restart(rest)
    chat.screen.show(mcp_page(servers.states() if servers else (), servers.problems if servers else ()))


def config(chat: Chat, rest: str) -> None:
    """Settings that are not at their default, or one in full."""
    if rest and rest not in by_name():
        raise unknown(rest, "/config")
    resolved = load(chat.start.folder)
    chosen = [by_name()[rest]] if rest else list(described())
    shown = [entry(resolved, one, in_full=bool(rest)) for one in chosen]
    remarks = [Text(note, style="yellow") for note in resolved.notes]
    chat.screen.show(Group(*shown, *remarks))


def show(chat: Chat, rest: str) -> None:
    """What is behind a line."""
    chat.screen.show(chat.folds.open(number(rest) if rest else None))


def number(text: str) -> int:
    """A whole number; brackets around it are fine."""
    try:
        return int(text.strip("[] "))
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None
