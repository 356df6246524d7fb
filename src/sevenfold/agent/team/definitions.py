"""Definitions of sub-agents, from our own folders and those of five other programs.

A definition is a Markdown file whose front matter says what the agent is for and what it may do, and whose body is its
prompt; Codex uses TOML instead. Unsupported fields are listed with the reason in `AgentDefinition.ignored`, unusable
files in `Definitions.problems`: neither is skipped silently.

A definition can only narrow its parent's permissions, so using someone else's grants nothing. Still, a project's
definitions are used only if the user trusts its folder, because agents follow their prompts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.instructions import upwards
from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.prompt import SectionSource
from sevenfold.agent.team.roster import check_agent_name
from sevenfold.agent.texts import AgentTypes
from sevenfold.agent.tools import files
from sevenfold.errors import InputError, Refused, SevenfoldError
from sevenfold.memory.front_matter import split
from sevenfold.profiles import full_name
from sevenfold.record.quoting import escape_tags
from sevenfold.stores.files import real_path

Scope = Literal["user", "project", "local"]
Isolation = Literal["worktree"]
MOST_FILES = 500
"""The maximum number of definitions read from one place."""
LONGEST_HEAD = 64 * 1024
LONGEST_PROMPT = 256 * 1024
DEEPEST = 20
"""The maximum nesting of lists and mappings in the front matter; a parser would need minutes for deeper ones."""
_TOOL = re.compile(r"([A-Za-z*][\w*.-]*)(?:\((.*)\))?", re.DOTALL)
_COMMAS = re.compile(r",(?![^(]*\))")
_DASHES = re.compile(r"(?:^|\s)-\s")
"""Matches the dashes of a list whose lines, each starting with a dash, were joined into one."""


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """A type of sub-agent: what it is for, and what it may do."""

    name: str
    description: str
    prompt: str = ""
    path: str = ""
    """The file it was read from; empty if there is none."""
    dialect: str = "sevenfold"
    tools: tuple[str, ...] | None = None
    """The tools it may use, each with an optional permission pattern; None for all of its parent's."""
    disallowed_tools: tuple[str, ...] = ()
    rules: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Permission rules under ``ask`` and ``deny``, in addition to its parent's; ``allow`` is refused as wider."""
    agents: tuple[str, ...] | None = None
    """The types of agents it may start itself; None for any."""
    model: str | None = None
    """Its model, or an alias of one; None for its parent's."""
    mode: Mode | None = None
    """Its permission mode, unless its parent's is narrower; None for its parent's."""
    max_turns: int | None = None
    timeout: float | None = None
    """The maximum seconds for one piece of work."""
    skills: tuple[str, ...] = ()
    """Skills that are loaded before it starts."""
    memory: Scope | None = None
    background: bool = False
    isolation: Isolation | None = None
    fork: bool | None = None
    """True to start with its parent's conversation, False to start empty, None for whichever is cheaper."""
    initial_prompt: str = ""
    """A text placed before its first task."""
    window: int | None = None
    """The maximum tokens of its context, if fewer than its model accepts."""
    ignored: Mapping[str, str] = MappingProxyType({})
    """Fields, or parts of fields, that have no effect here, with the reason."""

    def __post_init__(self) -> None:
        if self.rules.get("allow"):
            raise InputError(
                f"the agent {self.name} has allow rules, but it may do no more than its parent: "
                "leave out allow, and give the rules to the parent"
            )

    def allows(self, tool: str) -> bool:
        """Whether it may use a tool of this name at all."""
        if _named(tool, self.disallowed_tools):
            return False
        return self.tools is None or _named(tool, self.tools)


class Definitions(Struct, frozen=True):
    """All definitions found, by name, and the files that could not be used."""

    known: Mapping[str, AgentDefinition]
    problems: Mapping[str, str] = MappingProxyType({})
    """The reasons why files or folders were not used, by path."""
    hidden: tuple[AgentDefinition, ...] = ()
    """Definitions overridden by one of the same name with higher precedence."""


BUILT_IN: Final = (
    AgentDefinition(
        name="general",
        description="Works on one task by itself, with all tools, and reports what it found or did. It knows only what "
        "its prompt says.",
        fork=False,
    ),
    AgentDefinition(
        name="fork",
        description="Works on one task knowing everything in this conversation so far. Cheap while the conversation "
        "is in the cache.",
        fork=True,
    ),
)


