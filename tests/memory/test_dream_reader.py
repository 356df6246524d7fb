"""What a dreaming model may look at, and what it may not (S7.8)."""

from __future__ import annotations

import pytest

import sevenfold
from sevenfold.errors import Refused
from sevenfold.layers.dream.reader import COMMANDS, MemoryReader
from sevenfold.stores.folder import MemoryFolder
from sevenfold.stores.memory import MemoryStore

from .test_memory import everything

TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def folder():
    made = MemoryFolder("/data/memory")
    made.write("tabs.md", b"---\nname: tabs\n---\n> Always indent Makefiles with tabs.\n")
    made.write("pinned/port.md", b"> The port is 8080.\n")
    made.write("MEMORY.md", b"# Memory\n")
    made.write("logs/2026/11/2026-11-15.md", b"- asked about Makefiles\n- asked about ports\n")
    made.write(".versions/current.json", b"{}")
    return made


@pytest.fixture
def reader(folder):
    store = MemoryStore()
    with sevenfold.Session.open(
        "monday",
        model="claude-sonnet-5-5",
        store=store,
        client=sevenfold.OfflineClient(sevenfold.Script(["Noted."])),
    ) as one:
        one.user(f"The Makefile needs tabs, and my token is {TOKEN}")
        one.complete()
    return MemoryReader(folder, store)


@pytest.mark.spec("S7.8")
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ls", "MEMORY.md\nlogs/\npinned/\ntabs.md\ntranscripts/"),
        ("ls -la /data/memory/pinned", "port.md"),
        ("ls tabs.md", "tabs.md"),
        ("find logs -name '*.md' -type f", "logs/2026/11/2026-11-15.md"),
        ("find . -path 'pinned/*'", "pinned/port.md"),
        ("cat pinned/port.md", "> The port is 8080."),
        ("cat /data/memory/tabs.md", "---\nname: tabs\n---\n> Always indent Makefiles with tabs."),
        ("head -n 1 logs/2026/11/2026-11-15.md", "- asked about Makefiles"),
        ("tail -1 logs/2026/11/2026-11-15.md", "- asked about ports"),
        ("stat tabs.md", "tabs.md: 56 bytes"),
        ("wc -l logs/2026/11/2026-11-15.md", "2 8 44 logs/2026/11/2026-11-15.md"),
        ("grep -rn ports logs", "logs/2026/11/2026-11-15.md:2:- asked about ports"),
        ("grep -i 'PORT.*8080|nowhere' pinned", "pinned/port.md:1:> The port is 8080."),
        (r"grep -e 'makefiles\|Makefiles' -l .", "logs/2026/11/2026-11-15.md\ntabs.md"),
        ("grep -c asked logs", "logs/2026/11/2026-11-15.md:2"),
        ("grep -v Makefiles logs", "logs/2026/11/2026-11-15.md:2:- asked about ports"),
        ("grep nothing-like-it tabs.md", "(nothing)"),
    ],
)
def test_the_commands_show_what_a_shell_would(reader, line, shown):
    assert sorted(reader.run(line).splitlines()) == sorted(shown.splitlines())


@pytest.mark.spec("S7.8")
def test_transcripts_are_searched_for_what_was_said_without_secrets(reader):
    found = reader.run("grep -n Makefile transcripts")
    assert "transcripts/monday.jsonl:1:" in found
    assert "user: The Makefile needs tabs" in found
    assert TOKEN not in found
    assert "model: Noted." in reader.run("grep Noted transcripts/monday.jsonl")


@pytest.mark.spec("S7.8")
@pytest.mark.parametrize("name", ["cat", "head", "tail", "wc", "stat"])
def test_a_transcript_is_never_read_whole(reader, name):
    with pytest.raises(Refused, match="can only be searched with grep"):
        reader.run(f"{name} transcripts/monday.jsonl")


@pytest.mark.spec("S7.8")
@pytest.mark.parametrize(
    "line",
    [
        "",
        "rm tabs.md",
        "python -c 1",
        "/bin/cat tabs.md",
        "cat tabs.md > other.md",
        "cat tabs.md | tee other.md",
        "cat tabs.md; rm tabs.md",
        "cat $(ls)",
        "cat `ls`",
        "cat ${HOME}",
        "cat tabs.md && ls",
        "cat <(ls)",
        "cat tabs.md\nrm tabs.md",
        "cat ../../etc/passwd",
        "cat /etc/passwd",
        "cat .versions/current.json",
        "ls --help",
        "find . -delete",
        "find . -exec rm {} +",
        "grep '(a+)+$' tabs.md",
        "grep -P x tabs.md",
        "grep x nowhere",
        "cat 'unclosed",
    ],
)
def test_anything_else_is_refused_and_nothing_changes(folder, reader, line):
    before = {name: folder.read(name) for name in everything(folder)}
    with pytest.raises(Refused):
        reader.run(line)
    assert {name: folder.read(name) for name in everything(folder)} == before


@pytest.mark.spec("S7.8")
def test_a_search_shows_fifty_lines_and_a_file_as_far_as_there_is_room(folder, reader):
    folder.write("long.md", b"a needle\n" * 5_000)
    folder.write("wide.md", b"needle " + b"x" * 10_000_000)
    shown = reader.run("grep needle long.md").splitlines()
    assert len(shown) == 51
    assert shown[-1] == "(there is more: narrow it down)"
    assert len(reader.run("cat long.md")) < 20_000
    assert len(reader.run("grep needle wide.md")) < 1_000
    assert len(reader.run("cat wide.md")) < 20_000


def test_the_model_is_told_of_every_command(reader):
    with pytest.raises(Refused) as refused:
        reader.run("sed")
    assert all(name in str(refused.value) for name in COMMANDS)
