"""What pictures and PDF files weigh, by the rules of the providers, read from the headers of their bytes.

A model sees a picture in patches or tiles, after the provider has scaled it to the resolution it works at. So the
tokens of a picture depend on its width and height alone, and those of a PDF on the number of its pages, each of which
is shown as a picture with its text. Nothing is decompressed but the index of a PDF, and of that only so much.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from math import ceil

from msgspec import Struct

PATCH = 28
"""Anthropic's patches have this many pixels a side; each is one token."""
STANDARD_EDGE = 1_568
"""A larger picture is scaled down until its longer side has this many pixels …"""
STANDARD_PATCHES = 1_568
"""… and it has at most this many patches."""
FINE_EDGE = 2_576
"""The same for models that see pictures at high resolution."""
FINE_PATCHES = 4_784

TILE = 512
"""OpenAI's tiles have this many pixels a side."""
TILED_EDGE = 2_048
"""A larger picture is scaled into a square of this size, then until its shorter side has `TILED_SHORT` pixels."""
TILED_SHORT = 768

_JPEG_WITH_SIZE = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of a JPEG after which its height and width follow."""
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xDA)})
"""Markers without a length."""

_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PAGES = re.compile(rb"/Type\s*/Pages(?![A-Za-z])")
_COUNT = re.compile(rb"/Count\s+(\d{1,9})")
_PACKED = re.compile(rb"/Type\s*/ObjStm.{0,400}?stream\r?\n", re.DOTALL)
_NEAR = 2_000
"""How many bytes around the type of an object its other entries are looked for in."""
_UNPACKED_LIMIT = 16 << 20
"""How many bytes of a PDF's index are unpacked."""


class PictureSize(Struct, frozen=True):
    """The width and height of a picture, in pixels."""

    width: int
    height: int

    @property
    def patches(self) -> int:
        """Its patches at the standard resolution."""
        return self._patches(STANDARD_EDGE, STANDARD_PATCHES)

    @property
    def fine_patches(self) -> int:
        """Its patches at high resolution."""
        return self._patches(FINE_EDGE, FINE_PATCHES)

    @property
    def tiles(self) -> int:
        """Its tiles, as OpenAI cuts it."""
        scale = min(1.0, TILED_EDGE / max(self.width, self.height))
        scale = min(scale, TILED_SHORT / min(self.width, self.height))
        return ceil(round(self.width * scale) / TILE) * ceil(round(self.height * scale) / TILE)

    def _patches(self, edge: int, limit: int) -> int:
        scale = min(1.0, edge / max(self.width, self.height))
        across = ceil(max(1, round(self.width * scale)) / PATCH)
        down = ceil(max(1, round(self.height * scale)) / PATCH)
        return min(across * down, limit)


def picture_size(data: bytes) -> PictureSize | None:
    """The size of a PNG, JPEG, GIF or WebP, from its first bytes; None if they do not tell."""
    width = 0
    height = 0
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        width = _big(data[16:20])
        height = _big(data[20:24])
    elif data[:6] in (b"GIF87a", b"GIF89a"):
        width = _little(data[6:8])
        height = _little(data[8:10])
    elif data.startswith(b"\xff\xd8"):
        width, height = _jpeg_size(data)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        width, height = _webp_size(data)
    return PictureSize(width, height) if width and height else None


def pdf_pages(data: bytes) -> int | None:
    """The number of pages of a PDF; None if it is none, or does not tell."""
    if b"%PDF-" not in data[:1_024]:
        return None
    pages = 0
    counted = 0
    for content in _pdf_objects(data):
        pages += len(_PAGE.findall(content))
        for tree in _PAGES.finditer(content):
            near = content[max(0, tree.start() - _NEAR) : tree.end() + _NEAR]
            counted = max(counted, *map(int, _COUNT.findall(near)), 0)
    # A file that was changed holds earlier versions of its pages too, so the count of its root says it better;
    # but a count alone, without the pages, can be anything.
    return min(pages, counted) or pages or None


def _pdf_objects(data: bytes) -> Iterator[bytes]:
    """The bytes of a PDF, then the objects that are packed in it."""
    yield data
    budget = _UNPACKED_LIMIT
    for packed in _PACKED.finditer(data):
        try:
            unpacked = zlib.decompressobj().decompress(data[packed.end() :], budget)
        except zlib.error:
            continue
        budget -= len(unpacked)
        yield unpacked
        if budget <= 0:
            return


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height from the frame header of a JPEG, which comes after any number of other segments."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            # Markers may be padded.
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_WITH_SIZE:
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        else:
            at += 2 + max(2, _big(data[at + 2 : at + 4]))
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    form = data[12:16]
    if form == b"VP8X" and len(data) >= 30:
        return _little(data[24:27]) + 1, _little(data[27:30]) + 1
    if form == b"VP8L" and len(data) >= 25:
        packed = _little(data[21:25])
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and len(data) >= 30:
        return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    return 0, 0