def find_definitions(
    workspace: Path, user: Path, trusted: Callable[[Path], bool], home: Path | None = None
) -> Definitions:
    """Find all definitions; those nearest to the workspace take precedence, then its parents', then the user's.

    ``user`` is our own settings folder, ``home`` the user's home folder.
    """
    definitions: list[AgentDefinition] = []
    problems: dict[str, str] = {}
    home = home or Path.home()
    for folder in upwards(workspace, home):
        found_files = list(_files(folder, _TABLE["project"]))
        if not found_files:
            continue
        if not trusted(folder):
            problems[str(folder)] = (
                f"its agent definitions ({len(found_files)}) are not loaded, because this folder is not trusted; to "
                f"load them, run: sevenfold trust {folder}"
            )
            continue
        _read_all(found_files, definitions, problems)
    _read_all(
        [*_files(user, {"sevenfold": ["agents/**/*.md"]}), *_files(home, _TABLE["user"])],
        definitions,
        problems,
    )
    by_name: dict[str, AgentDefinition] = {}
    hidden: list[AgentDefinition] = []
    for definition in (*definitions, *BUILT_IN):
        if definition.name in by_name:
            hidden.append(definition)
        else:
            by_name[definition.name] = definition
    return Definitions(dict(sorted(by_name.items())), problems, tuple(hidden))


class AgentCatalog(Struct, eq=False):
    """The types of agents that can be started: built in, found in files, or given by the caller."""

    workspace: Path
    user: Path
    trusted: Callable[[Path], bool]
    given: Mapping[str, AgentDefinition]
    known: dict[str, AgentDefinition] = {}
    """Definitions by name; a type whose file was deleted stays until the session is reopened."""
    problems: Mapping[str, str] = {}
    """The reasons why files or folders were not used, by path."""

    def listing(self) -> dict[str, str]:
        """Return names and descriptions, for `sevenfold.agent.texts.AgentTypes.of`."""
        return {name: definition.description for name, definition in self.known.items()}

    def text(self) -> str:
        """Search for definitions again, and return the list of all types as the model sees it."""
        definitions = find_definitions(self.workspace, self.user, self.trusted)
        self.known.update({**definitions.known, **self.given})
        self.problems = definitions.problems
        types = AgentTypes.of(self.listing())
        return types.render() if types else ""

    def section(self) -> SectionSource:
        """Return the list as a section of the system prompt, which is updated after each compaction."""
        return SectionSource(AgentTypes.file, self.text, AgentTypes.stage)


def read_definition(path: Path, dialect: str, name: str = "") -> AgentDefinition:
    """Read one file; ``name`` is used if the file has none. Raises `InputError` with the reason if it is invalid."""
    text = files.content(str(real_path(path))).decode("utf-8-sig", errors="replace")
    fields, body, remarks = _toml(text) if path.suffix == ".toml" else _markdown(text)
    return define(fields, body, dialect, path=str(path), name=name, ignored=remarks)


def define(
    fields: Mapping[str, Any],
    body: str,
    dialect: str,
    *,
    path: str = "",
    name: str = "",
    ignored: Mapping[str, str] = MappingProxyType({}),
) -> AgentDefinition:
    """Create a definition from the fields of a file's front matter and its body; raises `InputError`."""
    fields = dict(fields)
    reader = _Reader(dict(ignored))
    if reason := _unusable(fields, dialect):
        raise InputError(reason)
    agent_name = str(fields.pop("name", None) or name)
    if not agent_name:
        raise InputError("it has no name; add a line like name: reviewer")
    check_agent_name(agent_name)
    description = fields.pop("description", None)
    if not isinstance(description, str) or not description.strip():
        raise InputError("it has no description; add one that says when to use the agent")
    if dialect == "codex" and not isinstance(body := fields.pop("developer_instructions", ""), str):
        raise InputError("developer_instructions must be a string")
    if len(body) > LONGEST_PROMPT:
        raise InputError(f"its prompt has {len(body):,} characters; the limit is {LONGEST_PROMPT:,}")
    summary = _one_line(description)
    prompt = body.strip()
    definition = AgentDefinition(
        name=agent_name, description=summary, prompt=prompt, path=path, dialect=dialect
    )
    for key, value in fields.items():
        if value is not None:
            definition = reader.take(definition, key, value)
    return replace(definition, ignored=reader.ignored)


