"""The sandbox of one agent: what it confines its commands with, and what it tells the user and the model about that."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from sevenfold.agent.sandbox import bubblewrap, landlock, newcomers, seatbelt
from sevenfold.agent.sandbox.arrivals import Arrivals
from sevenfold.agent.sandbox.bubblewrap import PORT, PrivatePlaces
from sevenfold.agent.sandbox.caches import copy_caches
from sevenfold.agent.sandbox.calls import call_filter
from sevenfold.agent.sandbox.machine import Machine, Mechanism, this_machine
from sevenfold.agent.sandbox.newcomers import GuardedName
from sevenfold.agent.sandbox.policy import SandboxPolicy, path_lists
from sevenfold.agent.sandbox.proxy import HostRules, Proxy, proxy_variables, without_proxies
from sevenfold.errors import Refused

Wish = Literal["auto", "required", "off"]
LOOK_SECONDS = 0.5
"""How often files that appear are looked for while a command runs."""
OUTER_SOCKETS = (
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
)
"""Variables that name sockets which do not exist in the sandbox."""
_GIT_SECONDS = 5.0
_GIT_IDENTITY = "^(user\\.(name|email)|init\\.defaultbranch)$"


class SandboxState(Struct, frozen=True):
    """The sandbox's status, for the user."""

    label: str
    """For the status line; empty if there is nothing to say."""
    details: str
    """A sentence for `sevenfold doctor` and the docs."""
    weak: bool = False
    """Whether it confines less than it could, or not at all."""


class Sandbox:
    """Confines commands. Made for an agent even if nothing can confine them: then it says why."""

    def __init__(
        self,
        wish: Wish,
        policy: Callable[[], SandboxPolicy],
        folder: Path,
        *,
        hosts: Sequence[str] = (),
        machine: Machine | None = None,
    ) -> None:
        """``policy`` makes the policy for a command; ``folder`` is the agent's folder, for what is set aside."""
        self._wish = wish
        self._policy = policy
        self._kept = folder
        self._machine = (
            machine if machine is not None else this_machine() if wish != "off" else Machine(None)
        )
        self._rules = HostRules(hosts)
        self._hosts = tuple(hosts)
        self._lock = threading.Lock()
        self._running = 0
        self._private: PrivatePlaces | None = None
        self._proxy: Proxy | None = None

    @property
    def is_off(self) -> bool:
        """Whether the settings say that nothing is confined."""
        return self._wish == "off"

    @property
    def works(self) -> bool:
        """Whether commands are confined."""
        return self._wish != "off" and self._machine.mechanism is not None

    @property
    def settles(self) -> bool:
        """Whether a command in it needs no question: it cannot harm more than the files of the workspace."""
        mechanism = self._machine.mechanism
        return self.works and mechanism is not None and mechanism.kind != "landlock" and not self._hosts

    @property
    def refusal(self) -> str:
        """Why no command may run at all; empty if they may."""
        if self._wish != "required" or self.works:
            return ""
        return (
            "Commands may only run in a sandbox (sandbox = required), and there is none here: "
            f"{'; '.join(self._machine.problems)}. 'sevenfold doctor' says more."
        )

    @property
    def state(self) -> SandboxState:
        """The status, for the user."""
        mechanism = self._machine.mechanism
        problems = "; ".join(self._machine.problems)
        if self._wish == "off":
            return SandboxState("", "off: commands run with all your rights (sandbox = off)", weak=True)
        if mechanism is None:
            if self._wish == "required":
                return SandboxState(
                    "no sandbox: no commands", f"required, and there is none: {problems}", weak=True
                )
            return SandboxState("no sandbox", f"none: {problems}", weak=True)
        reach = f"hosts: {', '.join(self._hosts)}" if self._hosts else "no network"
        if mechanism.kind == "landlock":
            network = (
                "no network"
                if mechanism.isolates_network
                else "TCP refused, but not UDP or sockets in files"
            )
            label = "sandbox: weaker" if mechanism.isolates_network else "sandbox: files only"
            details = (
                f"Landlock: {network}; files that decide what runs later are not guarded, and rights and times of "
                f"files outside can be changed; {problems}"
            )
            return SandboxState(label, details, weak=True)
        if mechanism.kind == "seatbelt":
            return SandboxState(
                "sandbox: untested", "Seatbelt, whose profile is untested; no network", weak=True
            )
        return SandboxState("sandbox", f"bubblewrap; {reach}")

    @contextmanager
    def around_command(
        self, report: Callable[[str], None] = lambda notice: None, agreed: Collection[Path] = ()
    ) -> Iterator[Confinement]:
        """Confine one command; raises `Refused` if that is impossible.

        ``report`` is called with a sentence for each file that is set aside; ``agreed`` are guarded files that the user
        lets this command write.
        """
        mechanism = self._machine.mechanism
        if not self.works or mechanism is None:
            raise Refused(self.refusal or "There is no sandbox here.")
        proxy = self._open_proxy().socket if self._hosts and mechanism.kind == "bubblewrap" else None
        confinement = Confinement(
            mechanism, self._policy().agreeing(agreed), self._places(), proxy, self._kept, report
        )
        with self._lock:
            self._running += 1
        arrivals = Arrivals(confinement.watched_folders, partial(confinement.look, now=True))
        try:
            yield confinement
        finally:
            arrivals.close()
            confinement.look(now=True)
            with self._lock:
                self._running -= 1
                alone = self._running == 0
            for folder in confinement.absent if alone else ():
                with suppress(OSError):  # something else has put files into it
                    folder.rmdir()

    def explain_failure(self) -> str:
        """What to tell the model when a command failed in it."""
        network = f"network: only {', '.join(self._hosts)}" if self._hosts else "no network"
        return (
            f"(It ran in the sandbox: {network}; it sees the system and the workspace, and writes only in the "
            "workspace and $TMPDIR. Only if that is why it failed: `unconfined` asks the user to run it outside.)"
        )

    def close(self) -> None:
        """Remove its temporary files."""
        with self._lock:
            if self._proxy is not None:
                self._proxy.close()
            if self._private is not None:
                shutil.rmtree(self._private.folder, ignore_errors=True)
            self._proxy = None
            self._private = None

    def _places(self) -> PrivatePlaces:
        with self._lock:
            if self._private is None:
                self._private = PrivatePlaces(Path(tempfile.mkdtemp(prefix="sevenfold-sandbox-")).resolve())
                self._private.create()
                copy_caches(path_lists()["caches"], Path.home(), self._private.home)
            self._private.create()
            return self._private

    def _open_proxy(self) -> Proxy:
        with self._lock:
            if self._proxy is None:
                self._proxy = Proxy(self._rules)
            return self._proxy


