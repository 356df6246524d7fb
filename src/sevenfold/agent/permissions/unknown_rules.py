"""Rules that name no tool there is: they protect or permit nothing, and whoever wrote them should know.

Tools of MCP servers come and go, so rules about them are never strange.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase

from sevenfold.agent.permissions.engine import Rules

SERVERS = "mcp__"


def strange_rules(rules: Rules, known: Collection[str]) -> Iterator[str]:
    """What is to be said of each rule that names none of the tools that are known."""
    letters = {name.lower(): name for name in known}
    for rule in dict.fromkeys((*rules.allow, *rules.ask, *rules.deny)):
        if rule.tool.startswith(SERVERS) or any(fnmatchcase(name, rule.tool) for name in known):
            continue
        near = get_close_matches(rule.tool.lower(), letters, 1)
        hint = f"did you mean {letters[near[0]]}?" if near else f"there are {', '.join(sorted(known))}"
        yield f"the rule {rule} has no effect, for no tool is called {rule.tool}: {hint}"
