"""How a chat starts: it chooses a session and a model, asks whether the folder is trusted, and opens the agent.

A chat can switch to any model in the table of profiles, and to those a server lists.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text

from sevenfold.agent.agent import Agent
from sevenfold.agent.hooks.registry import Hooks
from sevenfold.agent.hooks.settings import load
from sevenfold.agent.mcp.config import PROJECT_FILE, USER_FILE
from sevenfold.agent.permissions.engine import Mode
from sevenfold.archive.copying import copy_session
from sevenfold.archive.stores import SessionInStore, check_url, copy_of
from sevenfold.cli.chat.claude_flags import (
    ScriptSettings,
    existing_folder,
    read_agents,
    read_servers,
    read_settings,
)
from sevenfold.cli.chat.history import (
    LOOKED_AT,
    KeptSession,
    chat_sessions,
    find_session,
    new_name,
    sessions,
    title,
)
from sevenfold.cli.chat.kept_rules import kept_rules
from sevenfold.cli.chat.menu import Menu, MenuItem
from sevenfold.cli.text import clean, one_line, short_count
from sevenfold.cli.trust import FOREIGN
from sevenfold.conversation.controls import (
    EFFORTS,
    ThinkingChoice,
    check_effort,
    control_fields,
    efforts_of,
    thinking_of,
)
from sevenfold.conversation.epoch import recorded_frame
from sevenfold.conversation.room import ASSUMED
from sevenfold.conversation.waiting import FOR_EVER
from sevenfold.errors import Refused, TranscriptLocked, TranscriptMissing
from sevenfold.profiles import ALIASES, Profile, find, full_name, names
from sevenfold.providers import registry
from sevenfold.providers.models import Lister, is_local
from sevenfold.providers.registry import OFFLINE, is_offline, provider_for
from sevenfold.record import entries
from sevenfold.record.entries import Said
from sevenfold.session.factory import OFFLINE_JOBS
from sevenfold.stores.files import private_opener, private_parent, reason_of
from sevenfold.stores.home import SessionFiles, user_home
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.registry import open_store
from sevenfold.stores.settings_files import load as load_settings
from sevenfold.stores.trust import Trust, brings, user_folder

if TYPE_CHECKING:
    import argparse

    from sevenfold.agent.mcp.servers import McpServers
    from sevenfold.agent.options import AgentOptions
    from sevenfold.agent.team.definitions import AgentDefinition
    from sevenfold.cli.chat.chat import Chat
    from sevenfold.cli.chat.screen import Screen

DEFAULT_MODEL = "claude-sonnet-5-5"
"""The model of a new chat if none is named."""
HOOKS_FILE = "hooks.json"
PROJECT_HOOKS = Path(".sevenfold") / HOOKS_FILE
COPIED_FROM_STORES = "a session of a store is not copied within it; copy it here, and go on with the copy"
MCP_SECONDS = 0.5
"""Seconds a chat waits for MCP servers; slower ones are announced when they are ready."""


class ChatOptions(Struct, frozen=True, kw_only=True):
    """The options a chat opens its agent with."""

    folder: Path
    name: str
    """The name of the session."""
    model: str
    mode: Mode | None = None
    """The permission mode; None for the mode of the resumed session, or ``ask`` in a new one."""
    max_turns: int | None = None
    max_usd: float | None = None
    max_tokens: int | None = None
    """The most tokens of one answer; None: as many as the model can write."""
    effort: str | None = None
    thinking: ThinkingChoice | None = None
    rules: dict[str, list[str]] = {}
    resumed: bool = False
    agents: bool | Mapping[str, AgentDefinition] = True
    """Whether the agent may start sub-agents; a mapping adds types of them."""
    roots: tuple[Path, ...] = ()
    """Further folders that count as the workspace."""
    guidance: str = ""
    """Added to the system prompt."""
    system: str = ""
    """A system prompt in place of the standard one; empty for the standard one."""
    settings: Mapping[str, object] = {}
    """Settings that count more than those of files and variables."""
    servers: Mapping[str, Any] | None = None
    """MCP servers the command line names, in addition to those of files; None if it names none."""
    only_servers: bool = False
    """Whether the servers of files are left out."""
    store: str = ""
    """The URL of the store with the session; empty: it is a file in the user's home."""

    @property
    def offline(self) -> bool:
        """Whether the offline model answers: the user chose it, or no provider is configured."""
        return is_offline(self.model)

    @property
    def files(self) -> SessionFiles:
        """The files of the session."""
        return user_home().project(self.folder).session(self.name)

    def transcript(self) -> Path:
        """The file with the session as it is now; of a session in a store, a copy."""
        return recorded_file(self.files.transcript, self.name, self.store)

    def no_key(self) -> str:
        """The warning that the offline model answers instead of the chosen one; empty if it does not."""
        if self.model == OFFLINE.name or not self.offline:
            return ""
        missing = provider_for(self.model).unconfigured()
        return f"{missing}, so the offline model answers: it only repeats what you say."

    def require_key(self) -> None:
        """Raise `Refused` if the offline model would stand in: a script would take its echo for a real answer."""
        if self.no_key():
            missing = provider_for(self.model).unconfigured()
            raise Refused(f"{missing}; to try without a model: --model {OFFLINE.name}")