class Confinement:
    """What confines one command."""

    def __init__(
        self,
        mechanism: Mechanism,
        policy: SandboxPolicy,
        private: PrivatePlaces,
        proxy: Path | None,
        folder: Path,
        report: Callable[[str], None],
    ) -> None:
        self._mechanism = mechanism
        self._policy = policy
        self._private = private
        self._proxy = proxy
        self._kept = folder
        self._report = report
        absent = [rule.path for rule in policy.rules if rule.access == "absent"]
        self.absent = tuple(path for path in absent if not os.path.lexists(path))
        """Folders that do not exist and must not come into being; bubblewrap leaves them behind, empty."""
        self._watched = [
            name for name in newcomers.missing(policy.newcomers) if name.path not in self.absent
        ]
        if mechanism.kind == "landlock":
            # It cannot keep a folder from being created, so what appears there is set aside like a file.
            self._watched += [GuardedName(path.parent, path.name) for path in self.absent]
        self._looking = threading.Lock()
        self._looked = time.monotonic()
        self._times: Counter[Path] = Counter()
        self.insists = ""
        """Why the command must end: it creates again and again what is set aside; empty if it does not."""
        self.end_command: Callable[[], None] = lambda: None
        """Ends the command at once; set by the caller that started it."""

    def open_call_filter(self) -> int | None:
        """A descriptor with the filter of system calls, for bubblewrap to read; the caller closes it."""
        program = call_filter()
        if self._mechanism.kind != "bubblewrap" or not program:
            return None
        read_end, write_end = os.pipe()
        os.write(write_end, program)
        os.close(write_end)
        return read_end

    def command_line(
        self, argv: Sequence[str], cwd: str, filter_descriptor: int | None = None
    ) -> list[str]:
        """The command line that runs ``argv`` confined."""
        match self._mechanism.kind:
            case "landlock":
                return landlock.command_line(self._policy, self._private, argv)
            case "seatbelt":
                return seatbelt.command_line(self._policy, self._private, argv)
        return bubblewrap.command_line(
            self._mechanism.program,
            self._policy,
            self._private,
            argv,
            cwd=cwd,
            proxy=self._proxy,
            nested=self._mechanism.nested,
            call_filter=filter_descriptor,
        )

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment for the command."""
        made = without_proxies(dict(environ))
        for name in OUTER_SOCKETS:
            made.pop(name, None)
        if self._mechanism.kind == "bubblewrap":
            made |= {"HOME": str(self._policy.home), "TMPDIR": "/tmp"}
        else:
            made |= {"HOME": str(self._private.home), "TMPDIR": str(self._private.temporary)}
        if self._proxy is not None:
            made |= proxy_variables(PORT)
        return _with_git_identity(made)

    def watched_folders(self) -> set[Path]:
        """The folders in which names that must stay free would appear, as far as they exist."""
        folders: set[Path] = set()
        for name in self._watched:
            folders.add(name.folder)
            between = name.path.parent
            while between != name.folder:
                folders.add(between)
                between = between.parent
        return {folder for folder in folders if folder.is_dir()}

    def look(self, *, now: bool = False) -> None:
        """Set aside what the command created and must not; to be called now and then while it runs."""
        if not now and time.monotonic() - self._looked < LOOK_SECONDS:
            return
        with self._looking:
            self._looked = time.monotonic()
            moved = newcomers.set_aside(self._watched, self._kept / newcomers.FOLDER)
            for path, target in moved.items():
                self._times[path] += 1
                if self._times[path] > newcomers.MOST_TIMES:
                    self.insists = (
                        f"it kept creating {path.name}, which decides what runs later or what agents are told, and "
                        "was ended"
                    )
                    self.end_command()
                self._report(
                    f"({path.name} decides what runs later or what agents are told, and appeared while a command ran "
                    f"in the sandbox: it was moved to {target}. Write can create it, if the user agrees.)"
                )


@cache
def _git_identity() -> tuple[tuple[str, str], ...]:
    """Name and address of the user as git knows them, whose own settings do not exist in the sandbox."""
    line = ["git", "config", "--global", "--get-regexp", _GIT_IDENTITY]
    try:
        ran = subprocess.run(
            line, capture_output=True, timeout=_GIT_SECONDS, stdin=subprocess.DEVNULL, cwd="/", check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    entries = [entry.partition(" ") for entry in ran.stdout.decode(errors="replace").splitlines()]
    return tuple((key, value) for key, _, value in entries)


def _with_git_identity(environ: dict[str, str]) -> dict[str, str]:
    count = environ.get("GIT_CONFIG_COUNT", "0")
    number = int(count) if count.isascii() and count.isdigit() else 0
    for key, value in _git_identity():
        environ |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        number += 1
    return {**environ, "GIT_CONFIG_COUNT": str(number)}
