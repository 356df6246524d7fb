"""The former place of `sevenfold.wire.reader`; its names still work here, with a warning."""

from __future__ import annotations

import warnings

from sevenfold.wire import reader


def __getattr__(name: str) -> object:
    if name.startswith("__") or not hasattr(reader, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"import {name} from sevenfold.wire.reader; sevenfold.providers.reader is its former place",
        DeprecationWarning,
        stacklevel=2,
    )
    value: object = getattr(reader, name)
    return value
