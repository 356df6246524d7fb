"""The former place of `sevenfold.agent.agent_events`; its names still work here, with a warning."""

from __future__ import annotations

import warnings

from sevenfold.agent import agent_events


def __getattr__(name: str) -> object:
    if name.startswith("__") or not hasattr(agent_events, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"import {name} from sevenfold.agent.agent_events; sevenfold.agent.events is its former place",
        DeprecationWarning,
        stacklevel=2,
    )
    value: object = getattr(agent_events, name)
    return value
