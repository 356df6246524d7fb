"""Pictures and PDF files are read from their headers and weighed by the providers' rules."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.media import PictureSize, pdf_pages, picture_size
from sevenfold.record.weight import FLAT, Estimator, measure


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\2\0\0\0"


def jpeg(width: int, height: int, notes: int = 0) -> bytes:
    """A JPEG with so many segments of camera notes before the header of its frame."""
    note = b"\xff\xe1" + struct.pack(">H", 60_000) + b"\xff\xc0" * 29_999
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + b"\3" + b"\0" * 9
    return b"\xff\xd8" + note * notes + b"\xff\xff" + frame


def webp(form: bytes, header: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + form + b"\0\0\0\0" + header + b"\0" * 20


PICTURES = [
    png(640, 480),
    jpeg(640, 480),
    jpeg(640, 480, notes=3),
    b"GIF89a" + struct.pack("<HH", 640, 480) + b"\0\0\0",
    webp(b"VP8X", b"\0\0\0\0" + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
    webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14)),
    webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480)),
]


def pdf(pages: int, *, packed: bool = False, counted: int | None = None) -> bytes:
    """A PDF of this many pages, whose objects may be packed into a compressed stream."""
    count = pages if counted is None else counted
    objects = (
        b"<< /Type /Pages /Kids [] /Count %d >>\n" % count + b"<< /Type /Page /Parent 1 0 R >>\n" * pages
    )
    if packed:
        squeezed = zlib.compress(objects)
        objects = (
            b"2 0 obj << /Type /ObjStm /N 3 /Filter /FlateDecode >>\nstream\r\n" + squeezed + b"\nendstream"
        )
    return b"%PDF-1.7\n" + objects + b"\n%%EOF"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def image(data: bytes) -> Block:
    source = {"type": "base64", "media_type": "image/png", "data": encoded(data)}
    return blocks.read(blocks.encode_json({"type": "image", "source": source}))


def document(**source: object) -> Block:
    return blocks.read(blocks.encode_json({"type": "document", "source": source}))


def tokens(block: Block, tokenizer: str = "claude-a") -> int:
    return round(Estimator.of(tokenizer).tokens(measure(block)))


@pytest.mark.spec("S21.1")
@pytest.mark.parametrize("data", PICTURES)
def test_the_size_of_a_picture_is_read_from_the_header_of_its_file(data: bytes) -> None:
    assert picture_size(data) == PictureSize(640, 480)
    assert tokens(image(data)) == 23 * 18


@pytest.mark.spec("S21.1")
@pytest.mark.parametrize(
    ("width", "height", "standard", "fine", "tiled"),
    [
        (1, 1, 1, 1, 255),
        (200, 200, 64, 64, 255),
        (1_000, 1_000, 1_296, 1_296, 765),
        (1_092, 1_092, 1_521, 1_521, 765),
        (4_000, 3_000, 1_568, 4_784, 765),
        (2_048, 4_096, 1_568, 4_232, 1_105),
        (10_000, 10, 56, 92, 765),
    ],
)
def test_a_picture_weighs_what_its_size_costs_with_each_provider(
    width, height, standard, fine, tiled
) -> None:
    picture = image(png(width, height))
    assert tokens(picture) == standard
    assert tokens(picture, "claude-b") == fine
    assert tokens(picture, "openai") == tiled


@pytest.mark.spec("S21.1")
@pytest.mark.parametrize("packed", [False, True])
def test_a_pdf_weighs_and_counts_as_its_pages(packed: bool) -> None:
    assert pdf_pages(pdf(37, packed=packed)) == 37
    paper = document(type="base64", media_type="application/pdf", data=encoded(pdf(37, packed=packed)))
    assert (measure(paper).images, measure(paper).unseen) == (37, 0)
    assert tokens(paper) == 37 * 3_700


@pytest.mark.spec("S21.1")
def test_a_part_of_a_pdf_that_cannot_be_unpacked_does_not_hide_the_pages_in_the_parts_behind_it() -> None:
    locked = b"1 0 obj << /Type /ObjStm /N 1 /Filter /FlateDecode >>\nstream\r\nlocked\nendstream\n"
    assert pdf_pages(locked + pdf(12, packed=True)) == 12


@pytest.mark.spec("S21.1")
def test_a_pdf_that_holds_earlier_versions_of_its_pages_counts_those_of_its_root() -> None:
    assert pdf_pages(pdf(30, counted=10)) == 10
    assert pdf_pages(pdf(3, counted=999_999_999)) == 3
    assert pdf_pages(pdf(0, counted=5)) is None


@pytest.mark.spec("S21.1")
@pytest.mark.parametrize(
    "block",
    [
        image(b"\x89PNG\r\n\x1a\n"),
        image(b"nothing a header is known of"),
        blocks.read(b'{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}'),
        blocks.read(b'{"type":"image","source":{"type":"base64","data":"not base64, at all"}}'),
        document(type="file", file_id="file_1"),
        document(type="base64", media_type="application/pdf", data=encoded(b"%PDF-1.7 locked")),
    ],
)
def test_what_no_header_tells_weighs_a_flat_figure(block: Block) -> None:
    assert tokens(block) == FLAT
    assert measure(block).images == 1


@pytest.mark.spec("S21.1")
@given(
    st.sampled_from([*PICTURES, pdf(3), pdf(3, packed=True)]), st.integers(0, 400), st.binary(max_size=30)
)
def test_no_damaged_file_upsets_the_scales(whole: bytes, cut: int, noise: bytes) -> None:
    damaged = whole[:cut] + noise + whole[cut + len(noise) :]
    assert tokens(image(damaged)) >= 0
    assert tokens(document(type="base64", media_type="application/pdf", data=encoded(damaged))) >= 0


# Documents that hold their text themselves

PROSE = "The harbour office closes at five, and the ferry does not wait. " * 400


@pytest.mark.spec("S21.2")
@pytest.mark.parametrize(
    "source",
    [
        {"type": "text", "media_type": "text/plain", "data": PROSE},
        {"type": "content", "content": PROSE},
        {"type": "content", "content": [{"type": "text", "text": PROSE}]},
        {"type": "base64", "media_type": "text/plain", "data": encoded(PROSE.encode())},
    ],
)
def test_a_document_of_text_weighs_what_its_text_weighs(source: dict[str, object]) -> None:
    paper = document(**source)
    assert tokens(paper) == tokens(blocks.text(PROSE))
    assert measure(paper).images == 0
    inside = blocks.result("toolu_1", [{"type": "document", "source": source}])
    assert tokens(inside) == tokens(blocks.result("toolu_1", PROSE))


@pytest.mark.spec("S21.2")
def test_a_document_weighs_with_its_title_and_the_pictures_in_it() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": encoded(png(280, 280))}}
    parts = [{"type": "text", "text": PROSE}, picture]
    plain = document(type="content", content=parts)
    titled = {"type": "document", "title": PROSE, "source": {"type": "content", "content": parts}}
    assert tokens(plain) == tokens(blocks.text(PROSE)) + 100
    assert tokens(blocks.read(blocks.encode_json(titled))) == pytest.approx(
        tokens(plain) + tokens(blocks.text(PROSE)), abs=1
    )
    assert measure(plain).images == 1
