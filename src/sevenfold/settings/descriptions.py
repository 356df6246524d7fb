"""What is to be known about each setting, read off the class that declares them.

Switches depend on one another: with ``layers`` off no layer runs, with ``compaction`` off nothing compacts, and
while ``collapse`` or ``reactive_only`` is on, auto-compaction does not run. Every combination has a meaning, so
that any switch can be flipped at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_type_hints

from msgspec import Struct, inspect, structs

from sevenfold.settings.fields import MOST, Settings, Stage

Kind = Literal["switch", "whole number", "number", "choice", "text", "table", "list"]


class Setting(Struct, frozen=True, kw_only=True):
    """One setting."""

    name: str
    says: str
    """What it does, in a sentence."""
    kind: Kind
    unit: str
    stage: Stage
    latched: bool
    """Read once, when a session opens; otherwise it may be flipped while one runs."""
    default: Any
    allowed: str
    """What it takes, in words."""
    needs: tuple[str, ...]
    """Switches without which this one is off."""
    yields_to: tuple[str, ...]
    """Switches that, when on, take over from this one."""
    type: Any
    """Its type, with the limits of its values."""


@cache
def described() -> tuple[Setting, ...]:
    """All settings, in their order."""
    types, defaults = get_type_hints(Settings, include_extras=True), Settings()
    info = inspect.type_info(Settings)
    assert isinstance(info, inspect.StructType)
    return tuple(
        _described(field, types[field.name], getattr(defaults, field.name)) for field in info.fields
    )


@cache
def by_name() -> Mapping[str, Setting]:
    """All settings by their names."""
    return MappingProxyType({setting.name: setting for setting in described()})


def _described(field: inspect.Field, declared: Any, default: Any) -> Setting:
    meta = field.type
    assert isinstance(meta, inspect.Metadata)
    assert meta.extra is not None
    assert meta.extra_json_schema is not None
    kind, allowed = _allowed(meta.type, meta.extra["unit"])
    return Setting(
        name=field.name,
        says=meta.extra_json_schema["description"],
        kind=kind,
        default=default,
        allowed=allowed,
        type=declared,
        **meta.extra,
    )


def _allowed(kind: inspect.Type, unit: str) -> tuple[Kind, str]:
    """What sort of values a type has, and which."""
    match kind:
        case inspect.BoolType():
            return "switch", "true or false"
        case inspect.IntType():
            return "whole number", f"a whole number ({unit}), {_range(kind)}"
        case inspect.FloatType():
            return "number", f"a number ({unit}), {_range(kind)}"
        case inspect.StrType():
            return "text", "a text"
        case inspect.LiteralType():
            return "choice", " or ".join(f'"{value}"' for value in kind.values)
        case inspect.UnionType():  # of something and nothing
            return _allowed(next(one for one in kind.types if not isinstance(one, inspect.NoneType)), unit)
        case inspect.VarTupleType(item_type=entry):
            return "list", f"a list, each entry {_allowed(entry, unit)[1]}"
        case inspect.DictType(value_type=inspect.UnionType(types=values)):
            each = ", or ".join(_allowed(one, unit)[1] for one in values)
            return "table", f"a table of names, each with {each}"
    raise TypeError(f"{kind} is not a type for a setting")


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    """The limits of a number in words; the one that all numbers share goes without saying."""
    low = f"above {kind.gt:,}" if kind.gt is not None else f"{kind.ge:,} or more"
    if kind.lt is not None:
        return f"{low} and below {kind.lt:,}"
    return low if kind.le in (None, MOST) else f"{low} and at most {kind.le:,}"


def nearest(name: str) -> str | None:
    """The setting whose name is most like this one, if any is."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:100].lower().replace("-", "_"), by_name(), n=1)), None)


def overruled(settings: Settings) -> Mapping[str, str]:
    """The switches that are set to on and have no effect, each with the switch that is the reason."""
    reasons: dict[str, str] = {}
    on = [one for one in described() if one.kind == "switch" and getattr(settings, one.name)]
    for switch in on:
        if reason := next((other for other in switch.needs if not getattr(settings, other)), None):
            reasons[switch.name] = reason
    in_charge = {switch.name for switch in on} - reasons.keys()
    for switch in on:
        if reason := next((other for other in switch.yields_to if other in in_charge), None):
            reasons.setdefault(switch.name, reason)
    return reasons


def in_force(settings: Settings) -> Settings:
    """The same settings with every switch off that another one overrules.

    Takes them as they were set, not the result of an earlier call: what stands down for another switch would
    then look as if it had been switched off.
    """
    reasons = overruled(settings)
    return structs.replace(settings, **dict.fromkeys(reasons, False)) if reasons else settings
