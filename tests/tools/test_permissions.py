"""Permissions: which rule settles what, what modes leave free, and what no disguise gets past."""

from __future__ import annotations

import shutil
import string
import subprocess
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from sevenfold.agent.permissions.engine import Permissions
from sevenfold.agent.permissions.rules import PermissionRequest, PermissionRule, PermissionRules
from sevenfold.errors import InputError
from tests.tools.handling import context_in

MODES = ["ask", "accept_edits", "plan", "autonomous"]
WORDS = st.text(string.ascii_lowercase + "-./", min_size=1, max_size=8).filter(lambda word: word[0] != "-")


def permissions(mode: Any = "ask", **lists: Any) -> Permissions:
    return Permissions(workspace="/ws", home="/home/me", mode=mode, rules=PermissionRules.of(lists))


def run(line: str, *, outside: tuple[str, ...] = ()) -> PermissionRequest:
    return PermissionRequest("Shell", "run", line, outside=outside, checked=True)


def verdict(requested: Any, mode: str = "ask", **lists: Any) -> str:
    return permissions(mode, **lists).decide(requested).verdict


def reading(path: str) -> PermissionRequest:
    return PermissionRequest("Read", "read", path)


def writing(path: str, tool: str = "Edit") -> PermissionRequest:
    return PermissionRequest(tool, "write", path)


def fetching(url: str) -> PermissionRequest:
    return PermissionRequest("WebFetch", "fetch", url)


# Rules as lines


@given(
    st.from_regex(r"[A-Z][a-zA-Z]{0,9}", fullmatch=True), st.text(min_size=1).map(str.strip).filter(bool)
)
def test_a_rule_survives_being_written_down(tool, pattern):
    assume(tool not in ("Read", "Edit", "Bash"))
    rule = PermissionRule.parse(f"{tool}({pattern})")
    assert PermissionRule.parse(str(rule)) == rule


@pytest.mark.parametrize("line", ["", "()", "Shell(", "Shell()", "Shell)x(", "a b", "1x", "(x)"])
def test_what_is_no_rule_is_refused(line):
    with pytest.raises(InputError, match="permission rule"):
        PermissionRule.parse(line)


@pytest.mark.parametrize("line", ["Shell(*)", "Shell", "Shell(:*)", "Bash", "Bash(*)"])
def test_a_rule_without_limits_has_one_form(line):
    assert str(PermissionRule.parse(line)) == "Shell"


def test_rules_can_be_kept_as_data_and_grow():
    asked = permissions().decide(run("git status"))
    assert asked.would_allow == ("Shell(git status:*)",)
    grown = permissions(deny=["Read(.env)"]).allowing(*asked.would_allow).allowing(*asked.would_allow)
    data = grown.rules.as_data()
    assert data == {"allow": ["Shell(git status:*)"], "ask": [], "deny": ["Read(.env)"]}
    assert PermissionRules.of(data) == grown.rules


# Which rule counts


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({"allow": ["Shell(x:*)"]}, "allow"),
        ({"allow": ["Shell(x:*)"], "ask": ["Shell(x y)"]}, "ask"),
        ({"allow": ["Shell(x:*)"], "ask": ["Shell"], "deny": ["Shell(x:*)"]}, "deny"),
    ],
)
def test_refusing_beats_asking_beats_allowing(lists, expected):
    decision = permissions("autonomous", **lists).decide(run("x y"))
    assert decision.verdict == expected
    assert decision.rule
    assert decision.rule in decision.reason


@given(st.sampled_from(MODES), st.lists(WORDS, min_size=1, max_size=3))
def test_a_denied_command_is_denied_in_every_mode_however_much_is_allowed(mode, words):
    line = " ".join(words)
    assert (
        verdict(run(line), mode, allow=["Shell", f"Shell({line})"], deny=[f"Shell({words[0]}:*)"]) == "deny"
    )