def recorded_file(path: Path | None, name: str, store: str) -> Path:
    """The file with a session; if it is in a store, a copy of it as it is now."""
    if path is not None and not store:
        return path
    return copy_of(SessionInStore(store, name), known=True)


def choose(options: argparse.Namespace, folder: Path, screen: Screen | None) -> ChatOptions:
    """The options for the session and model the command line asks for; raises `Refused` if there is no such session.

    ``screen`` asks the user which session to continue; without a screen, the command line must say which.
    """
    store = options.store or ""
    if store:
        check_url(store)
    session = _chosen(options, folder, screen)
    if options.fork_session and store:
        raise Refused(f"{COPIED_FROM_STORES}: sevenfold sessions import --store URL NAME")
    if options.fork_session:
        session = _copy(session, folder, printed=options.printed is not None)
    script = read_settings(options.script_settings) if options.script_settings else ScriptSettings()
    recorded = recorded_file(session.path, session.name, store) if session else None
    model = (
        full_name(options.model or script.model)
        or (last_model(recorded) if recorded else "")
        or DEFAULT_MODEL
    )
    profile = find(model)
    if options.effort is not None:
        check_effort(profile, options.effort)
    if options.thinking is not None:
        control_fields(profile, options.effort, options.thinking, options.max_tokens or profile.max_output)
    last_effort, last_thinking = last_controls(recorded) if recorded else (None, None)
    settings = load_settings(folder, script.settings).settings
    if session is None and screen is not None and thinks_by_default(profile):
        # Where a model thinks anyway, a user at a terminal may see what it thinks.
        last_thinking = "shown"
    return ChatOptions(
        max_tokens=options.max_tokens,
        effort=options.effort or (None if settings.effort else last_effort),
        thinking=options.thinking or (None if settings.thinking else last_thinking),
        folder=folder,
        name=session.name if session else new_name(printed=options.printed is not None),
        model=model,
        mode=options.mode or cast("Mode | None", script.mode),
        max_turns=options.max_turns,
        max_usd=options.max_usd,
        rules={
            "allow": [*options.allow, *script.rules.get("allow", ())],
            "ask": list(script.rules.get("ask", ())),
            "deny": [*options.deny, *script.rules.get("deny", ())],
        },
        resumed=session is not None,
        agents=read_agents(options.agents) if isinstance(options.agents, str) else options.agents,
        roots=(*map(existing_folder, options.roots), *script.folders),
        guidance=_guidance(options),
        system=options.system,
        settings={**script.settings, **({"max_retries": FOR_EVER} if options.retry else {})},
        servers=read_servers(options.mcp) if options.mcp else None,
        only_servers=options.strict_mcp,
        store=store,
    )


def _guidance(options: argparse.Namespace) -> str:
    """What the command line adds to the system prompt; raises `Refused` for a file that cannot be read."""
    text: str = options.guidance
    if options.guidance_file is None:
        return text
    try:
        from_file = options.guidance_file.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{options.guidance_file}: cannot be read: {reason_of(error)}") from error
    return "\n\n".join(filter(None, (text, from_file.strip())))


