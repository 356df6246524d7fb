"""Ways out of the sandbox that no advisory names: processes, kernel objects, devices, mounts, terminals, git."""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.sandbox.calls import call_filter
from tests.agent.confining import SECRET, World, machine_with

pytestmark = pytest.mark.spec("S38.9")

PYTHON = "/usr/bin/python3 -I -S -c"
LIBC = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True);"
KEYCTL, ADD_KEY = {"x86_64": (250, 248), "aarch64": (219, 217)}.get(platform.machine(), (0, 0))

READING = {
    "the root of the first process": "cat /proc/1/root$HOME/.ssh/id_rsa",
    "its own root": "cat /proc/self/root$HOME/.ssh/id_rsa",
    "up from its working directory": "cat /proc/self/cwd/../.ssh/id_rsa",
    "up from the descriptor of a folder": "exec 9< .; cat /proc/self/fd/9/../.ssh/id_rsa /dev/fd/9/../.ssh/id_rsa",
    "the root of another process": "cat /proc/$OTHER/root$HOME/.ssh/id_rsa; tr '\\0' ' ' < /proc/$OTHER/environ",
    "the namespaces of another process": "nsenter -t $OTHER -m -n -p cat $HOME/.ssh/id_rsa",
    "a mount in namespaces of its own": "unshare -Urm sh -c 'mount --bind / /mnt; cat /mnt$HOME/.ssh/id_rsa'",
    "a link that changes while it is looked at": (
        "for i in $(seq 200); do ln -sfn $HOME/.ssh d; cat d/id_rsa; rm d; mkdir d; rmdir d; done"
    ),
    "files that programs take as settings": (
        "git config --file $HOME/.ssh/id_rsa -l; git diff --no-index /dev/null $HOME/.ssh/id_rsa; "
        "bash -x $HOME/.ssh/id_rsa; mapfile -t words < $HOME/.ssh/id_rsa; echo ${words[@]}"
    ),
    "objects of a repository elsewhere": (
        "echo $HOME/.ssh > .git/objects/info/alternates; cat $(cat .git/objects/info/alternates)/id_rsa"
    ),
    "an alias of git": "git -c alias.x='!cat $HOME/.ssh/id_rsa' x",
    "a copy by reference": "cp --reflink=auto $HOME/.ssh/id_rsa x; dd if=$HOME/.ssh/id_rsa; cat x",
    "a copy of a program with more rights": "cp $(command -v cat) c; chmod u+s c; ./c $HOME/.ssh/id_rsa",
    "memory shared under a name": "cat /dev/shm/$SHARED",
    "open files of the shell": "for f in /proc/self/fd/* /proc/$PPID/fd/*; do [ -f $f ] && cat $f; done; cat ~/.ssh/*",
}
WRITING = {
    "the folder around the workspace": "cd ..; rm -rf other; mv project moved",
    "a worktree outside": (
        "git -c user.name=a -c user.email=b commit -q --allow-empty -m x; git worktree add -q $HOME/other/tree"
    ),
    "an archive through a link": (
        "mkdir t; ln -s $HOME/other t/l; cp README t/l/secret.txt; echo x > x; tar cf a.tar x; tar -C t/l -xf a.tar"
    ),
    "up from the descriptor of a folder": "exec 9< .; echo gone > /proc/self/fd/9/../other/secret.txt",
}
GUARDED = {
    "the mounts are taken away": "umount CLAUDE.md; umount -l .git/hooks; echo x >> CLAUDE.md",
    "another name for the same file": (
        "ln CLAUDE.md x; echo x >> x; ln .git/config y; echo '[core]' >> y; echo >> CLAUDE.md"
    ),
    "a file in place of it": (
        "echo evil > e; mv -f e CLAUDE.md; cp e CLAUDE.md; rm -f CLAUDE.md; sed -i s/the/a/ CLAUDE.md"
    ),
}