# Command lines


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git status -s",
        "git  'status'",
        "git status | git status",
        "git status 2>&1 >/dev/null",
    ],
)
def test_a_line_whose_commands_all_begin_as_allowed_is_allowed(line):
    assert verdict(run(line), allow=["Shell(git status:*)"]) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "git statusx",
        "git",
        "git status; rm -rf /",
        "git status && rm x",
        "git status || rm x",
        "git status | sh",
        "git status & rm x",
        "git status\nrm x",
        "git status \\\\\nrm x",
        "git status $(rm x)",
        "git status `rm x`",
        'git status "$(rm x)"',
        'git status "`rm x`"',
        "git status <(rm x)",
        "git status >(rm x)",
        "git status ${x:-$(rm x)}",
        "git status $((a[$(rm x)]))",
        'git status "$[a[$(rm x)]]"',
        'git status "$\\\n(rm x)"',
        "git status > ~/.bashrc",
        "git status >> x",
        "git status >| x",
        "git status &> x",
        "git status >& x",
        "git status > $X",
        "git status <<X\n$(rm x)\nX",
        "(git status)",
        "{ git status; }",
        "! git status",
        "if git status; then rm x; fi",
        "for x in a; do git status; done",
        "git() { rm x; }; git status",
        "PATH=/evil git status",
        "LD_PRELOAD=x git status",
        "git status 'unclosed",
        'git status "unclosed',
        "git status $'\\'; rm x'",
        "git\0 status",
        "sudo git status",
        "./git status",
        '"git status"',
        "\\git status; rm",
        "",
    ],
)
def test_what_is_more_than_was_allowed_is_asked_for(line):
    assert verdict(run(line), allow=["Shell(git status:*)"]) == "ask"


@given(WORDS, st.sampled_from([";", "&&", "||", "|", "&", "\n", "|&"]), st.booleans())
def test_a_command_behind_an_allowed_one_needs_a_rule_of_its_own(other, joint, spaced):
    assume(other not in ("git", "cd", "."))
    space = " " if spaced else ""
    line = f"git status{space}{joint}{space}{other}"
    rules = ["Shell(git status:*)"]
    looks = verdict(run(other)) == "allow"
    assert (verdict(run(line), allow=rules) == "allow") == looks
    assert verdict(run(line), allow=[*rules, f"Shell({other})"]) == "allow"


FRAGMENTS = [
    *(
        "git",
        "git s",
        " ",
        " ",
        "evil",
        "f",
        ";",
        "&&",
        "|",
        "&",
        "\n",
        "$(",
        ")",
        "(",
        "`",
        "'",
        '"',
        "\\",
        "\\\n",
        ">",
    ),
    *(
        "<",
        "<(",
        "<<",
        "#",
        "{ ",
        "}",
        "$",
        "${",
        "x=",
        "!",
        "$'",
        "$[",
        "]",
        "[",
        "~",
        "*",
        "2>&1",
        ">&",
        "if ",
        "then ",
    ),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to compare with")
@settings(max_examples=settings().max_examples * 2)
@given(line=st.lists(st.sampled_from(FRAGMENTS), min_size=2, max_size=9).map("".join))
@example(line="git \\\\\nevil")
@example(line="git 'a' # it's\nevil")
@example(line="git x2>&1\\")
def test_bash_runs_nothing_but_what_was_allowed(tmp_path_factory, line):
    """A line the rule allows is given to bash, where every other command would leave a trace."""
    for allowed in (line, f"git {line}"):
        if verdict(run(allowed, outside=("x",)), allow=["Shell(git:*)"]) == "allow":
            folder = tmp_path_factory.mktemp("bash")
            programs = folder / "bin"
            programs.mkdir()
            (programs / "git").write_text("#!/bin/sh\n")
            (programs / "evil").write_text(f"#!/bin/sh\n: > {folder}/trace\n")
            for program in programs.iterdir():
                program.chmod(0o755)
            (folder / "work").mkdir()
            environ = {"PATH": str(programs), "HOME": str(folder / "work")}
            bash = str(shutil.which("bash"))
            subprocess.run(
                [bash, "-c", allowed],
                cwd=folder / "work",
                env=environ,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            assert not (folder / "trace").exists(), allowed
            assert list((folder / "work").iterdir()) == [], allowed


def test_the_very_line_can_be_allowed_whatever_it_holds():
    line = "x=$(date) make > log"
    decision = permissions().decide(run(line))
    assert decision.would_allow == (f"Shell({line})",)
    assert verdict(run(line), allow=decision.would_allow) == "allow"
    assert verdict(run(line + " x"), allow=decision.would_allow) == "ask"


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("npm test", "npm test", "allow"),
        ("npm test", "npm test x", "ask"),
        ("npm run test:*", "npm run test", "allow"),
        ("npm run test:*", "npm run tests", "ask"),
        ("git log * main", "git log -p main", "allow"),
        ("git log * main", "git log -p other", "ask"),
        ("git log * main", "git log -p main; rm main", "ask"),
        ("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "a" * 2_000, "ask"),
    ],
)
def test_patterns_of_command_lines(pattern, line, expected):
    assert verdict(run(line), allow=[f"Shell({pattern})"]) == expected


@pytest.mark.parametrize(
    "line",
    [
        "rm x",
        "ls; rm x",
        "/bin/rm x",
        "X=1 rm x",
        "sudo rm x",
        "sudo -u me rm x",
        "env X=1 rm x",
        "timeout 5 rm x",
        "ls | xargs rm",
        "find . -exec rm {} ;",
        "bash -c 'rm x'",
        "sh -c 'ls; rm x'",
        "eval 'rm x'",
        "echo $(rm x)",
        "(rm x)",
        "if true; then rm x; fi",
        "r'm' x",
        "\\rm x",
        "nohup sudo rm x",
    ],
)
@pytest.mark.parametrize("mode", ["ask", "autonomous"])
def test_a_denied_command_is_known_in_disguise(line, mode):
    assert verdict(run(line), mode, deny=["Shell(rm:*)"]) == "deny"


@pytest.mark.parametrize("line", ["$X x", "r? x", "x=$(cat f); $x", "a <<X\nb\nX"])
def test_where_commands_are_denied_a_line_that_hides_its_own_is_asked_for(line):
    assert verdict(run(line), "autonomous", deny=["Shell(rm:*)"]) == "ask"
    assert verdict(run(line), "autonomous", deny=["Shell(rm:*)"], allow=["Shell"]) == "ask"
    assert verdict(run(line), "autonomous") == "allow"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls -la src", "allow"),
        ("cat a | head -3 | wc -l", "allow"),
        ("cat $HOME/x", "ask"),
        ("cat ~/x", "ask"),
        ("cat *", "ask"),
        ("echo x > y", "ask"),
        ("cd src", "allow"),
        ("cd src && cat ../../x", "ask"),
        ("rm x", "ask"),
    ],
)
def test_commands_that_only_look_are_free(line, expected):
    assert verdict(run(line)) == expected
    assert verdict(run(line, outside=("x",))) == "ask"


