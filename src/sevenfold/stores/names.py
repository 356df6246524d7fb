"""File names for things whose ids come from elsewhere."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)


def safe_name(foreign: str) -> str:
    """A file name that stands for ``foreign`` and for nothing else, whatever characters that holds.

    Plain ids stay as they are; others keep what can be read of them, with a hash that tells them apart.
    """
    if _PLAIN.fullmatch(foreign) and not _RESERVED.fullmatch(foreign):
        return foreign
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", foreign).strip("-")[:40]
    digest = hashlib.sha256(foreign.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{readable or 'id'}.{digest}"
