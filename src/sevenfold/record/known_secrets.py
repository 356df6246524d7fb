"""Secrets whose values are known: they are found in several encodings, wherever they occur.

A session's gate (`sevenfold.conversation.gate`) masks them. It gets the values when the session is opened, from
environment variables with names like ``API_KEY``, from ``.env`` files and from the client's API key. They do not change
while the session is open, so the same text is always masked the same way.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

MIN_LENGTH = 8
"""Shorter values, in characters, may be ordinary words."""
MIN_DISTINCT_CHARS = 5
"""Values with fewer different characters, such as ``--------``, are separators or placeholders."""
MIN_ENCODED_LENGTH = 10
"""Shorter encoded forms, in characters, may occur by chance."""
MAX_VALUES = 100
"""Maximum number of values in one session; every text is searched for each of their forms."""

_SECRET_NAME = re.compile(
    r"""
      # Words that are clear in themselves may end any name: DBPASSWORD, GITHUB_TOKEN.
      (?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|APIKEY|CREDENTIALS?)\Z
      # Short words must be a part of their own: API_KEY and GIT_AUTH, but not MONKEY, and not PWD alone.
    | _(?:KEY|KEYS|KEY_ID|PWD|PAT|AUTH)\Z
      # This word alone may also stand at the beginning or in the middle: SECRET_SALT, APP_SECRETS_V2.
    | (?:\A|_)SECRETS?(?:_|\Z)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NOT_SECRET = re.compile(
    r"""
      # An absolute path. A key in base64 may begin with a slash, too, so the first folder must be a usual one,
      # every folder must be a lower-case name, or the end must be that of a usual file.
      /(?:Applications|Library|System|Users|Volumes|etc|home|mnt|opt|private|root|run|srv|tmp|usr|var)(?:/.*)?
    | (?:/[a-z][a-z0-9._-]*)+/?
    | /.*\.(?:cer|conf|crt|env|ini|jks|json|key|p12|pem|pfx|pub|sock|toml|txt|ya?ml)
      # A path in a home folder, a relative path, a hidden file
    | ~[a-z0-9_-]*/.* | \.{1,2}/.* | \.[a-z][a-z0-9_-]*(?:[./].*)?
      # A reference to another variable or to a command's output. A hash such as $2b$12$… is none.
    | \$(?:[A-Z_][A-Z0-9_]*|[a-z_]+)(?:/.*)? | \$[{(].*
      # A number, a plain word
    | \d+ | [a-z]+
      # A switch, a placeholder
    | (?i:true|false|none|null|changeme|.*example.*|your[-_].*)
    """,
    re.VERBOSE,
)
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*(.*)$", re.MULTILINE)
_QUOTED = re.compile(
    r"""
    (?P<quote>["'])(?P<value>.*?)
    (?<!\\)(?P=quote)  # A quote after a backslash belongs to the value.
    \s*(?:\#.*)?       # Only a comment may follow.
    """,
    re.VERBOSE,
)
_COMMENT = re.compile(r"(?<=\s)#")
"""Where a comment begins behind a value without quotes; in ``a#b`` the sign belongs to the value."""

# Base64 writes three bytes as four characters. Characters at the edges of a value share bits with what is around it:
_SHARED_AT_START = (0, 2, 3)
"""How many of the first characters share bits with 0, 1 or 2 bytes before the value in its group of three."""
_SHARED_AT_END = (0, 3, 2)
"""How many of the last characters, with padding, share bits with what follows a last group of 0, 1 or 2 bytes."""


def is_secret_name(name: str) -> bool:
    """Whether the name of a variable suggests that its value is secret."""
    return _SECRET_NAME.search(name) is not None


def secret_values(variables: Mapping[str, str]) -> set[str]:
    """The values of variables with secret names, without paths, numbers, plain words and placeholders."""
    return {value for name, value in variables.items() if is_secret_name(name) and _is_distinctive(value)}


def parse_dotenv(text: str, *, comments: bool = True) -> dict[str, str]:
    """The variables that a file such as ``.env`` sets; escapes within quotes stay as they are written.

    In some other formats a ``#`` behind a value belongs to it: without ``comments`` the whole line counts.
    """
    values = {name: value.strip() for name, value in _ASSIGNMENT.findall(text)}
    if not comments:
        return {name: value.strip("\"'") for name, value in values.items()}
    return {name: _dotenv_value(value) for name, value in values.items()}


def _dotenv_value(written: str) -> str:
    """The value without its quotes and the comment behind it."""
    quoted = _QUOTED.fullmatch(written)
    if quoted is not None:
        return quoted["value"]
    if written.startswith(("'", '"')):
        # The quotes end on a later line, or more follows them: too much is better than a part of the secret.
        return written.strip("\"'")
    if written.startswith("#"):
        return ""
    return _COMMENT.split(written, maxsplit=1)[0].strip().strip("\"'")


def _is_distinctive(value: str) -> bool:
    """Whether a value can be told from ordinary text, so that masking it hides nothing else."""
    return (
        len(value) >= MIN_LENGTH
        and len(set(value)) >= MIN_DISTINCT_CHARS
        and not _NOT_SECRET.fullmatch(value)
    )


class KnownSecrets(Struct, frozen=True):
    """Secret values, each in the forms in which it may occur."""

    value_by_form: Mapping[str, str] = {}
    """Form → the original value."""
    left_out: int = 0
    """The number of values beyond `MAX_VALUES`, which are not searched for."""

    @classmethod
    def of(cls, values: Iterable[str]) -> KnownSecrets:
        """Those of the values that can be told from ordinary text; beyond `MAX_VALUES`, the simplest are left out."""
        # Values need not come from `secret_values`: a client's API key is handed over as it is.
        distinctive = filter(_is_distinctive, set(values))
        most_random_first = sorted(distinctive, key=lambda value: (-len(set(value)), -len(value), value))
        value_by_form: dict[str, str] = {}
        for value in sorted(most_random_first[:MAX_VALUES]):
            value_by_form.update(dict.fromkeys(_forms(value), value))
        return cls(value_by_form, len(most_random_first[MAX_VALUES:]))


def _forms(value: str) -> Iterator[str]:
    """The value itself, and as JSON, hexadecimal and part of base64; percent-encoding is handled by `redact`."""
    raw = value.encode(errors="surrogatepass")
    yield value
    for ascii_only in (False, True):
        as_json = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield as_json
        yield as_json.replace("/", "\\/")  # Some writers of JSON escape slashes.
    yield raw.hex()
    yield raw.hex().upper()
    for preceding in range(3):
        encoded = base64.b64encode(b"\0" * preceding + raw).decode()
        end = len(encoded) - _SHARED_AT_END[(preceding + len(raw)) % 3]
        invariant = encoded[_SHARED_AT_START[preceding] : end]
        if len(invariant) >= MIN_ENCODED_LENGTH:
            yield invariant
            yield invariant.replace("+", "-").replace("/", "_")