def _copy(session: KeptSession | None, folder: Path, *, printed: bool) -> KeptSession:
    """A copy of a session under a new name, to go on with; the session itself is only read."""
    if session is None:
        raise Refused("--fork-session goes with --resume or --continue, which name the session to copy")
    name = new_name(printed=printed)
    project = user_home().project(folder)
    files = copy_session(project.session(session.name), project.session(name))
    return KeptSession(name, session.title, session.modified, session.size, files.transcript)


def _chosen(options: argparse.Namespace, folder: Path, screen: Screen | None) -> KeptSession | None:
    """The session to continue; None for a new one."""
    if options.resume is None and not options.newest:
        return None
    kept = sessions(folder, options.store or "")
    place = "this store" if options.store else str(folder)
    if options.resume:
        found = find_session(kept, options.resume)
        if found is None:
            raise Refused(f"no session {options.resume} in {place}; 'sevenfold sessions' lists them")
        return found
    if not kept:
        raise Refused(f"there is no session in {place} to continue; 'sevenfold chat' starts one")
    # A user who comes back means a conversation; a script may mean any session.
    kept = chat_sessions(kept) or kept if screen is not None else kept
    if options.newest:
        return kept[0]
    if screen is None:
        raise Refused("say which session: --resume NAME, or --continue for the newest")
    menu = session_menu(kept, folder)
    chosen: KeptSession | None = menu.chosen(screen.ask(menu))
    if chosen is None:
        raise Refused("no session was chosen")
    return chosen


def session_menu(sessions: list[KeptSession], folder: Path) -> Menu:
    """The menu that asks which session of a folder to continue."""
    now = time.time()
    items = (
        MenuItem(one_line(session.title, 60), "", session.about(now), value=session) for session in sessions
    )
    question = f"Continue which session of {one_line(folder.name or str(folder), 40)}?"
    return Menu(question, tuple(items), filtered=True)


def thinks_by_default(profile: Profile) -> bool:
    """Whether a model thinks by default, so that showing its thinking costs nothing."""
    return "adaptive" in profile.thinking.modes and profile.effort is not None


def last_controls(transcript: Path) -> tuple[str | None, ThinkingChoice | None]:
    """The effort and the choice about thinking that a session was last sent with; a change would lose its cache."""
    frame = recorded_frame(JsonlLog(transcript))
    settings = {} if frame is None else dict(frame.settings)
    effort = None
    thinking = None
    with suppress(msgspec.DecodeError):
        output = msgspec.json.decode(settings.get("output_config", b"{}"), type=dict[str, Any])
        effort = output.get("effort") if output.get("effort") in EFFORTS else None
        mode = msgspec.json.decode(settings.get("thinking", b"{}"), type=dict[str, Any])
        thinking = _choice_of(mode)
    return effort, thinking


def _choice_of(field: Mapping[str, Any]) -> ThinkingChoice | None:
    """The choice behind a request's field ``thinking``; None if there is no such field."""
    match field.get("type"):
        case "adaptive":
            return "hidden" if field.get("display") == "omitted" else "shown"
        case "enabled":
            return "shown"
        case "disabled" | "between_tools":
            return "off"
        case _:
            return None


def last_model(transcript: Path) -> str:
    """The model that wrote the last answer in a transcript; empty if there is none."""
    models = (answer.model for answer in JsonlLog(transcript).answers())
    return next((model for model in models if model and not model.startswith("<")), "")


# -- models ----------------------------------------------------------------------------------

LISTING_SECONDS = 2.0


def served_models(client: Any, model: str) -> tuple[str, ...]:
    """The models a server lists, if the user has set its address; empty if it gives no usable answer."""
    addressed = any(
        provider.address(os.environ) != provider.address({}) for provider in registry.providers()
    )
    if not (addressed and isinstance(client, Lister)):
        return ()
    try:
        body = msgspec.json.decode(client.listing(model, LISTING_SECONDS))
        listed = body["data"] if isinstance(body, dict) else body
        return tuple(model["id"] for model in listed if isinstance(model["id"], str))
    except Exception:  # noqa: BLE001 (whatever an SDK or a server does, there is the table)
        return ()


