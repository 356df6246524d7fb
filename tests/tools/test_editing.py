"""Edit and Write: exactly what was asked for, on exactly what was read, and nothing else."""

from __future__ import annotations

import os
import stat
import threading

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sevenfold.agent.tools.edit import EditTool, WriteTool, diff, replaced
from sevenfold.agent.tools.files import MOST_BYTES, version, write
from sevenfold.agent.tools.read import ReadTool
from sevenfold.errors import Refused
from tests.tools.handling import Hands, context_in


@pytest.fixture
def hands(tmp_path):
    return Hands(context_in(tmp_path), ReadTool(), EditTool(), WriteTool())


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("one = 1\ntwo = 2\nthree = 3\n")
    return path


def test_an_edit_replaces_the_text_and_shows_the_difference(hands, file):
    hands.good("Read", path="a.py")
    output = hands("Edit", path="a.py", old="two = 2", new="two = 22")
    assert file.read_text() == "one = 1\ntwo = 22\nthree = 3\n"
    (fact,) = output.facts
    assert (fact.added, fact.removed, fact.created) == (1, 1, False)
    assert "-two = 2\n+two = 22" in fact.diff


def test_a_file_that_was_not_read_is_not_edited(hands, file):
    assert "not been read" in hands.bad("Edit", path="a.py", old="one", new="1")
    assert "not been read" in hands.bad("Write", path="a.py", content="")
    assert file.read_text().startswith("one = 1")