# -- finding files -----------------------------------------------------------------------------------


def _files(
    folder: Path, patterns_by_dialect: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Path, str, str]]:
    """Yield files that may be definitions: path, dialect, and a name derived from the path."""
    for dialect, patterns in patterns_by_dialect.items():
        for pattern in patterns:
            base = folder / pattern.partition("/*")[0]
            try:
                paths = sorted(path for path in folder.glob(pattern) if path.is_file())
            except OSError:
                continue
            # One more than is read, so that `_read_all` notices that there are too many.
            for path in paths[: MOST_FILES + 1]:
                yield path, dialect, "-".join(path.relative_to(base).with_suffix("").parts)


def _read_all(
    candidates: Sequence[tuple[Path, str, str]],
    definitions: list[AgentDefinition],
    problems: dict[str, str],
) -> None:
    if len(candidates) > MOST_FILES:
        first_unread = str(candidates[MOST_FILES][0])
        problems[first_unread] = f"not read: there are more than {MOST_FILES} definitions in this place"
    for path, dialect, name in candidates[:MOST_FILES]:
        try:
            definitions.append(read_definition(path, dialect, "" if dialect in NAMED else name))
        except (SevenfoldError, Refused, OSError) as error:
            problems[str(path)] = str(error)


NAMED: Final = frozenset({"claude", "codex"})
"""Dialects in which the file must contain the agent's name."""


# -- reading files -----------------------------------------------------------------------------------


def _toml(text: str) -> tuple[Mapping[str, Any], str, dict[str, str]]:
    try:
        return tomllib.loads(text), "", {}
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"it is not valid TOML: {error}") from error


def _markdown(text: str) -> tuple[Mapping[str, Any], str, dict[str, str]]:
    page = split(text)
    if not page.head:
        raise InputError("the file has no head; begin it with ---, lines like 'name: reviewer', and ---")
    head = "".join(page.head)
    if len(head) > LONGEST_HEAD:
        raise InputError(f"its head has {len(head):,} characters; the limit is {LONGEST_HEAD:,}")
    try:
        return _yaml(head), page.body, {}
    except ValueError as error:
        # Many people write an unquoted colon in a description, and other programs accept it.
        remark = f"it is not valid YAML ({error}), so it was read line by line"
        return dict(page.values), page.body, {"head": remark}


def _yaml(head: str) -> Mapping[str, Any]:
    """Parse the fields of YAML front matter; raises `ValueError`."""
    from ruamel.yaml import YAML  # slow to load, and only definitions need it
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

    depth = 0
    try:
        for event in YAML(typ="safe", pure=True).parse(head):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError("it is nested too deeply")
            # Aliases of aliases could expand to billions of copies.
            if isinstance(event, AliasEvent):
                raise ValueError("aliases are not allowed")
        fields = YAML(typ="safe", pure=True).load(head)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not understood"
        raise ValueError(f"{problem}, line {mark.line + 2}" if mark else str(problem)) from error
    if not isinstance(fields, Mapping):
        raise ValueError("it has no fields")
    return {str(key): value for key, value in fields.items()}


def _unusable(fields: dict[str, Any], dialect: str) -> str:
    """Return why these fields define no sub-agent at all, or empty; removes the fields that only decide this."""
    if fields.pop("kind", "local") == "remote":
        return "it is a remote agent (A2A), which is not available here"
    if fields.pop("disable", False) is True or fields.pop("disabled", False) is True:
        return "it is switched off in its file"
    if dialect == "opencode" and fields.pop("mode", "all") == "primary":
        return "it is a primary agent, not a sub-agent; say 'mode: all' in its file to use it as both"
    return ""


# -- reading fields ----------------------------------------------------------------------------------

_TABLE: Final = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text("utf-8"))


def _by_alias(section: str) -> dict[str, str]:
    """Our name for each alias in a section of the table."""
    names: dict[str, str] = {}
    for ours, aliases in _TABLE[section].items():
        names.update(dict.fromkeys(aliases, ours))
    return names