@pytest.mark.parametrize("mode", ["ask", "autonomous"])
def test_a_command_that_names_a_file_not_to_be_read_is_refused(mode):
    requested = PermissionRequest("Shell", "run", "base64 .env", paths=("/ws/.env",))
    assert verdict(requested, mode, deny=["Read(.env)"], allow=["Shell"]) == "deny"
    assert verdict(requested, mode, ask=["Read(.env)"], allow=["Shell"]) == "ask"


def test_where_files_are_not_to_be_read_commands_that_show_files_are_asked_for():
    assert verdict(run("grep -r x ."), deny=["Read(.env)"]) == "ask"
    assert verdict(run("ls"), deny=["Read(.env)"]) == "allow"


# Paths


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("src/**", "/ws/src/a/b.py", True),
        ("src/**", "/ws/srcs/a", False),
        ("src/**", "/ws/lib/src/a", False),
        ("src", "/ws/src/a", True),
        ("*.py", "/ws/a/b.py", True),
        ("/etc/*", "/etc/hosts", True),
        ("//etc/*", "/etc/hosts", True),
        ("/etc/*", "/ws/etc/hosts", False),
        ("~/notes/**", "/home/me/notes/a", True),
        ("~/notes/**", "/home/you/notes/a", False),
        ("docs/*.{md,txt}", "/ws/docs/a.txt", True),
        ("docs/*.md", "/ws/docs/a/b.md", False),
        ("**", "/elsewhere", False),
        ("[ab]?", "/ws/ax", True),
    ],
)
def test_patterns_of_paths(pattern, path, expected):
    assert (verdict(writing(path), allow=[f"Edit({pattern})"]) == "allow") is expected
    assert (verdict(writing(path), deny=[f"Edit({pattern})"]) == "deny") is expected


def test_a_rule_about_edits_covers_whatever_changes_files_and_reads_whatever_reads():
    assert verdict(writing("/ws/a", tool="Write"), allow=["Edit(a)"]) == "allow"
    assert verdict(PermissionRequest("Grep", "read", "/ws/secret"), deny=["Read(secret)"]) == "deny"
    assert verdict(writing("/ws/a"), allow=["Write(a)"]) == "ask"


def test_a_denied_path_is_denied_by_any_name_and_in_any_case():
    assert (
        verdict(PermissionRequest("Read", "read", "/ws/real", named="/ws/.env"), deny=["Read(.env)"])
        == "deny"
    )
    assert verdict(reading("/ws/.ENV"), deny=["Read(.env)"]) == "deny"
    assert verdict(PermissionRequest("Edit", "write", "/x/real", named="/ws/a"), allow=["Edit(a)"]) == "ask"


def test_searches_leave_out_what_may_not_be_read():
    held = permissions(deny=["Read(secrets/**)"], ask=["Read(*.key)"])
    assert [path for path in ("/ws/a", "/ws/secrets/a", "/ws/x.key") if held.may_read(path)] == ["/ws/a"]