@pytest.fixture
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[World]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    kind = request.param
    world = World(tmp_path, None if kind == "none" else machine_with(kind))
    yield world
    world.close()


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the user's, outside."""
    with subprocess.Popen(["sleep", "60"], env={"HELD": SECRET, "PATH": os.environ["PATH"]}) as process:
        monkeypatch.setenv("OTHER", str(process.pid))
        yield process
        process.kill()


everywhere = pytest.mark.parametrize("world", ["bubblewrap", "landlock"], indirect=True)
by_mounts = pytest.mark.parametrize("world", ["bubblewrap"], indirect=True)


@everywhere
@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_no_secret_is_read(
    world: World, command: str, other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Path(f"/dev/shm/sevenfold-{os.getpid()}")
    monkeypatch.setenv("SHARED", shared.name)
    shared.write_text(SECRET)
    try:
        assert not world.attack(command)
    finally:
        shared.unlink()


@everywhere
@pytest.mark.parametrize("command", WRITING.values(), ids=WRITING)
def test_nothing_outside_is_changed(world: World, command: str) -> None:
    assert not world.attack(command)


@by_mounts
@pytest.mark.parametrize("command", GUARDED.values(), ids=GUARDED)
def test_no_guarded_file_is_changed(world: World, command: str) -> None:
    assert not world.attack(command)


@pytest.mark.parametrize("world", ["none"], indirect=True)
@pytest.mark.parametrize(
    "command",
    [
        READING["its own root"],
        READING["up from its working directory"],
        WRITING["an archive through a link"],
    ],
)
def test_without_a_sandbox_such_attacks_succeed(world: World, command: str) -> None:
    assert world.attack(command)


@everywhere
def test_other_processes_are_neither_signalled_nor_traced(
    world: World, other: subprocess.Popen[bytes]
) -> None:
    output = world.run(
        "kill -9 $OTHER && echo DONE; kill -0 $OTHER && echo DONE; renice 19 -p $OTHER && echo DONE; "
        f"{PYTHON} \"{LIBC} print('DONE' if libc.ptrace(16, $OTHER, 0, 0) == 0 else ctypes.get_errno())\""
    )
    assert "DONE" not in output
    assert other.poll() is None


@everywhere
@pytest.mark.skipif(not KEYCTL, reason="the numbers of calls are not known here")
def test_keys_that_the_kernel_holds_are_not_read(world: World) -> None:
    libc = ctypes.CDLL(None)
    secret = SECRET.encode()
    session_keyring = ctypes.c_long(-3)

    def hold() -> None:
        # In a thread with a keyring of its own, which its children inherit and nobody else gets.
        libc.syscall(KEYCTL, 1, None)
        libc.syscall(ADD_KEY, b"user", b"sevenfold", secret, len(secret), session_keyring)
        outputs.append(world.run(f'{PYTHON} "{LIBC} {read}"'))
        outputs.append(
            subprocess.run([sys.executable, "-c", f"{LIBC} {read}"], capture_output=True, text=True).stdout
        )

    read = (
        "b = ctypes.create_string_buffer(99); session = ctypes.c_long(-3); "
        f"k = libc.syscall({KEYCTL}, 10, session, b'user', b'sevenfold', 0); "
        f"n = libc.syscall({KEYCTL}, 11, k, b, 99); print(b.raw[:max(n, 0)])"
    )
    outputs: list[str] = []
    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    inside, outside = outputs
    assert SECRET not in inside
    assert SECRET in outside


@everywhere
def test_settings_of_the_whole_machine_are_read_only(world: World) -> None:
    files = (
        "/proc/sys/kernel/core_pattern /proc/sys/vm/swappiness /sys/kernel/mm/transparent_hugepage/enabled"
    )
    output = world.run(
        f"for f in {files}; do [ -e $f ] && (: >> $f) && echo DONE; done; mkdir /sys/fs/cgroup/evil && echo DONE"
    )
    assert "DONE" not in output


@everywhere
def test_devices_and_mounts_cannot_be_had(world: World) -> None:
    output = world.run(
        "mknod disk b 259 0 && head -c 1 disk && echo DONE; for d in /dev/mem /dev/vda /dev/sda /proc/kcore; do "
        "head -c 1 $d > /dev/null && echo DONE; done; chroot / true && echo DONE; mount -t tmpfs x src && echo DONE; "
        f"{PYTHON} \"{LIBC} print('DONE' if libc.syscall(430, b'tmpfs', 0) >= 0 else '')\""
    )
    assert "DONE" not in output


@everywhere
@pytest.mark.skipif(not call_filter(), reason="the numbers of calls are not known here")
def test_calls_around_the_walls_are_refused(world: World) -> None:
    virtual_machine = getattr(socket, "AF_VSOCK", 40)
    output = world.run(
        f'{PYTHON} "{LIBC} b = ctypes.create_string_buffer(120)\n'
        f"ring = libc.syscall(425, 4, b); made = libc.socket({virtual_machine}, 1, 0)\n"
        'typed = libc.ioctl(0, 0x5412, b); why = ctypes.get_errno(); print(ring, made, typed, why)"'
    )
    assert output.strip() == "-1 -1 -1 1"


@everywhere
def test_the_users_terminal_is_not_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = os.openpty()
    monkeypatch.setenv("TERMINAL", os.ttyname(follower))
    try:
        assert "DONE" not in world.run("exec 3<>$TERMINAL && echo DONE; (: > /dev/tty) && echo DONE")
    finally:
        os.close(leader)
        os.close(follower)


@everywhere
@pytest.mark.parametrize("family", ["abstract", "udp", "ipv6"])
def test_no_socket_of_another_kind_is_reached(
    world: World, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    kinds: dict[str, tuple[int, int, Any]] = {
        "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0sevenfold-{os.getpid()}"),
        "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        "ipv6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
    }
    domain, kind, address = kinds[family]
    server = socket.socket(domain, kind)
    with suppress(OSError):
        server.bind(address)
    if not server.getsockname():
        pytest.skip("this machine has no such address")
    if kind == socket.SOCK_STREAM:
        server.listen()
    server.setblocking(False)
    name = server.getsockname()
    target = repr(name.decode() if isinstance(name, bytes) else tuple(name[:2]))
    code = (
        f"import socket; s = socket.socket({int(domain)}, {int(kind)}); s.settimeout(3); "
        f"s.connect({target}); s.send(b'x')"
    )
    monkeypatch.setenv("CODE", code)
    world.run(f'{PYTHON} "$CODE"')
    with pytest.raises(BlockingIOError):
        server.recv(9) if kind == socket.SOCK_DGRAM else server.accept()
    world.machine = None
    world.run(f'{PYTHON} "$CODE"')
    if kind == socket.SOCK_DGRAM:
        assert server.recv(9) == b"x"
    else:
        server.accept()[0].close()
    server.close()


@by_mounts
@pytest.mark.parametrize("exists", [True, False], ids=["there", "not there yet"])
def test_hooks_and_settings_that_the_repository_names_are_guarded(world: World, exists: bool) -> None:
    git = ["git", "-C", str(world.workspace), "config"]
    subprocess.run([*git, "core.hooksPath", "tools/hooks"], check=True)
    subprocess.run([*git, "include.path", "../tools/gitconfig"], check=True)
    if exists:
        (world.workspace / "tools/hooks").mkdir(parents=True)
        (world.workspace / "tools/gitconfig").write_text("")
    world.run(
        "mkdir -p tools; echo '[core]' >> tools/gitconfig; mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit"
    )
    assert not (world.workspace / "tools/hooks/pre-commit").exists()
    settings = world.workspace / "tools/gitconfig"
    assert not settings.exists() or settings.read_text() == ""


def test_the_filter_is_known_for_the_common_processors_and_empty_elsewhere() -> None:
    assert len(call_filter("x86_64")) == len(call_filter("aarch64")) > 0
    assert call_filter("riscv64") == b""
