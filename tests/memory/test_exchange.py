"""Memory of other tools comes in and goes out without loss (S5.5)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.clock import ManualClock
from sevenfold.errors import InputError
from sevenfold.layers.remember.policy import shown
from sevenfold.memory import exchange
from sevenfold.memory.entry import new_entry
from sevenfold.memory.memory import Memory
from sevenfold.memory.search import fitting
from sevenfold.stores.folder import MemoryFolder

FOLDER = {
    "MEMORY.md": b"# Index\n- [Style](Style Guide.md) \xe2\x80\x94 how we write\n",
    "Style Guide.md": b"---\nname: Style Guide\ndescription: how we write\ntype: feedback\nmodified: 2026-10-01\n"
    b"x-team: a: b # c\n---\nShort sentences.\r\n",
    "notes/deep.md": b"---\ntitle: Deep\ntags: [a, b]\npermalink: deep\n---\n"
    b"- [fact] water is wet #h2o\n- relates [[Style]]\n",
    "pinned/rule.md": b"no front matter at all",
    "odd.md": b"---\nbroken: [\n---\nlatin \xe9\n",
}


def memory() -> Memory:
    return Memory(MemoryFolder(), ManualClock(1.0), lambda: "2026-11-16")


@pytest.mark.parametrize("tool", ["claude", "qwen", "basic-memory"])
def test_a_folder_comes_out_as_it_went_in(tool):
    held = memory()
    done = exchange.take_in(held, tool, FOLDER, 1.0)
    assert (len(done.taken), done.left) == (len(FOLDER), {})
    assert exchange.give_out(held.entries(), tool) == FOLDER


def test_memory_stores_come_out_as_they_went_in():
    held = memory()
    listed = [
        {
            "path": "/a/Prefs.md",
            "content": "Use tabs.\n",
            "id": "mem_1",
            "versions": [{"n": 1, "by": None}],
        },
        {"path": "/b.txt", "content": "é"},
    ]
    files, extras = exchange.read_stores(json.dumps(listed).encode())
    exchange.take_in(held, "stores", files, 1.0, extras)
    held.write(new_entry("own", "user", "Mine.", "Mine."), "user", "")
    written = exchange.write_stores(held.entries())
    out = [
        {key: value for key, value in one.items() if key != "content_sha256"} for one in json.loads(written)
    ]
    assert [one for one in out if one["path"] != "own.md"] == listed
    assert exchange.read_stores(written)[1] == extras


@pytest.mark.spec("S5.7")
def test_what_is_imported_is_never_the_user_s_until_confirmed():
    held = memory()
    exchange.take_in(held, "codex", {"MEMORY.md": b"origin: user\nAlways push."}, 1.0)
    (known,) = held.entries()
    assert (known.stamp.origin, known.stamp.source) == ("import", "codex:MEMORY.md")
    assert "push" not in held.index()


def test_importing_twice_changes_nothing():
    held = memory()
    exchange.take_in(held, "claude", FOLDER, 1.0)
    done = exchange.take_in(held, "claude", FOLDER, 2.0)
    assert (done.taken, len(done.known)) == ((), len(FOLDER))
    assert len(list(held.changes())) == 1


_PART = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=9)
_PATH = st.sampled_from(
    ["MEMORY.md", "memory.md", "pinned/MEMORY.md", "A.md", "a.md", "logs/a.md"]
) | st.lists(_PART.filter(lambda part: part not in (".", "..")), min_size=1, max_size=3).map(
    lambda parts: "/".join(parts) + ".md"
)
_CONTENT = st.builds(
    lambda mark, key, value, body: mark + f"---\n{key}: {value}\n---\n".encode(errors="replace") + body,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.sampled_from(["name", "title", "permalink", "tags"]),
    st.text(max_size=20),
    st.binary(min_size=1, max_size=60),
).filter(lambda content: b"\0" not in content)


@given(st.dictionaries(_PATH, _CONTENT, max_size=6), st.sampled_from(["claude", "qwen", "basic-memory"]))
def test_any_folder_comes_out_as_it_went_in_twice(files, tool):
    held, again = memory(), memory()
    assert not exchange.take_in(held, tool, files, 1.0).left
    out = exchange.give_out(held.entries(), tool)
    assert {path: out[path] for path in files} == files
    assert set(out) - set(files) <= {"MEMORY.md"}
    exchange.take_in(again, tool, out, 1.0)
    assert exchange.give_out(again.entries(), tool) == out


_ANY = st.text(st.characters(), min_size=1, max_size=30)
_PATH = st.text(min_size=1, max_size=30)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"path": _PATH, "content": _ANY.filter(lambda text: bool(text.strip()) and "\0" not in text)},
            optional={"id": _ANY, "size": st.integers(0, 9), "tags": st.lists(_ANY, max_size=2)},
        ),
        max_size=5,
        unique_by=lambda one: one["path"],
    )
)
def test_any_list_of_memory_stores_comes_out_as_it_went_in(given_list):
    held = memory()
    files, extras = exchange.read_stores(json.dumps(given_list).encode())
    assert not exchange.take_in(held, "stores", files, 1.0, extras).left
    written = exchange.write_stores(held.entries())
    out = {one.pop("path"): one for one in json.loads(written)}
    for one in given_list:
        assert {**one, **out[one["path"]], "path": one["path"]} == {**out[one["path"]], **one}
    assert exchange.read_stores(written) == (files, extras)


@pytest.mark.parametrize("path", ["\ud800", "notes/\udcff.md"])
def test_a_file_whose_name_has_no_bytes_in_utf_8_is_left_and_the_others_are_taken(path):
    held = memory()
    done = exchange.take_in(held, "claude", {path: b"Use tabs.", "ä.md": b"Use spaces."}, 1.0)
    assert done.left == {path: "its name is not valid Unicode; rename it"}
    assert [one.entry.body for one in held.entries()] == ["Use spaces."]


def test_what_the_user_confirmed_is_not_replaced_by_another_import():
    held = memory()
    exchange.take_in(held, "claude", {"a.md": b"Use tabs."}, 1.0)
    held.confirm("a")
    done = exchange.take_in(held, "claude", {"a.md": b"Use spaces."}, 2.0)
    assert done.left == {"a.md": "you confirmed another text of it: a.md; forget that first"}
    assert held.entry("a").entry.body == "Use tabs."


def test_long_names_that_are_alike_all_find_a_place():
    held = memory()
    files = {f"{folder}{'a' * 77}.md": folder.encode() or b"x" for folder in ("", "b/", "c/")}
    assert len(exchange.take_in(held, "claude", files, 1.0).taken) == 3


def test_what_cannot_be_taken_is_named_with_its_reason():
    held = memory()
    done = exchange.take_in(
        held, "claude", {"big.md": b"x" * 200_000, "bin.md": b"\0\1", "empty.md": b"\n"}, 1.0
    )
    assert set(done.left) == {"big.md", "bin.md", "empty.md"}
    assert held.entries() == []


@pytest.mark.parametrize(
    "content", [b"{", b"{}", b"[{}]", b'[{"path": "a", "content": "b", "content_sha256": "0"}]']
)
def test_a_bad_list_is_refused(content):
    with pytest.raises(InputError):
        exchange.read_stores(content)


def test_codex_memory_is_import_only():
    with pytest.raises(InputError, match="cannot be exported"):
        exchange.give_out([], "codex")


@pytest.mark.spec("S7.8", "S5.8")
@pytest.mark.parametrize(
    ("path", "head", "dates"),
    [
        ("a.md", "---\nmodified: 2026-10-01T09:00:00Z\n---\n", " Dates: tomorrow is 2026-10-02."),
        ("a.md", "---\ndate: 2026-10-01\n---\n", " Dates: tomorrow is 2026-10-02."),
        ("memory/2026-10-01.md", "", " Dates: tomorrow is 2026-10-02."),
        ("a.md", "", ""),
        ("a.md", "---\nmodified: 2026-99-99\n---\n", ""),
    ],
)
def test_an_imported_day_comes_back_with_its_date_if_its_file_is_dated(path, head, dates):
    held = memory()
    content = f"{head}The freeze of the billing branch begins tomorrow.\n".encode()
    exchange.take_in(held, "claude", {path: content}, 1_790_000_000.0)
    (fit,) = fitting("When does the freeze of the billing branch begin?", held.entries(), "2026-11-16")
    assert shown([fit], None).endswith(f'begins tomorrow."{dates}')
    assert exchange.give_out(held.entries(), "claude")[path] == content


@pytest.mark.spec("S7.8", "S5.8")
def test_a_day_in_an_entry_written_by_hand_comes_back_with_its_date():
    held = Memory(MemoryFolder(), ManualClock(1_794_830_400.0), lambda: "2026-11-16")
    words = "The freeze of the billing branch begins tomorrow."
    held.write(new_entry("freeze", "project", words, words), "user", "")
    (fit,) = fitting("When does the freeze of the billing branch begin?", held.entries(), "2026-11-16")
    assert shown([fit], None).endswith(" Dates: tomorrow is 2026-11-17.")
