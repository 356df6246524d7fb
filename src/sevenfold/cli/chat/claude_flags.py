"""The options of Claude Code's command line, for scripts and habits that people bring from it.

Each one means the same here, or is refused by name with what to use instead; none is ignored. Rules, tools and modes
are translated into ours.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from sevenfold.errors import InputError, Refused
from sevenfold.stores.files import reason_of

if TYPE_CHECKING:
    from sevenfold.agent.team.definitions import AgentDefinition

MODES = {"default": "ask", "acceptEdits": "accept_edits", "plan": "plan"}
"""Claude Code's permission modes that mean the same here."""
_OWN_MODES = ("ask", "accept_edits", "plan", "autonomous")
_REFUSED_MODES = {
    "bypassPermissions": "no mode here allows everything; --mode autonomous asks about nothing inside the folder",
    "auto": "here no model judges commands; --mode autonomous asks about nothing inside the folder",
    "dontAsk": "with -p, --mode ask refuses whatever it would ask about",
}
_RULE = re.compile(r"[^\s,()]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?")
"""A rule in a list that is separated by commas or blanks."""
_NAMED = re.compile(r"([^()]+)(?:\((.*)\))?", re.DOTALL)
_SETTINGS = {
    "effortLevel": "effort",
    "language": "language",
    "outputStyle": "output_style",
}
"""Claude Code's settings that mean the same as one of ours."""
_REFUSED_SETTINGS = {
    "env": "set the variables in the environment of the command",
    "hooks": "put them into hooks.json (see docs/hooks.md)",
    "mcpServers": "use --mcp-config",
    "sandbox": "use the settings sandbox, sandbox_hosts and sandbox_read",
    "statusLine": "the status line is not run by a program here",
}
_RULE_LISTS = ("allow", "ask", "deny")


class ScriptSettings(Struct, frozen=True, kw_only=True):
    """What the file or text of ``--settings`` sets."""

    settings: Mapping[str, object] = {}
    rules: Mapping[str, Sequence[str]] = {}
    mode: str | None = None
    model: str = ""
    folders: tuple[Path, ...] = ()


# -- declaring ---------------------------------------------------------------------------------------


def declare(command: argparse.ArgumentParser) -> None:
    """Declare the options that mean the same here, and those that are refused by name."""
    add = command.add_argument
    add("--permission-mode", dest="mode", type=mode, metavar="MODE", help=argparse.SUPPRESS)
    for ours, flags in (
        ("allow", ("--allowedTools", "--allowed-tools")),
        ("deny", ("--disallowedTools", "--disallowed-tools")),
    ):
        add(*flags, dest=ours, action=_Rules, nargs="+", metavar="RULE", help=argparse.SUPPRESS)
    add("--max-budget-usd", dest="max_usd", type=float, metavar="USD", help=argparse.SUPPRESS)
    for flag, instead in _refused_flags().items():
        add(flag, action=_Refuse, nargs="?", const=instead, metavar=instead, help=argparse.SUPPRESS)


class _Rules(argparse.Action):
    """Adds Claude Code's rules, in ours, to a list."""

    def __call__(self, parser: object, options: argparse.Namespace, values: Any, flag: object = "") -> None:
        rules = [rule for value in values for rule in translated_rules(value)]
        setattr(options, self.dest, [*getattr(options, self.dest), *rules])


class _Refuse(argparse.Action):
    """Refuses an option that has no equal here, with what to use instead."""

    def __call__(self, parser: object, options: object, values: Any, flag: str | None = None) -> None:
        raise InputError(f"there is no {flag} here: {self.metavar}")


@cache
def _refused_flags() -> Mapping[str, str]:
    table = Path(__file__).with_name("claude_flags.toml").read_text(encoding="utf-8")
    flags: dict[str, str] = tomllib.loads(table)["refused"]
    return flags


# -- translating -------------------------------------------------------------------------------------


def mode(name: str) -> str:
    """Our mode for one of Claude Code's or ours; raises `InputError` for one that has no equal here."""
    if name in _OWN_MODES:
        return name
    if name in _REFUSED_MODES:
        raise InputError(f"there is no mode {name} here: {_REFUSED_MODES[name]}")
    if name not in MODES:
        known = ", ".join((*_OWN_MODES, *MODES))
        raise argparse.ArgumentTypeError(f"{name!r} is no mode; there are {known}")
    return MODES[name]


def translated_rules(text: str) -> Iterator[str]:
    """Our rules for a list of Claude Code's, separated by commas or blanks."""
    for match in _RULE.finditer(text):
        yield translated_rule(match[0])


