"""What commands see of the environment: all of it but secrets.

A model reads what commands print, and commands run programs nobody has looked at, so the keys that this program
itself needs are none of their business. A variable is kept back if its name says that it holds a secret, or if
its value looks like one. This guards against accidents, not against malice: whoever runs as the same user has other
ways to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sevenfold.record import redact

ALL = "all"
WITHHELD = "SEVENFOLD_WITHHELD"
"""The variable that names those kept back, so that whoever misses one can find out why."""

_SECRET = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|APIKEY|CREDENTIALS?)\Z"
    r"|_(?:KEY|KEYS|KEY_ID|PWD|PAT|AUTH)\Z|(?:\A|_)SECRETS?(?:_|\Z)",
    re.IGNORECASE,
)


def for_commands(environ: Mapping[str, str], passed: str = "") -> dict[str, str]:
    """The environment without its secrets; ``passed`` names those that are wanted all the same, or is ``all``."""
    if passed.strip() == ALL:
        return dict(environ)
    wanted = {name.strip() for name in passed.split(",")}
    withheld = {name for name, value in environ.items() if name not in wanted and secret(name, value)}
    kept = {name: value for name, value in environ.items() if name not in withheld}
    return {**kept, WITHHELD: ",".join(sorted(withheld))} if withheld else kept


def secret(name: str, value: str) -> bool:
    """Does a variable hold a secret, by its name or by its looks?"""
    return bool(value) and (bool(_SECRET.search(name)) or bool(redact.find(f"{name}={value}")))