def model_menu(current: str, served: tuple[str, ...]) -> Menu:
    """The menu that asks which model to use."""
    listed = dict.fromkeys(
        (current, *served, *(name for name in names() if not is_offline(name)), *names())
    )
    aliases = {full_name(alias): alias for alias in ALIASES}
    abouts = {name: _about(name, aliases.get(name, ""), name in served) for name in listed}
    items = (MenuItem(name, "", about, value=name) for name, about in abouts.items())
    return Menu(f"Which model? It is {current} now.", tuple(items), filtered=True)


def _about(name: str, alias: str, served: bool) -> str:
    if name == OFFLINE.name:
        return "repeats what you say; no network, no key, no cost"
    profile = find(name)
    parts = [alias, "listed by your server" if served else "", _window(profile)]
    parts.append(_price(profile))
    if not served and is_offline(name):
        parts.append("no key set")
    return ", ".join(filter(None, parts))


def _window(profile: Profile) -> str:
    """The window in words: what the model holds, and how much of it is used if longer prompts cost more."""
    held = f"window {short_count(profile.window)}"
    if not profile.known:
        return f"{held} (assumed)"
    economic = profile.economic_window
    longer = profile.price(economic + 1) if economic else None
    usual = profile.price(0)
    if economic is None or longer is None or usual is None or longer.input <= usual.input:
        return held
    times = longer.input / usual.input
    return f"{held}, {short_count(economic)} in use: longer prompts cost {times:g} times as much"


def _price(profile: Profile) -> str:
    row = profile.price(0)
    return f"${row.input:g} in, ${row.output:g} out per million tokens" if row else "price unknown"


def similar(name: str) -> str:
    """The known model whose name is most like a misspelt one; empty if none is close."""
    return next(iter(get_close_matches(name.lower(), names(), 1, 0.6)), "")


# -- the agent -------------------------------------------------------------------------------


def open_agent(options: ChatOptions, chat: Chat) -> Agent:
    """Open the agent of a chat; it asks the chat's user for permission and answers."""
    for_agent = agent_options(options)
    for_agent["consent"] = chat.consent
    for_agent["ask"] = chat.answer
    for_agent["listen"] = (chat.listen,)
    with explained_lock(options):
        return Agent(options.model, **for_agent)


@contextmanager
def explained_lock(options: ChatOptions) -> Iterator[None]:
    """Raise a session's being open elsewhere as an error that says how to go on."""
    try:
        yield
    except TranscriptLocked as error:
        if not options.resumed:
            raise
        raise Refused(
            f"the session {options.name} is open elsewhere, in {error.holder or 'another process'}; close it there, or "
            f"go on with a copy: sevenfold chat --resume {options.name} --fork-session"
        ) from error


def assumed_window(agent: Agent) -> str:
    """The warning that a local model's window is assumed, and what to do; empty for a known window or other models."""
    assembly = agent.assembly
    window = assembly.conversation.window
    if window.source not in ASSUMED or not is_local(registry.address_for(agent.model)):
        return ""
    short = ", too few for some of the tools" if assembly.fit.size == "tiny" else ""
    return (
        f"the server does not say how large the window of {agent.model} is: {window.context:,} tokens are "
        f"assumed{short}. Set SEVENFOLD_CONTEXT_WINDOW to the size it runs with, or load the model first "
        "(see docs/local-models.md)"
    )


def agent_options(options: ChatOptions) -> AgentOptions:
    """The agent's options, without the callbacks that ask the user."""
    for_agent: AgentOptions = {
        "name": options.name,
        "folder": options.folder,
        "rules": {**options.rules, "allow": [*options.rules.get("allow", ()), *kept_rules(options.folder)]},
        "hooks": hooks_of(options.folder),
        "max_turns": options.max_turns,
        "max_usd": options.max_usd,
        "client": registry.quick_client_for(options.model, OFFLINE_JOBS),
        "mentions": True,
        "checkpoints": True,
        "agents": options.agents,
        "roots": options.roots,
        "settings": options.settings,
        "guidance": options.guidance or None,
        "system": options.system or None,
    }
    if options.store:
        for_agent["store"] = options.store
    if options.mode is not None:
        for_agent["mode"] = options.mode
    if options.max_tokens is not None:
        for_agent["max_tokens"] = options.max_tokens
    profile = find(options.model)
    if options.effort in efforts_of(profile):
        for_agent["effort"] = options.effort
    if options.thinking in thinking_of(profile):
        for_agent["thinking"] = options.thinking
    if (servers := _servers_of(options)) is not None:
        for_agent["mcp"] = servers
    return for_agent