_MODES = _by_alias("modes")
_TOOLS = _by_alias("tools")
_UNSUPPORTED = _by_alias("unsupported")
CHANGES: Final = ("Edit", "Write", "Shell")
"""Tools denied to an agent that asks for a read-only sandbox, because the sandbox lets them write in the workspace."""


class _Reader:
    """Reads the fields of one definition, and collects those that have no effect."""

    def __init__(self, ignored: dict[str, str]) -> None:
        self.ignored = ignored

    def take(self, definition: AgentDefinition, key: str, value: Any) -> AgentDefinition:
        """Return the definition with one more field set."""
        match normalised := key.lower().replace("-", "_"):
            case "tools":
                return self._tools(definition, value)
            case "disallowedtools" | "disallowed_tools" | "excludetools":
                return replace(
                    definition,
                    disallowed_tools=(*definition.disallowed_tools, *self._names(key, _listed(value))),
                )
            case "permission":
                return self._permission(definition, value)
            case "sandbox_mode":
                return self._sandbox(definition, value)
        if normalised not in _FIELDS:
            self.ignored[key] = _UNSUPPORTED.get(normalised, "it is not known here")
            return definition
        field, read = _FIELDS[normalised]
        try:
            return replace(definition, **{field: read(value)})
        except ValueError as error:
            self.ignored[key] = str(error)
            return definition

    def _tools(self, definition: AgentDefinition, value: Any) -> AgentDefinition:
        if isinstance(value, Mapping):  # OpenCode: each tool switched on or off
            if value.get("*") is False:
                switched_on = [str(name) for name, enabled in value.items() if enabled is True]
                return self._tools(definition, switched_on)
            switched_off = [str(name) for name, enabled in value.items() if enabled is False]
            disallowed = self._names("tools", switched_off)
            return replace(definition, disallowed_tools=(*definition.disallowed_tools, *disallowed))
        listed = _listed(value)
        if "*" in listed:
            return definition
        agents = definition.agents
        for tool in listed:
            match = _TOOL.fullmatch(tool)
            if match and match[2] and _TOOLS.get(match[1].lower()) == "Agent":
                agents = (*(agents or ()), *_listed(match[2]))
        return replace(definition, tools=tuple(self._names("tools", listed)), agents=agents)

    def _names(self, key: str, listed: Iterable[str]) -> list[str]:
        """Return the tools under our names, each with its pattern if it has one."""
        names: list[str] = []
        for entry in listed:
            match = _TOOL.fullmatch(entry)
            name = our_tool(match[1]) if match else ""
            if match is None or not name:
                self.ignored[f"{key}: {entry}"] = "there is no such tool here"
            elif match[2] and name not in ("Agent", "Skill"):
                names.append(f"{name}({match[2]})")
            else:
                names.append(name)
        return list(dict.fromkeys(names))

    def _permission(self, definition: AgentDefinition, value: Any) -> AgentDefinition:
        """Add OpenCode's deny and ask permissions; its allow permissions cannot exceed the parent's."""
        permissions = value if isinstance(value, Mapping) else {"*": value}
        ask = list(definition.rules.get("ask", ()))
        deny = list(definition.rules.get("deny", ()))
        for tool, verdict in permissions.items():
            name = "*" if tool == "*" else _TOOLS.get(str(tool).lower())
            if name is None:
                self.ignored[f"permission: {tool}"] = "there is no such tool here"
                continue
            cases = verdict if isinstance(verdict, Mapping) else {"*": verdict}
            for pattern, answer in cases.items():
                rule = name if pattern == "*" else f"{name}({_pattern(name, str(pattern))})"
                if answer == "allow":
                    if len(cases) > 1:
                        self.ignored[f"permission: {tool}: {pattern}"] = (
                            "a rule that allows makes no exception from others here"
                        )
                elif answer in ("ask", "deny"):
                    (ask if answer == "ask" else deny).append(rule)
                else:
                    self.ignored[f"permission: {tool}"] = f"{answer!r} is none of allow, ask and deny"
        return replace(definition, rules={"ask": tuple(ask), "deny": tuple(deny)})

    def _sandbox(self, definition: AgentDefinition, value: Any) -> AgentDefinition:
        if value != "read-only":
            self.ignored["sandbox_mode"] = "the sandbox is the parent's, and so are the permissions"
            return definition
        self.ignored["sandbox_mode"] = (
            f"the sandbox is the parent's; it does not get {', '.join(CHANGES)} instead"
        )
        return replace(definition, disallowed_tools=(*definition.disallowed_tools, *CHANGES))