def test_a_file_that_changed_since_it_was_read_is_not_edited(hands, file):
    hands.good("Read", path="a.py")
    before = file.stat()
    file.write_text("one = 1\ntwo = 9\nthree = 3\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "changed since" in hands.bad("Edit", path="a.py", old="one", new="1")
    assert "changed since" in hands.bad("Write", path="a.py", content="")


def test_one_edit_after_another_needs_no_reading_between(hands, file):
    hands.good("Read", path="a.py")
    hands.good("Edit", path="a.py", old="one", new="1st")
    hands.good("Edit", path="a.py", old="1st", new="first")
    assert file.read_text().startswith("first = 1")


def test_text_that_stands_there_more_than_once_needs_to_be_clearer(hands, file):
    hands.good("Read", path="a.py")
    assert "occurs 3 times" in hands.bad("Edit", path="a.py", old=" = ", new="=")
    hands.good("Edit", path="a.py", old=" = ", new="=", replace_all=True)
    assert file.read_text() == "one=1\ntwo=2\nthree=3\n"


def test_places_that_reach_into_each_other_are_more_than_one():
    with pytest.raises(Refused, match="2 times"):
        replaced(b"aaa", b"aa", b"b", replace_all=False, path="x")


def test_text_that_is_not_there_gets_a_hint(hands, file):
    hands.good("Read", path="a.py")
    assert "line numbers" in hands.bad("Edit", path="a.py", old="     1\tone = 1", new="x")
    assert "Line 2" in hands.bad("Edit", path="a.py", old="two  =  2", new="x")
    assert "does not occur" in hands.bad("Edit", path="a.py", old="four", new="x")


def test_an_edit_that_changes_nothing_is_refused(hands, file):
    hands.good("Read", path="a.py")
    assert "the same" in hands.bad("Edit", path="a.py", old="one", new="one")
    assert "empty" in hands.bad("Edit", path="a.py", old="", new="x")


def test_windows_line_ends_stay(hands, tmp_path):
    (tmp_path / "w").write_bytes(b"a\r\nb\r\nc")
    hands.good("Read", path="w")
    hands.good("Edit", path="w", old="a\nb", new="x\ny\nz")
    assert (tmp_path / "w").read_bytes() == b"x\r\ny\r\nz\r\nc"


def test_a_missing_last_line_end_a_mark_at_the_start_and_odd_bytes_stay(hands, tmp_path):
    (tmp_path / "w").write_bytes(b"\xef\xbb\xbfa\n\xff\xfe odd\nend")
    hands.good("Read", path="w")
    hands.good("Edit", path="w", old="end", new="fin")
    assert (tmp_path / "w").read_bytes() == b"\xef\xbb\xbfa\n\xff\xfe odd\nfin"


def test_half_characters_are_refused(hands, file):
    hands.good("Read", path="a.py")
    assert "incomplete character" in hands.bad("Edit", path="a.py", old="one", new="\udc80")
    assert "incomplete character" in hands.bad("Write", path="b", content="\ud800")


def test_permission_bits_stay(hands, file):
    file.chmod(0o750)
    hands.good("Read", path="a.py")
    hands.good("Edit", path="a.py", old="one", new="1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o750


def test_a_new_file_is_made_with_its_folders(hands, tmp_path):
    output = hands("Write", path="x/y/z.txt", content="hello")
    assert (tmp_path / "x/y/z.txt").read_text() == "hello"
    assert output.facts[0].created
    hands.good("Edit", path="x/y/z.txt", old="hello", new="bye")


def test_a_file_read_only_in_part_is_not_overwritten(hands, file):
    hands.good("Read", path="a.py", limit=1)
    assert "part" in hands.bad("Write", path="a.py", content="x")
    hands.good("Edit", path="a.py", old="two", new="2")
    assert "part" in hands.bad("Write", path="a.py", content="x")
    hands.good("Read", path="a.py")
    hands.good("Write", path="a.py", content="x")
    assert file.read_text() == "x"


def test_a_whole_reading_is_not_undone_by_one_in_part(hands, file):
    hands.good("Read", path="a.py")
    hands.good("Read", path="a.py", limit=1)
    hands.good("Write", path="a.py", content="x")


def test_after_forgetting_everything_must_be_read_again(hands, file):
    hands.good("Read", path="a.py")
    state = hands.context.desk.state()
    hands.context.desk.forget()
    assert "not been read" in hands.bad("Edit", path="a.py", old="one", new="1")
    hands.context.desk.restore(state)
    hands.good("Edit", path="a.py", old="one", new="1")


def test_the_files_last_seen_or_changed_come_first(hands, tmp_path, file):
    (tmp_path / "b").write_text("b")
    hands.good("Read", path="a.py")
    hands.good("Read", path="b")
    hands.good("Edit", path="a.py", old="one", new="1")
    assert list(hands.context.desk.state().files) == [str((tmp_path / "b").resolve()), str(file.resolve())]


def test_a_link_is_written_through_to_where_permission_was_given(hands, tmp_path, file):
    (tmp_path / "link").symlink_to("a.py")
    hands.good("Read", path="link")
    hands.good("Edit", path="link", old="one", new="1")
    assert (tmp_path / "link").is_symlink()
    assert file.read_text().startswith("1 = 1")


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_link_put_in_the_way_after_permission_is_not_written_through(hands, tmp_path, swapped):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("untouched")
    inner = tmp_path / "inner"
    inner.mkdir()
    given = {"path": "inner/f", "content": "evil"}
    requested = hands.box.permission_request("Write", given, hands.context)
    if swapped == "file":
        (inner / "f").symlink_to(outside / "f")
    else:
        inner.rmdir()
        inner.symlink_to(outside)
    output = hands.box.run("Write", given, hands.context.for_call("c", permitted=requested))
    assert output.is_error
    assert (outside / "f").read_text() == "untouched"
    assert [one.name for one in outside.iterdir()] == ["f"]


def test_pipes_folders_and_huge_files_are_not_written(hands, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(MOST_BYTES + 1)
    for path in ("pipe", ".", "huge"):
        assert hands.bad("Write", path=path, content="x")
        assert hands.bad("Edit", path=path, old="x", new="y")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_an_error_result(hands, tmp_path):
    (tmp_path / "locked").mkdir(0o500)
    assert hands.bad("Write", path="locked/a", content="x")


def test_nothing_is_left_behind_by_what_could_not_be_written(hands, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    hands.bad("Write", path="pipe", content="x")
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("before", [None, version(b"what was read")])
def test_what_somebody_else_wrote_in_the_last_moment_is_not_overwritten(tmp_path, before):
    path = tmp_path.resolve() / "a"
    path.write_text("theirs")
    with pytest.raises(Refused, match="another program"):
        write(str(path), b"ours", before)
    assert path.read_text() == "theirs"
    assert [one.name for one in path.parent.iterdir()] == ["a"]


def test_edits_at_the_same_time_all_arrive(hands, tmp_path):
    count = 8
    (tmp_path / "a").write_text("".join(f"<{number}>" for number in range(count)))
    hands.good("Read", path="a")
    edits = [
        threading.Thread(
            target=hands, args=("Edit",), kwargs={"path": "a", "old": f"<{n}>", "new": f"({n})"}
        )
        for n in range(count)
    ]
    for edit in edits:
        edit.start()
    for edit in edits:
        edit.join()
    assert (tmp_path / "a").read_text() == "".join(f"({number})" for number in range(count))


PIECES = st.binary(max_size=30)


@given(before=PIECES, old=st.binary(min_size=1, max_size=6), after=PIECES, new=st.binary(max_size=6))
def test_an_edit_applies_exactly_once_and_leaves_the_rest_as_it_was(before, old, after, new):
    content = before + old + after
    assume(
        content.count(old) == 1 and content.find(old) == content.rfind(old) == len(before) and old != new
    )
    assume(b"\n" not in content or b"\r" not in content)
    assert replaced(content, old, new, replace_all=False, path="x") == before + new + after


@given(st.lists(st.sampled_from(["a", "b", "ab", ""]), max_size=12), st.data())
def test_with_windows_line_ends_an_edit_is_the_edit_of_the_text(lines, data):
    text = "\n".join([*lines, "end\n"])
    old = data.draw(
        st.sampled_from([text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)])
    )
    new = data.draw(st.text("ab\n", max_size=4))
    try:
        plain = replaced(text.encode(), old.encode(), new.encode(), replace_all=False, path="x")
    except Refused:
        with pytest.raises(Refused):
            replaced(
                text.replace("\n", "\r\n").encode(), old.encode(), new.encode(), replace_all=False, path="x"
            )
        return
    windows = replaced(
        text.replace("\n", "\r\n").encode(), old.encode(), new.encode(), replace_all=False, path="x"
    )
    assert windows == plain.replace(b"\n", b"\r\n")


def patched(before: str, shown: str) -> str:
    """A unified diff, applied by a reader of its own."""
    old, new, at = before.splitlines(keepends=True), [], 0
    lines = shown.split("\n")[2:]
    for number, line in enumerate(lines):
        ended = "" if lines[number + 1 : number + 2] == ["\\ No newline at end of file"] else "\n"
        if line.startswith("@@"):
            start = int(line.split("-")[1].split(",")[0]) - 1
            new += old[at:start]
            at = start
        elif line.startswith(" "):
            assert old[at] == line[1:] + ended
            new.append(old[at])
            at += 1
        elif line.startswith("-"):
            assert old[at] == line[1:] + ended
            at += 1
        elif line.startswith("+"):
            new.append(line[1:] + ended)
    return "".join(new + old[at:])


TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=30).map("".join)


@given(TEXTS, TEXTS, st.sampled_from(["", "x"]), st.sampled_from(["", "x"]))
def test_a_difference_leads_from_one_text_to_the_other(before, after, end, other_end):
    before, after = before + end, after + other_end
    change = diff(before, after, "f")
    assert patched(before, change.text) == after
    assert change.added - change.removed == len(after.splitlines()) - len(before.splitlines())


def test_a_difference_of_large_texts_is_bounded_and_counted_whole():
    change = diff("a\n" * 30_000, "b\n" * 30_000, "f")
    assert (change.added, change.removed) == (30_000, 30_000)
    assert change.text.count("\n") < 500
