"""`sevenfold agents`: lists or checks the sub-agents that are defined for a folder."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection
from pathlib import Path

from sevenfold.agent.team.definitions import AgentDefinition, Definitions, find_definitions
from sevenfold.cli.text import add_folder, clean
from sevenfold.errors import UserError
from sevenfold.profiles import find, full_name
from sevenfold.stores.trust import Trust, user_folder


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("action", nargs="?", choices=("list", "check"), default="list")
    command.add_argument("name", nargs="?")
    add_folder(command, exists=True)


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns 1 if ``check`` finds a file that cannot be used, else 0."""
    all_definitions = definitions(options.folder)
    if options.name is not None and options.name not in all_definitions.known:
        raise UserError(
            f"there is no agent {options.name!r}; there are: {', '.join(all_definitions.known)}"
        )
    chosen = [agent for agent in all_definitions.known.values() if options.name in (None, agent.name)]
    check = options.action == "check"
    lines = (
        _check(chosen, all_definitions, in_detail=options.name is not None) if check else listing(chosen)
    )
    sys.stdout.write("".join(f"{clean(line)}\n" for line in lines))
    if all_definitions.problems and not check:
        sys.stderr.write(
            f"not everything is used ({len(all_definitions.problems)}); see: sevenfold agents check\n"
        )
    return 1 if all_definitions.problems and check else 0


def definitions(folder: Path) -> Definitions:
    """The agents that are defined for a folder."""
    user = user_folder(os.environ)
    return find_definitions(folder, user, Trust(user).covers)


def listing(agents: Collection[AgentDefinition]) -> list[str]:
    """A line for each agent."""
    width = max(len(agent.name) for agent in agents)
    return [f"{agent.name:<{width}}  {_gist(agent)} ({agent.path or 'built in'})" for agent in agents]


def _gist(agent: AgentDefinition) -> str:
    return agent.description if len(agent.description) <= 100 else f"{agent.description[:99]}…"


def _check(agents: list[AgentDefinition], all_definitions: Definitions, *, in_detail: bool) -> list[str]:
    lines: list[str] = []
    for agent in agents:
        lines.append(f"{agent.name}: {agent.path or 'built in'}")
        lines += [f"  {name}: {value}" for name, value in _understood(agent)] if in_detail else []
        problems = [f"  ignored: {field}: {why}" for field, why in agent.ignored.items()]
        if agent.model is not None and not find(full_name(agent.model)).known:
            problems.append(
                f"  not known: the model {agent.model}; check its name, or it may not be served"
            )
        lines += problems
        if not problems:
            lines.append("  ok")
    if not in_detail:
        lines += [
            f"hidden by another {overridden.name}: {overridden.path}"
            for overridden in all_definitions.hidden
            if overridden.path
        ]
        lines += [f"not used: {path}: {why}" for path, why in all_definitions.problems.items()]
    return lines


def _understood(agent: AgentDefinition) -> list[tuple[str, str]]:
    facts: list[tuple[str, object]] = [
        ("dialect", agent.dialect),
        ("description", agent.description),
        ("tools", "all of its parent's" if agent.tools is None else ", ".join(agent.tools) or "none"),
        ("not these tools", ", ".join(agent.disallowed_tools)),
        *((f"{verdict} rules", ", ".join(rules)) for verdict, rules in agent.rules.items()),
        ("may start", None if agent.agents is None else ", ".join(agent.agents) or "none"),
        ("model", agent.model or "its parent's"),
        ("mode", agent.mode),
        ("at most", f"{agent.max_turns} turns" if agent.max_turns else None),
        ("time-out", f"{agent.timeout:g} s" if agent.timeout else None),
        ("skills", ", ".join(agent.skills)),
        ("memory", agent.memory),
        ("background", "yes" if agent.background else None),
        ("isolation", agent.isolation),
        ("context", {True: "the conversation (fork)", False: "fresh", None: None}[agent.fork]),
        ("window", f"{agent.window:,} tokens" if agent.window else None),
        ("prompt", f"{len(agent.prompt):,} characters"),
    ]
    return [(name, str(value)) for name, value in facts if value]
