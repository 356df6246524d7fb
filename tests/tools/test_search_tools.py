"""Grep and Glob: the same results from ripgrep and from plain Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sevenfold.agent.tools.context import ROOM, Abort
from sevenfold.agent.tools.globs import Glob
from sevenfold.agent.tools.search import LONGEST_LINE, GlobTool, GrepInput, GrepTool
from sevenfold.agent.tools.searchers import PlainSearch, find_ripgrep
from tests.tools.handling import Hands, context_in

FOUND = find_ripgrep()
SEARCHERS = [
    pytest.param(
        FOUND, id="ripgrep", marks=pytest.mark.skipif(FOUND is None, reason="ripgrep is not installed")
    ),
    pytest.param(PlainSearch(), id="plain"),
]


@pytest.fixture(params=SEARCHERS)
def searcher(request):
    return request.param


@pytest.fixture
def hands(tmp_path, searcher):
    return Hands(context_in(tmp_path), GrepTool(searcher), GlobTool(searcher))


@pytest.fixture
def tree(tmp_path):
    texts = {
        "a.py": "import os\nimport sys\n\ndef main():\n    pass\n",
        "src/b.py": "def helper():\n    return main()\n",
        "src/c.ts": "function main() {}\r\n",
        ".hidden/d.py": "main = 1\n",
        ".gitignore": "build/\n*.log\n!keep.log\n/only_here\n",
        "build/e.py": "main\n",
        "x.log": "main\n",
        "keep.log": "main\n",
        "only_here": "main\n",
        "src/only_here": "main\n",
        "src/.gitignore": "ignored_in_src\n",
        "src/ignored_in_src": "main\n",
        "ignored_in_src": "main\n",
        ".git/config": "main\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, newline="")
    (tmp_path / "binary").write_bytes(b"main\0main")
    (tmp_path / "link").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


EVERYWHERE = [".hidden/d.py", "a.py", "ignored_in_src", "keep.log", "src/b.py", "src/c.ts", "src/only_here"]


def test_files_that_hold_it_are_listed_and_ignored_ones_are_not(hands, tree):
    assert sorted(hands.good("Grep", pattern="main").splitlines()) == EVERYWHERE


@pytest.mark.parametrize(
    ("ignores", "left"),
    [
        ({"": "*.txt\n!b.txt"}, ["b.txt", "sub/b.txt", "sub/deep/b.txt"]),
        ({"": "*.txt", "sub": "!a.txt"}, ["sub/a.txt", "sub/deep/a.txt"]),
        ({"": "sub/", "sub": "!a.txt"}, ["a.txt", "b.txt"]),
        ({"": "sub/*\n!sub/deep"}, ["a.txt", "b.txt", "sub/deep/a.txt", "sub/deep/b.txt"]),
        ({"": "deep"}, ["a.txt", "b.txt", "sub/a.txt", "sub/b.txt"]),
        ({"": "/deep"}, ["a.txt", "b.txt", "sub/a.txt", "sub/b.txt", "sub/deep/a.txt", "sub/deep/b.txt"]),
        ({"": "**/deep/a.*"}, ["a.txt", "b.txt", "sub/a.txt", "sub/b.txt", "sub/deep/b.txt"]),
        ({"": "sub/**/b.txt"}, ["a.txt", "b.txt", "sub/a.txt", "sub/deep/a.txt"]),
        ({"": "a.txt/"}, ["a.txt", "b.txt", "sub/a.txt", "sub/b.txt", "sub/deep/a.txt", "sub/deep/b.txt"]),
        ({"": "# a.txt\n\n   \nsub"}, ["a.txt", "b.txt"]),
        ({"": "[!b].txt\r\n"}, ["b.txt", "sub/b.txt", "sub/deep/b.txt"]),
        ({"sub": "/a.txt"}, ["a.txt", "b.txt", "sub/b.txt", "sub/deep/a.txt", "sub/deep/b.txt"]),
        ({"": "[\n\\\n///\n!\nsub"}, ["a.txt", "b.txt"]),
    ],
)
def test_ignore_files_mean_what_they_mean_to_git(hands, tmp_path, ignores, left):
    for folder in ("", "sub", "sub/deep"):
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in ("a.txt", "b.txt"):
            (tmp_path / folder / name).write_text("needle\n")
    for folder, text in ignores.items():
        (tmp_path / folder / ".gitignore").write_text(text, newline="")
    assert sorted(hands.good("Grep", pattern="needle").splitlines()) == left
    assert sorted(hands.good("Glob", pattern="*.txt").splitlines()) == left


def test_an_ignore_file_that_takes_for_ever_is_given_up(tmp_path):
    (tmp_path / ".gitignore").write_text("a*" * 30 + "b\n")
    (tmp_path / ("a" * 200)).touch()
    hands = Hands(context_in(tmp_path), GlobTool(PlainSearch(seconds=1.0)))
    assert "longer than 1 s" in hands.bad("Glob", pattern="*")


def test_without_pathspec_a_search_that_needs_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/pathspec.py").write_text("raise ImportError\n")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    hands = Hands(context_in(tmp_path), GlobTool(PlainSearch()))
    assert hands.good("Glob", pattern="*.py") == "modules/pathspec.py"
    (tmp_path / ".gitignore").write_text("x\n")
    assert "sevenfold[agent]" in hands.bad("Glob", pattern="*")


def test_lines_are_shown_with_their_place(hands, tree):
    shown = hands.good("Grep", pattern=r"def \w+\(", show="lines", glob="*.py")
    assert sorted(shown.splitlines()) == [
        "a.py:4:def main():",
        "src/b.py:1:def helper():",
    ]


def test_neighbours_are_shown_and_marked(hands, tree):
    shown = hands.good("Grep", pattern="def main", path="a.py", show="lines", context=1)
    assert shown.splitlines() == ["a.py-3-", "a.py:4:def main():", "a.py-5-    pass"]


def test_groups_of_lines_are_set_apart(hands, tree):
    shown = hands.good("Grep", pattern="import sys|pass", path="a.py", show="lines", context=0)
    assert shown.splitlines() == ["a.py:2:import sys", "a.py:5:    pass"]
    (tree / "z").write_text("hit\n" + "-\n" * 9 + "hit\n")
    assert hands.good("Grep", pattern="hit", path="z", show="lines", context=1).splitlines() == [
        *("z:1:hit", "z-2--", "--", "z-10--", "z:11:hit")
    ]


def test_lines_are_counted_by_file(hands, tree):
    assert hands.good("Grep", pattern="^import", show="counts") == "a.py: 2"


def test_case_can_be_left_aside(hands, tree):
    assert "No matches" in hands.good("Grep", pattern="IMPORT OS")
    assert hands.good("Grep", pattern="IMPORT OS", ignore_case=True) == "a.py"


def test_a_pattern_can_reach_across_lines(hands, tree):
    given = {"pattern": "import os.*def", "show": "lines", "path": "a.py"}
    assert "No matches" in hands.good("Grep", **given)
    assert hands.good("Grep", multiline=True, **given).count("\n") == 3


def test_windows_line_ends_are_not_shown(hands, tree):
    assert hands.good("Grep", pattern="function", show="lines") == "src/c.ts:1:function main() {}"


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "a{2,1}"])
def test_a_broken_expression_is_an_error_result(hands, tree, pattern):
    assert hands.bad("Grep", pattern=pattern)


@pytest.mark.parametrize("value", ["--pre=touch evil", "-e", "--", "; touch evil", "$(touch evil)"])
def test_nothing_that_is_searched_for_is_taken_for_an_option(hands, tree, value):
    hands("Grep", pattern=value)
    hands("Grep", pattern="main", glob=value)
    hands("Grep", pattern="main", path=value)
    assert not (tree / "evil").exists()


def test_a_missing_folder_is_an_error_result(hands, tree):
    assert hands.bad("Grep", pattern="x", path="nowhere")
    assert hands.bad("Glob", pattern="x", path="nowhere")
    assert hands.bad("Glob", pattern="x", path="a.py")


def test_files_that_may_not_be_read_do_not_show(hands, tree):
    hands.context = context_in(tree, may_read=lambda path: not path.endswith("/a.py"))
    assert "a.py" not in hands.good("Grep", pattern="main")
    assert "a.py" not in hands.good("Glob", pattern="*.py")


def test_links_are_not_followed(hands, tree):
    assert "link" not in hands.good("Grep", pattern=".")
    assert "link" not in hands.good("Glob", pattern="**")


def test_much_that_is_found_is_bounded(hands, tmp_path):
    (tmp_path / "big").write_text("needle " + "x" * 10_000 + "\n" + "needle\n" * 100_000)
    shown = hands.good("Grep", pattern="needle", show="lines", limit=5_000)
    assert len(shown) < ROOM + 200
    assert "more results" in shown
    assert len(shown.splitlines()[0]) < LONGEST_LINE + 20
    assert len(hands.good("Grep", pattern="needle", show="lines", limit=3).splitlines()) == 4


def test_lines_that_are_no_utf_8_are_found(hands, tmp_path):
    (tmp_path / "latin").write_bytes(b"caf\xe9 needle\n")
    assert hands.good("Grep", pattern="needle", show="lines") == "latin:1:caf\ufffd needle"


def test_a_stopped_search_is_an_error_result(hands, tree):
    abort = Abort()
    abort.set()
    hands.context = context_in(tree, abort=abort)
    assert "stopped" in hands.bad("Grep", pattern="main")
    assert "stopped" in hands.bad("Glob", pattern="*")


def test_a_pattern_that_never_ends_is_ended(tmp_path):
    (tmp_path / "a").write_text("a" * 60 + "!\n")
    hands = Hands(context_in(tmp_path), GrepTool(PlainSearch(seconds=1.0)))
    assert "longer than 1 s" in hands.bad("Grep", pattern="(a|a)+$")


def test_a_search_runs_nothing_of_the_folder_it_is_in(tmp_path, monkeypatch):
    for module in ("json", "re", "msgspec", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text("open('evil', 'w')\n")
    (tmp_path / "a").write_text("needle\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend("")
    hands = Hands(context_in(tmp_path), GrepTool(PlainSearch()))
    assert hands.good("Grep", pattern="needle") == "a"
    assert not (tmp_path / "evil").exists()


def test_without_python_to_start_a_search_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", None)
    assert "sevenfold[agent]" in Hands(context_in(tmp_path), GrepTool(PlainSearch())).bad(
        "Grep", pattern="x"
    )


def test_files_are_found_by_name_the_newest_first(hands, tree):
    for age, name in enumerate(["src/b.py", ".hidden/d.py", "a.py"]):
        os.utime(tree / name, (1_000_000 - age, 1_000_000 - age))
    assert hands.good("Glob", pattern="**/*.py").splitlines() == ["src/b.py", ".hidden/d.py", "a.py"]
    assert hands.good("Glob", pattern="*.{ts,log}").splitlines() != []
    assert hands.good("Glob", pattern="src/*.py") == "src/b.py"
    assert hands.good("Glob", pattern="*.py", path="src") == "src/b.py"
    assert "No file" in hands.good("Glob", pattern="*.rs")


def test_of_many_files_some_are_shown_and_all_counted(hands, tmp_path):
    for number in range(150):
        (tmp_path / f"f{number}").touch()
    assert "100 of 150 files" in hands.good("Glob", pattern="f*")


def test_a_pattern_that_would_multiply_without_end_is_refused(hands, tree):
    assert hands.bad("Glob", pattern="{a,b}" * 20)


@pytest.mark.parametrize("pattern", ["*" * 100 + "b", "**/" * 50 + "b", "a*" * 30 + "b"])
def test_no_pattern_takes_long(pattern):
    assert not Glob(pattern).matches("a" * 200 + "/" + "a/" * 100 + "a" * 200)


@pytest.mark.parametrize("glob", ["*.py", "**/*.py", "*.{py,txt}", "lib/*.py", ""])
def test_a_glob_does_not_bring_back_files_that_are_ignored(tmp_path, searcher, glob):
    texts = {
        ".gitignore": "build/\n*_pb2.py\n",
        "lib/a.py": "main",
        "build/b.py": "main",
        "lib/c_pb2.py": "main",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    query = GrepInput("main", str(tmp_path), glob=glob)
    assert [Path(line.path).name for line in searcher.lines(query, lambda: False)] == ["a.py"]


def test_a_glob_is_held_against_the_name_of_a_single_file(tmp_path, searcher):
    file = tmp_path / "a.py"
    file.write_text("main")
    for glob, found in (("*.py", 1), ("*.txt", 0)):
        lines = searcher.lines(GrepInput("main", str(file), glob=glob), lambda: False)
        assert len(list(lines)) == found
