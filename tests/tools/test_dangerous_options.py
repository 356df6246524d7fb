"""A rule about the beginning of a command does not cover what makes the command run or write something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sevenfold.agent.permissions.engine import PermissionDecision, Permissions
from sevenfold.agent.permissions.paths import command_request
from sevenfold.agent.permissions.rules import PermissionRequest, PermissionRules

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="commands need a POSIX system"),
    pytest.mark.spec("S38.1"),
]

RUNS_OR_WRITES = [
    # CVE-2025-58764: rg --pre
    ("rg:*", "rg --pre sh x"),
    ("rg:*", "rg --pre=./x x ."),
    ("rg:*", "rg --hostname-bin ./x y"),
    ("rg:*", "rg -zL x"),
    # CVE-2025-64755: sed e and w
    ("sed:*", "sed 1e x"),
    ("sed:*", "sed 'e ls' a.txt"),
    ("sed:*", "sed 's/a/b/e' a.txt"),
    ("sed:*", "sed 's/a/b/gw out' a.txt"),
    ("sed:*", "sed 's|a|b|w out' a.txt"),
    ("sed:*", "sed -n '1,3w out' a.txt"),
    ("sed:*", "sed '$w out' a.txt"),
    ("sed:*", "sed '/x/r other' a.txt"),
    ("sed:*", "sed '/x/{w out\n}' a.txt"),
    ("sed:*", "sed -i s/a/b/ a.txt"),
    ("sed:*", "sed -ni.bak p a.txt"),
    ("sed:*", "sed --in-pl s/a/b/ a.txt"),
    ("sed:*", "sed -f x.sed a.txt"),
    ("find:*", "find . -exec sh x ;"),
    ("find:*", "find . -name x -delete"),
    ("find:*", "find . -fprintf out x"),
    ("find:*", "find -L . -name x"),
    ("fd:*", "fd x -x rm"),
    ("sort:*", "sort -o a.txt a.txt"),
    ("sort:*", "sort -uo a.txt a.txt"),
    ("sort:*", "sort --compress-program ./x a.txt"),
    ("awk:*", "awk 'BEGIN{system(\"x\")}'"),
    ("awk:*", "awk '{print > \"out\"}' a.txt"),
    ("awk:*", "awk '{print | \"sh\"}' a.txt"),
    ("awk:*", "awk 'BEGIN{while((getline l < \"x\"))print l}'"),
    ("gawk:*", "gawk -f x.awk a.txt"),
    ("awk:*", "awk 'BEGIN{ARGV[1]=\"x\"}' a.txt"),
    ("jq:*", "jq env a.txt"),
    ("jq:*", "jq -n '$ENV.KEY'"),
    ("jq:*", "jq -f x.jq a.txt"),
    ("tar:*", "tar xf a.tar"),
    ("tar:*", "tar -tf a.tar --to-command=sh"),
    ("tar:*", "tar tf a.tar -I ./x"),
    ("tar:*", "tar --checkpoint-action=exec=sh -tf a.tar"),
    ("make:*", "make SHELL=./x"),
    ("make:*", "make --eval=x"),
    ("make:*", "make -f other.mk"),
    ("npm:*", "npm exec x"),
    ("npm:*", "npm install x"),
    ("npm:*", "npm config set script-shell x"),
    ("pip:*", "pip install x"),
    ("pip:*", "pip download x"),
    ("pip install:*", "pip install -r a.txt"),
    ("python:*", "python -c 'import os'"),
    ("python:*", "python -m http.server"),
    ("python3:*", "python3.12 -c x"),
    ("python:*", "python"),
    ("node:*", "node -e x"),
    ("node:*", "node --require ./x a.js"),
    ("perl:*", "perl -ne x a.txt"),
    ("git:*", "git -c alias.x=!sh x"),
    ("git:*", "git -C sub status"),
    ("git:*", "git --exec-path=. status"),
    ("git:*", "git config core.hooksPath ."),
    ("git:*", "git bisect run ./x"),
    ("git:*", "git rebase -x ./x main"),
    ("git:*", "git submodule foreach ./x"),
    ("git:*", "git worktree add .git"),
    ("git:*", "git grep -O./x y"),
    ("git:*", "git clone --template=x y"),
    ("git log:*", "git log --output=a.txt"),
    ("ruff check:*", "ruff check --fix ."),
    ("ruff check:*", "ruff check --add-noqa ."),
    ("cargo build:*", "cargo build --config x"),
    ("go:*", "go test -exec ./x"),
    ("go:*", "go generate ./..."),
    ("curl:*", "curl -o a.txt https://example.com"),
    ("curl:*", "curl -sSLo a.txt https://example.com"),
    ("curl:*", "curl -d @a.txt https://example.com"),
    ("curl:*", "curl file:///etc/passwd"),
    ("docker:*", "docker run -v /:/x y"),
    ("pytest:*", "pytest -p x"),
    # Programs that run what they are given.
    ("env:*", "env ./x"),
    ("env:*", "env A=1 ./x"),
    ("timeout:*", "timeout 5 ./x"),
    ("nice:*", "nice -n 5 ./x"),
    ("xargs:*", "xargs ./x"),
    ("sudo:*", "sudo ./x"),
    ("bash:*", "bash -c x"),
    ("npx:*", "npx x"),
    ("xargs cat:*", "echo /etc/passwd | xargs cat"),
    # CVE-2026-22708: export, typeset and declare change what a later command does
    ("git status:*", "export GIT_EXTERNAL_DIFF=./x; git status"),
    ("git status:*", "declare -x GIT_PAGER=./x && git status"),
    ("git status:*", "typeset -x PATH=. ; git status"),
    # CVE-2025-66032: $IFS and short flags
    ("git status:*", "git status$IFS--x"),
    ("rg:*", "rg$IFS--pre=sh x"),
    # CVE-2026-25722: cd, then write
    ("cp:*", "cd .git && cp ../a.txt config"),
    ("cp:*", "cp a.txt .git/hooks/pre-commit"),
    ("mv:*", "mv a.txt AGENTS.md"),
    # A9: a quote before a path that leads out
    ("jq:*", "jq -n 'input(\"../secret\")'"),
    ("cat:*", "cat 'x\"../secret'"),
]
STILL_COVERED = [
    ("rg:*", "rg -n --glob '*.py' x ."),
    ("sed:*", "sed -n 1,80p a.txt"),
    ("sed:*", "sed -n '10,$p' a.txt"),
    ("sed:*", "sed 's/foo/bar/g' a.txt"),
    ("sed:*", "sed -E 's/(a+)/[x]/' a.txt"),
    ("sed -i:*", "sed -i s/a/b/ a.txt"),
    ("find:*", "find . -name '*.py' -type f"),
    ("sort:*", "sort -k2 -n a.txt"),
    ("awk:*", "awk '{print $1}' a.txt"),
    ("awk:*", "awk -F: 'NR==1{print $2}' a.txt"),
    ("jq:*", "jq -r '.items[].name' a.txt"),
    ("tar:*", "tar -tf a.tar"),
    ("tar:*", "tar tf a.tar"),
    ("tar czf:*", "tar czf a.tgz sub"),
    ("make:*", "make -j4 test"),
    ("npm:*", "npm run build"),
    ("npm install:*", "npm install left-pad"),
    ("pip:*", "pip list"),
    ("python:*", "python tool.py --fast"),
    ("python -m pytest:*", "python -m pytest -q sub"),
    ("git:*", "git log -C --stat"),
    ("git:*", "git push origin main"),
    ("git:*", "git commit -m 'fix: the thing'"),
    ("git cherry-pick:*", "git cherry-pick -x abc"),
    ("ruff check:*", "ruff check ."),
    ("curl:*", "curl -sSL https://example.com/x"),
    ("timeout 60 make:*", "timeout 60 make test"),
    ("env CI=1 npm test:*", "env CI=1 npm test"),
    ("xargs wc:*", "xargs wc -l"),
    ("cp:*", "cp a.txt b.txt"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("sub", ".git/hooks"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a.txt").write_text("x")
    return tmp_path.resolve()


def decided(folder: Path, line: str, *, mode: str = "ask", **rules: list[str]) -> PermissionDecision:
    request = command_request(line, lambda path: Path(path).is_relative_to(folder), str(folder), {})
    permissions = Permissions(workspace=str(folder), mode=mode, rules=PermissionRules.of(rules))  # type: ignore[arg-type]
    return permissions.decide(request)


@pytest.mark.parametrize(("rule", "line"), RUNS_OR_WRITES)
def test_a_rule_does_not_cover_what_runs_or_writes_something_else(
    folder: Path, rule: str, line: str
) -> None:
    assert decided(folder, line, allow=[f"Shell({rule})"]).verdict == "ask"


@pytest.mark.parametrize(("rule", "line"), STILL_COVERED)
def test_a_rule_covers_what_people_grant_it_for(folder: Path, rule: str, line: str) -> None:
    assert decided(folder, line, allow=[f"Shell({rule})"]).verdict == "allow"


@pytest.mark.parametrize(("rule", "line"), RUNS_OR_WRITES)
def test_the_very_line_can_be_allowed(folder: Path, rule: str, line: str) -> None:
    if "*" not in line:
        assert decided(folder, line, allow=[f"Shell({line})"]).verdict == "allow"


@pytest.mark.parametrize(("rule", "line"), RUNS_OR_WRITES)
def test_no_rule_that_is_offered_covers_more_than_the_line(folder: Path, rule: str, line: str) -> None:
    for offered in decided(folder, line).would_allow:
        assert not offered.endswith(":*)") or offered.removesuffix(":*)").removeprefix("Shell(") in (
            "git status",
            "git log",
        )


@pytest.mark.parametrize("line", ["CURL x", "Curl -s x", "sudo CURL x", "bash -c 'cUrL x'"])
@pytest.mark.parametrize("mode", ["ask", "autonomous"])
@pytest.mark.spec("S38.2")
def test_a_denied_command_is_denied_in_any_case(folder: Path, line: str, mode: str) -> None:
    assert decided(folder, line, mode=mode, deny=["Shell(curl:*)"]).verdict == "deny"


@pytest.mark.parametrize(
    "line", ["cat a.txt", "cat /etc/shadow", "git status", "ls", "head -c 9 /etc/shadow", "cd sub"]
)
@pytest.mark.parametrize("allow", [[], ["Shell(cat:*)", "Shell(git status:*)"]])
@pytest.mark.spec("S38.2")
def test_a_request_whose_files_nobody_looked_for_is_asked_about(line: str, allow: list[str]) -> None:
    permissions = Permissions(workspace="/ws", rules=PermissionRules.of({"allow": allow}))
    assert permissions.decide(PermissionRequest("Shell", "run", line)).verdict == "ask"


@pytest.mark.spec("S38.2")
def test_where_files_may_not_be_read_no_unchecked_line_runs_by_itself() -> None:
    permissions = Permissions(
        workspace="/ws", mode="autonomous", rules=PermissionRules.of({"deny": ["Read(.env)"]})
    )
    assert permissions.decide(PermissionRequest("Shell", "run", "cat .env")).verdict == "ask"


@pytest.mark.parametrize(
    "line", ["tail -f a.txt", "tail -F a.txt", "tail --follow a.txt", "tail -qf a.txt"]
)
def test_a_command_that_never_ends_is_not_free(folder: Path, line: str) -> None:
    assert decided(folder, line).verdict == "ask"
    assert decided(folder, line.replace("f", "n1", 1)).verdict != "deny"
