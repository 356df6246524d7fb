"""What decoding bytes of unknown origin may raise.

Not in `sevenfold.errors`, which every command imports before it knows what it will do: that module imports nothing.
"""

from __future__ import annotations

import msgspec

NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The bytes are no JSON, no UTF-8, or nested too deeply."""
