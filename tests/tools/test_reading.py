"""Read: lines, pictures, notebooks, and all that is not what it seems."""

from __future__ import annotations

import base64
import json
import os

import pytest

from sevenfold.agent.tools.context import ROOM
from sevenfold.agent.tools.files import MOST_BYTES, version
from sevenfold.agent.tools.output import FileRead
from sevenfold.agent.tools.read import LONGEST_LINE, MOST_IMAGE_BYTES, MOST_LINES, ReadTool
from tests.tools.handling import Hands, context_in

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def hands(tmp_path):
    return Hands(context_in(tmp_path), ReadTool())


def test_lines_come_with_their_numbers(hands, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n\nfour")
    assert hands.good("Read", path="a.txt") == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"


def test_a_range_shows_its_lines_and_how_to_go_on(hands, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(map(str, range(1, 11))))
    shown = hands.good("Read", path="a.txt", offset=3, limit=2)
    assert shown.splitlines()[:2] == ["     3\t3", "     4\t4"]
    assert "lines 3 to 4 of 10 lines" in shown
    assert "offset=5" in shown


def test_a_range_behind_the_end_says_where_the_end_is(hands, tmp_path):
    (tmp_path / "a.txt").write_text("x\ny\n")
    assert "only 2 lines" in hands.good("Read", path="a.txt", offset=9)


def test_an_empty_file_is_said_to_be_empty(hands, tmp_path):
    (tmp_path / "a.txt").touch()
    assert "is empty" in hands.good("Read", path="a.txt")


@pytest.mark.parametrize(
    "content",
    [b"x\n" * 1_000_000, b"x" * 5_000_000, (b"y" * 10_000 + b"\n") * 300, b"\xff" * 4_000_000],
    ids=["many lines", "one line", "long lines", "no UTF-8"],
)
def test_what_is_shown_of_a_large_file_stays_within_bounds(hands, tmp_path, content):
    (tmp_path / "big").write_bytes(content)
    output = hands("Read", path="big")
    assert not output.is_error
    assert len(output.content) < ROOM + 300
    assert output.content.count("\n") <= MOST_LINES
    assert not output.facts[0].whole


def test_a_file_too_large_for_memory_is_read_in_ranges(hands, tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        for _ in range(MOST_BYTES // 1_000_000 + 2):
            file.write(b"0123456789abcde\n" * 62_500)
    shown = hands("Read", path="huge", offset=5, limit=2)
    assert shown.content.startswith("     5\t0123456789abcde\n     6\t")
    assert "-" in shown.facts[0].version
    assert not shown.facts[0].whole


def test_a_long_line_is_cut_and_says_so(hands, tmp_path):
    (tmp_path / "a").write_text("z" * (LONGEST_LINE + 1))
    output = hands("Read", path="a")
    assert "cut here" in output.content
    assert not output.facts[0].whole


def test_bytes_that_are_no_characters_are_marked(hands, tmp_path):
    (tmp_path / "a").write_bytes(b"caf\xe9\r\nok\r\n")
    assert hands.good("Read", path="a") == "     1\tcaf\ufffd\n     2\tok"


def test_utf_16_is_text(hands, tmp_path):
    (tmp_path / "a").write_bytes("grün\nblau".encode("utf-16"))
    assert "     2\tblau" in hands.good("Read", path="a")


@pytest.mark.parametrize("content", [b"\x7fELF\0\0\0", b"abc\0def"])
def test_what_is_no_text_is_refused(hands, tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert "is not text" in hands.bad("Read", path="a")


def test_a_pdf_is_refused_with_a_way_out(hands, tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n\0")
    assert "pdftotext" in hands.bad("Read", path="a.pdf")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\0", "image/jpeg"),
        (b"GIF89a\0\0", "image/gif"),
        (b"RIFF\0\0\0\0WEBP\0", "image/webp"),
    ],
)
def test_a_picture_is_shown_as_one_whatever_its_name(hands, tmp_path, content, kind):
    (tmp_path / "a.txt").write_bytes(content)
    (block,) = hands("Read", path="a.txt").content
    assert (block["type"], block["source"]["media_type"]) == ("image", kind)
    assert base64.b64decode(block["source"]["data"]) == content


def test_a_picture_that_is_too_large_is_refused(hands, tmp_path):
    (tmp_path / "a.png").write_bytes(PNG + b"\1" * MOST_IMAGE_BYTES)
    assert "smaller" in hands.bad("Read", path="a.png")


def test_a_notebook_is_shown_by_cells_with_what_they_printed(hands, tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title"], "id": "m"},
        {
            "cell_type": "code",
            "source": "1/0",
            "outputs": [
                {"output_type": "stream", "text": ["hello\n", "x" * 10_000]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<fig>"}},
                {
                    "output_type": "error",
                    "ename": "ZeroDivisionError",
                    "evalue": "by zero",
                    "traceback": ["\x1b[31mat"],
                },
            ],
        },
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    shown = hands.good("Read", path="n.ipynb")
    for part in (
        "# Title",
        "1/0",
        "hello",
        "[image/png]",
        "<fig>",
        "ZeroDivisionError: by zero",
        "more characters",
    ):
        assert part in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cells": [1]}', "[" * 100_000])
def test_a_broken_notebook_is_refused(hands, tmp_path, content):
    (tmp_path / "n.ipynb").write_text(content)
    assert "notebook" in hands.bad("Read", path="n.ipynb")


def test_a_missing_file_names_its_neighbours(hands, tmp_path):
    (tmp_path / "readme.md").touch()
    assert "readme.md" in hands.bad("Read", path="redme.md")
    assert "and no folder" in hands.bad("Read", path="no/such/file")


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800", "x" * 5_000])
def test_what_cannot_be_a_path_is_an_error_result(hands, path):
    assert hands.bad("Read", path=path)


def test_a_folder_a_pipe_and_a_device_hold_nobody_up(hands, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "named pipe" in hands.bad("Read", path="pipe")
    assert "a folder" in hands.bad("Read", path=".")
    assert "a device" in hands.bad("Read", path="/dev/zero")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_an_error_result(hands, tmp_path):
    (tmp_path / "a").touch(0o000)
    assert "cannot be read" in hands.bad("Read", path="a")


def test_permission_is_asked_for_where_a_link_leads(hands, tmp_path):
    (tmp_path / "out").symlink_to("/etc")
    requested = hands.box.permission_request("Read", {"path": "out/hostname"}, hands.context)
    assert (requested.subject, requested.named) == ("/etc/hostname", f"{tmp_path.resolve()}/out/hostname")


def test_dots_behind_a_link_are_counted_from_where_it_leads(hands, tmp_path):
    (tmp_path / "out").symlink_to("/usr/bin")
    assert (
        hands.box.permission_request("Read", {"path": "out/../share"}, hands.context).subject
        == "/usr/share"
    )


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_link_put_in_the_way_after_permission_is_not_followed(hands, tmp_path, swapped):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a").write_text("hidden")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "a").write_text("shown")
    requested = hands.box.permission_request("Read", {"path": "inner/a"}, hands.context)
    (inner / "a").unlink()
    if swapped == "file":
        (inner / "a").symlink_to(secret / "a")
    else:
        inner.rmdir()
        inner.symlink_to(secret)
    output = hands.box.run("Read", {"path": "inner/a"}, hands.context.for_call("c", permitted=requested))
    assert output.is_error
    assert "hidden" not in output.content


# Unchanged since


class Shows:
    """An engine that still has one reading in view."""

    def __init__(self) -> None:
        self.reads: dict[str, tuple[str, str]] = {}

    def __call__(self, path, version):
        call, known = self.reads.get(path, ("", ""))
        return call if known == version else None


@pytest.fixture
def shows(hands):
    shows = Shows()
    hands.context = context_in(hands.context.workspace, unchanged=shows)
    return shows


@pytest.mark.spec("S2.10")
def test_an_unchanged_file_is_not_shown_twice_while_the_first_reading_is_in_view(hands, tmp_path, shows):
    (tmp_path / "a").write_text("content")
    (fact,) = hands("Read", path="a").facts
    assert fact == FileRead(str(tmp_path.resolve() / "a"), fact.version, whole=True)
    shows.reads[fact.path] = ("call-7", fact.version)
    again = hands("Read", path="a")
    assert "content" not in again.content
    assert "still in your context" in again.content
    assert (again.facts[0].whole, again.facts[0].again) == (False, "call-7")


@pytest.mark.spec("S2.10")
def test_a_changed_file_or_a_range_of_it_is_shown_again(hands, tmp_path, shows):
    (tmp_path / "a").write_text("content")
    (fact,) = hands("Read", path="a").facts
    shows.reads[fact.path] = ("call-7", fact.version)
    assert "content" in hands.good("Read", path="a", offset=1)
    (tmp_path / "a").write_text("c0ntent")
    os.utime(tmp_path / "a", ns=(0, 0))
    assert "c0ntent" in hands.good("Read", path="a")


@pytest.mark.parametrize("end", ["", "\n"])
def test_lines_that_are_not_shown_are_counted(hands, tmp_path, end):
    (tmp_path / "a").write_text("x\n" * 4_999 + "x" + end)
    assert "of 5,000 lines" in hands.good("Read", path="a")
    assert hands("Read", path="a").facts[0].version == version((tmp_path / "a").read_bytes())
