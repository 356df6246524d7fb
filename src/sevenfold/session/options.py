"""Checks the options of a session or an agent when they are passed in.

Python accepts any keyword in ``**options``, so a misspelt one would be silently ignored: a rule that forbids nothing, a
limit that limits nothing. And a value of the wrong type would fail far from its cause. An option that is None counts
as left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from inspect import iscoroutinefunction
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

from sevenfold.errors import InputError
from sevenfold.providers.registry import wires

Checked = TypeVar("Checked", bound=Mapping[str, Any])
Fits = Callable[[Any], bool]
Needed = str | Callable[[], str]
"""Describes valid values in an error message; a function if the description can change."""


def checked(
    options: Checked,
    known: type[Any],
    *,
    awaits: bool = False,
    fitting: Mapping[str, tuple[Fits, Needed]] = {},
) -> Checked:
    """Return the options that are not None; raises an `InputError` for an option that is unknown or invalid.

    ``awaits``: hooks must be those of an async session. ``fitting`` has checks for options that sessions lack.
    """
    tests = {**_FITTING, **fitting}
    # An iterator would be exhausted by the check.
    values = {
        name: tuple(value) if isinstance(value, Iterator) else value for name, value in options.items()
    }
    for name, value in values.items():
        if name not in known.__annotations__:
            raise InputError(unknown("option", name, known.__annotations__))
        if value is not None and name in tests and not tests[name][0](value):
            description = tests[name][1]
            needed = description() if callable(description) else description
            raise InputError(f"{name} is {_shown(value)}; it must be {needed}")
    chosen = values.get("hooks")
    if chosen is not None and not _fires(chosen, awaits=awaits):
        raise InputError(f"hooks is {_shown(chosen)}; it must be a sevenfold.{'Async' * awaits}Hooks")
    return cast(Checked, {name: value for name, value in values.items() if value is not None})


def check_name(name: object, option: str) -> None:
    """Raise `InputError` unless the value is a string that can be a name."""
    if not (isinstance(name, str) and name.strip() and name.encode(errors="replace").decode() == name):
        raise InputError(f"{option} is {_shown(name)}; it must be a non-empty string")


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """An error message for an unknown name, with the closest known name or a list of all."""
    near = get_close_matches(str(name), list(known), 1, 0.5)
    meant = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
    return f"there is no {kind} {name!r}{meant}"


def _fires(hooks: Any, *, awaits: bool) -> bool:
    fire = getattr(hooks, "fire", None)
    return callable(fire) and iscoroutinefunction(fire) is awaits


def one_of(*values: str) -> Fits:
    """A check that accepts only these strings."""
    return lambda value: isinstance(value, str) and value in values


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _amount(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and isfinite(value) and value >= 0


def _several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _rules(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_several(lines) for lines in value.values())


def _having(*names: str) -> Fits:
    return lambda value: all(callable(getattr(value, name, None)) for name in names)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


_MAPPING: tuple[Fits, str] = (lambda value: isinstance(value, Mapping), "a mapping")
_NAMES: tuple[Fits, str] = (
    lambda value: _several(value) and all(isinstance(name, str) for name in value),
    "a list of names",
)
_COUNT: tuple[Fits, str] = (lambda value: _whole(value) and value > 0, "a whole number above 0")
_CALLABLE: tuple[Fits, str] = (callable, "a function")
_FITTING: Mapping[str, tuple[Fits, Needed]] = MappingProxyType(
    {
        "tools": (_several, "a list of tools"),
        "max_tokens": (_whole, "a whole number"),
        "max_turns": _COUNT,
        "max_output_tokens": _COUNT,
        "max_usd": (_amount, "an amount of dollars, 0 or more"),
        "settings": (
            lambda value: isinstance(value, Mapping) or _having("current")(value),
            "a mapping from settings to values, or a source of settings",
        ),
        "listen": (
            lambda value: _several(value) and all(map(callable, value)),
            "a list of functions, each of which is called with an event",
        ),
        # Evaluated for each check, because providers can be registered at any time.
        "wire": (lambda value: value in wires(), lambda: f"one of {', '.join(wires())}"),
        "lifetime": (one_of("5m", "1h"), "5m or 1h"),
        **dict.fromkeys(("thinking", "fields", "tool_choice", "metadata", "output_config"), _MAPPING),
        "stop_sequences": _NAMES,
        "betas": _NAMES,
        "clock": (_having("now"), "something with a method now()"),
        "ids": (_having("new"), "something with a method new()"),
        "source": (lambda value: isinstance(value, str) and bool(value), "a name, such as main or sdk"),
        "name": (lambda value: isinstance(value, str) and bool(value), "a name"),
        "folder": (lambda value: isinstance(value, str | Path), "a path"),
        "rules": (_rules, "a mapping from allow, ask and deny to lists of rules"),
        "within_quota": _CALLABLE,
        "consent": _CALLABLE,
        "ask": _CALLABLE,
        "mentions": (lambda value: isinstance(value, bool), "True or False"),
    }
)
