"""Secrets whose values are known: they are found in several encodings, wherever they occur.

The values come from outside (environment variables with names like ``API_KEY``, `.env` files, a client's API key) and
do not change while a session is open, so that the same text is always masked the same way.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

MIN_LENGTH = 8
"""Shorter values, in characters, may be ordinary words."""
MIN_DISTINCT = 5
MIN_ENCODED_LENGTH = 10
"""Shorter encoded forms, in characters, may occur by chance."""
MAX_VALUES = 100
"""Maximum number of values in one session; every text is searched for each of their forms."""

_SECRET_NAME = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|APIKEY|CREDENTIALS?)\Z"
    r"|_(?:KEY|KEYS|KEY_ID|PWD|PAT|AUTH)\Z|(?:\A|_)SECRETS?(?:_|\Z)",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(r"[/~.$].*|\d+|[a-z]+|(?i:true|false|none|null|changeme|.*example.*|your[-_].*)")
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*(.*)$", re.MULTILINE)


def is_secret_name(name: str) -> bool:
    """Whether the name of a variable suggests that its value is secret."""
    return _SECRET_NAME.search(name) is not None


def secret_values(variables: Mapping[str, str]) -> set[str]:
    """The values of variables with secret names, without paths, numbers, plain words and placeholders."""
    return {value for name, value in variables.items() if is_secret_name(name) and _is_telling(value)}


def assignments(text: str) -> dict[str, str]:
    """The variables that a file such as ``.env`` sets."""
    return {name: value.strip().strip("\"'") for name, value in _ASSIGNMENT.findall(text)}


def _is_telling(value: str) -> bool:
    return len(value) >= MIN_LENGTH and len(set(value)) >= MIN_DISTINCT and not _NO_SECRET.fullmatch(value)


class KnownSecrets(Struct, frozen=True):
    """Secret values, each in the forms in which it may occur."""

    forms: Mapping[str, str] = {}
    """Form → the original value."""

    @classmethod
    def of(cls, values: Iterable[str]) -> KnownSecrets:
        """Those of the values that can be told from ordinary text, at most `MAX_VALUES`."""
        chosen = sorted(filter(_is_telling, set(values)))[:MAX_VALUES]
        original_of: dict[str, str] = {}
        for value in chosen:
            original_of.update(dict.fromkeys(_forms(value), value))
        return cls(original_of)


def _forms(value: str) -> Iterator[str]:
    """The value itself, and as JSON, hexadecimal and part of base64; percent-encoding is handled by `redact`."""
    raw = value.encode(errors="surrogatepass")
    yield value
    yield value.replace("\\", "\\\\").replace('"', '\\"').replace("/", "\\/")
    yield raw.hex()
    yield raw.hex().upper()
    for preceding in range(3):
        # Base64 encodes three bytes at a time, so the value may begin at any of three positions in a group. The text
        # before and after it decides the encoded characters at its edges, so these are left out.
        encoded = base64.b64encode(b"\0" * preceding + raw).decode()
        whole = encoded[(0, 2, 3)[preceding] : len(encoded) - (0, 3, 2)[(preceding + len(raw)) % 3]]
        if len(whole) >= MIN_ENCODED_LENGTH:
            yield whole
            yield whole.replace("+", "-").replace("/", "_")
