"""Which switches are in force, given how all of them are set.

Some switches are parts of others: with ``layers`` off no layer runs, with ``compaction`` off nothing compacts.
And some take over from others: while ``collapse`` or ``reactive_only`` is on, auto-compaction stands down. Every
combination has a meaning, so that any switch can be flipped at any time.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from sevenfold.settings.descriptions import described
from sevenfold.settings.fields import Settings


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