def translated_rule(rule: str) -> str:
    """Our rule for one of Claude Code's; raises `InputError` if the tool has no equal here."""
    from sevenfold.agent.team.definitions import our_tool  # loads the agent

    parts = _NAMED.fullmatch(rule.strip())
    if parts is None:
        raise InputError(f"{rule!r} is not a rule; write Tool or Tool(pattern), such as Bash(git log:*)")
    name = parts[1].strip()
    pattern = (parts[2] or "").strip()
    tool = our_tool(name) or (name if "*" in name else "")
    if not tool:
        raise InputError(
            f"the rule {rule} is about a tool that does not exist here; docs/tools.md lists them"
        )
    if tool == "Write":
        # A rule about changing files is called Edit here, whichever tool changes them.
        tool = "Edit"
    if tool in ("Grep", "Glob") and pattern:
        tool = "Read"
    if not pattern:
        return tool
    if tool == "Shell" and pattern.endswith(" *"):
        # Both forms mean "begins with these words".
        pattern = f"{pattern[:-2]}:*"
    if tool in ("Edit", "Read") and pattern.startswith("//"):
        pattern = pattern[1:]
    elif tool in ("Edit", "Read") and pattern.startswith("/"):
        # There, a single slash means the folder of the settings, which is the workspace for an option.
        pattern = f".{pattern}"
    return f"{tool}({pattern})"


# -- reading -----------------------------------------------------------------------------------------


def read_settings(option: str) -> ScriptSettings:
    """What ``--settings`` sets: a JSON text, or the path of a JSON or TOML file; raises `InputError`."""
    fields = _document(option, "--settings")
    settings: dict[str, object] = {}
    rules: dict[str, Sequence[str]] = {}
    model = ""
    chosen_mode = None
    folders: tuple[Path, ...] = ()
    for name, value in fields.items():
        if name in _REFUSED_SETTINGS:
            raise InputError(f"--settings: {name} is not taken: {_REFUSED_SETTINGS[name]}")
        if name == "permissions":
            permissions = _table(value, "--settings: permissions")
            rules = _permission_rules(permissions)
            chosen_mode = mode(str(permissions["defaultMode"])) if "defaultMode" in permissions else None
            folders = tuple(
                existing_folder(str(path)) for path in permissions.get("additionalDirectories", ())
            )
        elif name == "model":
            model = str(value)
        else:
            settings[_SETTINGS.get(name, name)] = value
    return ScriptSettings(settings=settings, rules=rules, mode=chosen_mode, model=model, folders=folders)


def _permission_rules(permissions: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    known = (*_RULE_LISTS, "defaultMode", "additionalDirectories")
    for name in permissions:
        if name not in known:
            raise InputError(f"--settings: permissions.{name} is not taken; there are {', '.join(known)}")
    return {
        name: [translated_rule(str(rule)) for rule in permissions[name]]
        for name in _RULE_LISTS
        if name in permissions
    }


def read_servers(option: Sequence[str]) -> dict[str, Any]:
    """The MCP servers of ``--mcp-config``: JSON texts, or paths of files, with a table ``mcpServers``."""
    servers: dict[str, Any] = {}
    for source in option:
        fields = _document(source, "--mcp-config")
        if "mcpServers" not in fields:
            raise InputError('--mcp-config: the table "mcpServers" is missing, which maps names to servers')
        servers |= _table(fields["mcpServers"], "--mcp-config: mcpServers")
    return servers


def read_agents(option: str) -> dict[str, AgentDefinition]:
    """The sub-agents of ``--agents``: a JSON text that maps names to definitions; raises `InputError`."""
    from sevenfold.agent.team.definitions import define  # loads the agent

    definitions = {}
    for name, value in _document(option, "--agents").items():
        fields = dict(_table(value, f"--agents: {name}"))
        prompt = str(fields.pop("prompt", ""))
        try:
            definition = define(fields, prompt, "claude", name=name)
        except InputError as error:
            raise InputError(f"--agents: {name}: {error}") from error
        for field, why in definition.ignored.items():
            raise InputError(f"--agents: {name}: the field {field} is not taken: {why}")
        definitions[definition.name] = definition
    return definitions


def existing_folder(text: str) -> Path:
    """A folder that exists, with links resolved; raises `InputError`."""
    path = Path(text).expanduser().resolve()
    if not path.is_dir():
        raise InputError(f"{text}: there is no such folder; check the path")
    return path


def _document(option: str, flag: str) -> dict[str, Any]:
    """A table from a JSON text, or from a JSON or TOML file."""
    text = option.strip()
    source = flag
    decode: Callable[[str], Any] = msgspec.json.decode
    if not text.startswith("{"):
        path = Path(option).expanduser()
        source = f"{flag} {path}"
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"{source}: cannot be read: {reason_of(error)}") from error
        if path.suffix == ".toml":
            decode = tomllib.loads
    try:
        return _table(decode(text), source)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{source}: cannot be understood: {error}") from error


def _table(value: Any, source: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{source}: must be a table of names and values")
    return value
