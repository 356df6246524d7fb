"""The colours of the inspector's charts, as people see them who do not see all colours."""

from __future__ import annotations

import itertools
import re

import pytest

from sevenfold.doors.inspector.server import ASSETS

pytestmark = pytest.mark.spec("S33.18")
# How the cones of the retina that are left respond, in linear RGB (Machado, Oliveira and Fernandes, 2009).
SEEN_BY = {
    "all colours": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
BANDS = ("c0", "c1", "c2", "c3", "c4", "c5", "c6", "r0", "r1", "r2", "ro", "other", "unlogged")
BILLING = ("read", "written", "fresh")
LEAST = 9.0
"""The least distance of two colours that touch: about four times what is just noticed."""


def palettes() -> dict[str, dict[str, str]]:
    """The colours of both themes by their names."""
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root(?:\[data-theme=\"dark\"\])? \{(.*?)\}", style, re.DOTALL)[:2]
    named = [dict(re.findall(r"--([\w]+): (#[0-9a-f]{6})", block)) for block in (light, dark)]
    return {"light": named[0], "dark": named[0] | named[1]}


def lab(colour: str, cones: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """A colour as it is seen, where distances are what people perceive (CIE Lab)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    red, green, blue = (
        min(1.0, max(0.0, sum(weight * part for weight, part in zip(row, linear, strict=True))))
        for row in cones
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def distance(first: str, second: str, cones: tuple[tuple[float, ...], ...]) -> float:
    pairs = zip(lab(first, cones), lab(second, cones), strict=True)
    return float(sum((one - other) ** 2 for one, other in pairs) ** 0.5)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("eyes", SEEN_BY)
def test_bands_that_touch_in_a_chart_can_be_told_apart(theme: str, eyes: str) -> None:
    colours = palettes()[theme]
    faults = [
        f"{first} and {second}: {apart:.1f}"
        for names in (BANDS, BILLING)
        for first, second in itertools.pairwise(names)
        if (apart := distance(colours[first], colours[second], SEEN_BY[eyes])) < LEAST
    ]
    assert not faults