@pytest.mark.parametrize("mode", MODES)
def test_reading_is_free_inside_and_asked_for_outside(mode):
    assert verdict(reading("/ws/a"), mode) == "allow"
    assert verdict(reading("/ws"), mode) == "allow"
    for path in ("/etc/passwd", "/wsx/a", "/home/me/.ssh/id", "/"):
        assert verdict(reading(path), mode) == "ask"


@given(st.sampled_from(MODES), st.lists(WORDS, max_size=3).map("/".join))
def test_nothing_outside_is_ever_written_without_consent(mode, path):
    assume(not f"/{path}".startswith("/ws"))
    assert verdict(writing(f"/{path}"), mode) in ("ask", "deny")


def test_further_folders_count_as_the_workspace():
    held = Permissions(workspace="/ws", roots=("/more",), readable=("/stored",), mode="accept_edits")
    assert held.decide(writing("/more/a")).verdict == "allow"
    assert held.decide(reading("/stored/a")).verdict == "allow"
    assert held.decide(writing("/stored/a")).verdict == "ask"


# Modes


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (writing("/ws/a"), ["ask", "allow", "deny", "allow"]),
        (run("make"), ["ask", "ask", "deny", "allow"]),
        (run("ls"), ["allow", "allow", "allow", "allow"]),
        (fetching("https://example.com/"), ["ask", "ask", "ask", "allow"]),
        (PermissionRequest("launch", "call"), ["ask", "ask", "deny", "allow"]),
        (PermissionRequest("Todo"), ["allow", "allow", "allow", "allow"]),
    ],
)
def test_what_each_mode_leaves_free(requested, expected):
    assert [verdict(requested, mode) for mode in MODES] == expected


def test_while_planning_rules_cannot_allow_changes_but_the_plan_is_written():
    held = Permissions(
        workspace="/ws",
        mode="plan",
        plan="/plans/p.md",
        rules=PermissionRules.of({"allow": ["Edit", "Shell"]}),
    )
    assert held.decide(writing("/ws/a")).verdict == "deny"
    assert held.decide(run("make")).verdict == "deny"
    assert held.decide(writing("/plans/p.md")).verdict == "allow"


# Addresses


@pytest.mark.parametrize(
    ("pattern", "url", "allowed", "denied"),
    [
        ("domain:example.com", "https://example.com/x", True, True),
        ("domain:example.com", "https://EXAMPLE.com./x", True, True),
        ("domain:example.com", "https://sub.example.com/", False, True),
        ("domain:example.com", "https://badexample.com/", False, False),
        ("domain:example.com", "https://example.com.evil.net/", False, False),
        ("domain:example.com", "https://evil.net/example.com", False, False),
        ("domain:*.example.com", "https://sub.example.com/", True, True),
        ("domain:*.example.com", "https://example.com/", False, False),
        ("https://a.b/docs/*", "https://a.b/docs/x", True, True),
        ("https://a.b/docs/*", "https://a.b/other", False, False),
    ],
)
def test_patterns_of_addresses(pattern, url, allowed, denied):
    assert (verdict(fetching(url), allow=[f"WebFetch({pattern})"]) == "allow") is allowed
    assert (verdict(fetching(url), deny=[f"WebFetch({pattern})"]) == "deny") is denied


# What would allow it


@given(
    st.one_of(
        st.lists(WORDS, min_size=1, max_size=4).map(lambda words: run(" ".join(words))),
        st.lists(WORDS, min_size=1, max_size=3).map(
            lambda words: writing("/ws/" + "/".join(words).replace("..", ""))
        ),
        WORDS.map(lambda host: fetching(f"https://{host.replace('/', '')}x/")),
        st.just(PermissionRequest("launch", "call")),
        st.sampled_from(["a && b", "a | b c", "python x.py; rm y"]).map(run),
    )
)
def test_what_is_said_to_allow_a_wish_allows_it(requested):
    held = permissions()
    decision = held.decide(requested)
    if decision.verdict == "ask" and decision.would_allow:
        assert held.allowing(*decision.would_allow).decide(requested).verdict == "allow"


def test_mighty_commands_are_offered_only_as_they_are():
    assert permissions().decide(run("python -c 'print(1)'")).would_allow == ("Shell(python -c 'print(1)')",)
    assert permissions().decide(run("rm -rf build")).would_allow == ("Shell(rm -rf build)",)
    assert permissions().decide(run("rm *")).would_allow == ()


def test_a_context_knows_its_borders(tmp_path):
    context = context_in(tmp_path)
    assert context.inside(tmp_path.resolve() / "a")
    assert not context.inside(str(tmp_path.resolve()) + "x")