def _servers_of(options: ChatOptions) -> McpServers | None:
    """The MCP servers of the command line, the user, and the folder if it is trusted; None if there are none."""
    files = (options.folder / PROJECT_FILE, user_folder(os.environ) / USER_FILE)
    reads_files = not options.only_servers and any(path.is_file() for path in files)
    if not reads_files and not options.servers:
        return None
    from sevenfold.agent.mcp.servers import McpServers  # loads the MCP SDK

    servers = McpServers.of(options.servers, options.folder, files=reads_files)
    servers.wait_seconds = MCP_SECONDS
    return servers


def hooks_of(folder: Path) -> Hooks:
    """The user's hooks, and those of the folder if it is trusted."""
    user = [user_folder(os.environ) / HOOKS_FILE]
    project = [folder / PROJECT_HOOKS]
    loaded = load(user=user, project=project, trusted=trust().covers(folder))
    return Hooks(loaded, project_dir=str(folder))


def forget_if_empty(options: ChatOptions) -> bool:
    """Remove the session if it has no messages; returns whether it was removed."""
    if options.store:
        return _forget_if_empty_in_store(options)
    files = options.files
    if files.transcript.is_file() and title(files.transcript):
        return False
    try:
        lock = FileLock(files.transcript)
    except TranscriptLocked:
        return False
    for path in (files.transcript, *files.indexes()):
        path.unlink(missing_ok=True)
    shutil.rmtree(files.agent, ignore_errors=True)
    lock.remove()
    return True


def _forget_if_empty_in_store(options: ChatOptions) -> bool:
    with closing(open_store(options.store)) as store:
        try:
            log = store.read(options.name)
            if any(isinstance(entries.read(line), Said) for line in log.head(LOOKED_AT)):
                return False
            store.erase(options.name)
        except TranscriptLocked:
            return False
        except TranscriptMissing:
            return True
    return True


# -- trust -----------------------------------------------------------------------------------

_NOT_TRUSTED = "chat-not-trusted"
MOST_CHANGES = 12
"""Files that are named when the user is asked."""
_BRINGS = "use its own settings, hooks, MCP servers, skills and instructions"
TRUST = Menu(
    "Do you trust this folder?",
    (
        # No letter keys: a message that begins with "y" or "n" must not answer.
        MenuItem("Yes", "", _BRINGS, value=True),
        MenuItem("No", "", "work here without them; 'sevenfold trust' changes that", value=False),
    ),
)


def trust() -> Trust:
    """The folders the user trusts."""
    return Trust(user_folder(os.environ))


def ask_for_trust(screen: Screen, folder: Path) -> None:
    """Ask once whether the user trusts a folder, and store the answer; without one, ask again next time."""
    trusts = trust()
    if trusts.foreign:
        screen.show(Text(FOREIGN.format(path=trusts.path), style="yellow"))
    state = trusts.state(folder)
    if state == "trusted" or str(folder.resolve()) in _declined():
        return
    if state == "changed":
        changes = trusts.changes(folder)
        left = [f"and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
        lines = ["Since you trusted this folder, it has changed:", *changes[:MOST_CHANGES], *left]
        screen.show(Text(clean("\n  ".join(lines))))
    elif found := brings(folder.resolve()):
        screen.show(Text(clean("\n  ".join(["This folder brings:", *list(found)[:MOST_CHANGES]]))))
    menu = replace(TRUST, title="Do you still trust this folder?") if state == "changed" else TRUST
    trusted = menu.chosen(screen.ask(menu))
    if trusted:
        trust().add(folder)
    elif trusted is not None:
        path = user_home().root / _NOT_TRUSTED
        private_parent(path)
        folders = "".join(f"{path}\n" for path in (*_declined(), folder.resolve()))
        with open(path, "w", encoding="utf-8", opener=private_opener) as file:
            file.write(folders)


def _declined() -> Sequence[str]:
    try:
        return (user_home().root / _NOT_TRUSTED).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