def _one_line(text: str) -> str:
    """Return a text as one line for other agents' prompts, without invisible characters or meaningful tags."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    return escape_tags(" ".join(visible.split()))


def _listed(value: Any) -> tuple[str, ...]:
    """Return the entries of a list, or of a text split at commas or dashes; commas in parentheses do not split."""
    if isinstance(value, str):
        separator = _DASHES if _DASHES.match(value) else _COMMAS
        value = separator.split(value.strip().removeprefix("[").removesuffix("]"))
    elif not isinstance(value, list | tuple):
        value = [value]
    return tuple(filter(None, (str(entry).strip().strip("\"'") for entry in cast(Iterable[Any], value))))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it must be a string")
    return value


def _model(value: Any) -> str | None:
    """Return the model's name without a provider prefix; None for the parent's model."""
    name = _text(value).strip()
    return None if name.lower() in ("", "inherit", "default") else full_name(name.rpartition("/")[2])


def _one_of(choices: Mapping[str, Any], value: Any) -> Any:
    if (choice := choices.get(str(value).lower())) is None:
        raise ValueError(f"must be one of {', '.join(choices)}, not {str(value)[:60]!r}")
    return choice


def _flag(value: Any) -> bool:
    flags = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if (flag := flags.get(str(value).lower())) is None:
        raise ValueError(f"must be true or false, not {str(value)[:60]!r}")
    return flag


def _number(value: Any, factor: float = 1) -> float:
    try:
        number = float(value) * factor
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    if isinstance(value, bool) or not 0 < number < 1e12:
        raise ValueError(f"must be a number above 0, not {str(value)[:60]!r}")
    return number


def _count(value: Any) -> int:
    return max(1, int(_number(value)))


def _forks(value: Any) -> bool:
    # A number asks for a part of the conversation, but only the whole is in the cache, so it counts like "all".
    return str(value).lower() not in ("none", "0", "false")


_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "agents": ("agents", _listed),
    "skills": ("skills", _listed),
    "model": ("model", _model),
    **dict.fromkeys(
        ("permissionmode", "approvalmode", "approval_mode", "mode"), ("mode", partial(_one_of, _MODES))
    ),
    **dict.fromkeys(("maxturns", "max_turns", "maxsteps", "steps"), ("max_turns", _count)),
    **dict.fromkeys(("autocompactwindow", "window"), ("window", _count)),
    "timeout": ("timeout", _number),
    "timeout_mins": ("timeout", partial(_number, factor=60)),
    "memory": ("memory", partial(_one_of, {scope: scope for scope in get_args(Scope)})),
    "background": ("background", _flag),
    "isolation": ("isolation", partial(_one_of, {"worktree": "worktree"})),
    "context": ("fork", partial(_one_of, {"fork": True, "fresh": False})),
    "fork_turns": ("fork", _forks),
    **dict.fromkeys(("initialprompt", "initial_prompt"), ("initial_prompt", _text)),
}
"""For each field of a file, in lower case: our field, and a function that reads its value or raises `ValueError`."""


def our_tool(name: str) -> str:
    """Return our name for a tool; tools of MCP servers keep theirs, and unknown ones give an empty name."""
    return _TOOLS.get(name.lower()) or (name if name.startswith("mcp_") else "")


def _pattern(tool: str, pattern: str) -> str:
    """Convert an OpenCode command pattern to the syntax of our rules."""
    if tool == "Shell" and pattern.endswith(" *"):
        return f"{pattern[:-2]}:*"
    return pattern


def _named(tool: str, entries: Iterable[str]) -> bool:
    for entry in entries:
        name = entry.partition("(")[0]
        if name == tool or (name.endswith("*") and tool.startswith(name[:-1])):
            return True
    return False
