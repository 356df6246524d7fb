"""What all tests share: how hard Hypothesis tries, and where a corpus of real transcripts may lie."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from sevenfold.conversation import waiting
from sevenfold.layers.compact import writer
from sevenfold.stores import lineage

ROOT = Path(__file__).resolve().parent.parent

# A loaded machine must not fail a test, so nothing here is timed; the default profile is small and the same on
# every run: looking for new counter-examples is what `./dev prove` is for.
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("ci"), derandomize=False, max_examples=100)
settings.register_profile(
    "prove", settings.get_profile("quick"), max_examples=500, stateful_step_count=30, print_blob=True
)
# For faults that are put in on purpose: whether a test fails is enough, the smallest example is not wanted.
settings.register_profile("faults", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(
    {"1": "prove", "quick": "quick", "faults": "faults"}.get(os.environ.get("SEVENFOLD_PROVE", ""), "ci")
)


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test leaves anything in the home of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEVENFOLD_HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("SEVENFOLD_AGENT", raising=False)
        # Most tests look at commands from outside, by their process ids and files, and must say the same wherever they
        # run. The sandbox has tests of its own, which switch it on.
        patch.setenv("SEVENFOLD_SANDBOX", "off")
        yield


@pytest.fixture(scope="session", autouse=True)
def no_certificates() -> Iterator[None]:
    """Reading the certificates of the world's authorities takes 30 ms a client, and no test speaks TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def short_pauses() -> Iterator[float]:
    """Before a request is made again there is a pause, which tests need not sit out; gives its real length."""
    real = waiting.FIRST_PAUSE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "FIRST_PAUSE", 0.001)
        patch.setattr(waiting, "LONGEST_PAUSE", 0.001)
        yield real


@pytest.fixture
def real_pauses(short_pauses: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of their real length, for tests in which waiting takes no time."""
    monkeypatch.setattr(waiting, "FIRST_PAUSE", short_pauses)
    monkeypatch.setattr(waiting, "LONGEST_PAUSE", 60.0)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real transcripts beside the project, which is not part of it."""
    folder = ROOT.parent / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("no corpus of real transcripts at ../shared/corpus, so nothing was held against one")
    return folder


@pytest.fixture(autouse=True)
def no_agent_left_by_another_test() -> Iterator[None]:
    """An agent that a test leaves open would make the child processes of all later tests an agent's."""
    yield
    lineage.AGENTS.clear()


@pytest.fixture
def compactions_of_any_size() -> Iterator[None]:
    """A compaction that frees little is not made; tests of what follows one have conversations of a few words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "LEFT_SHARE", 100.0)
        yield


NOT_TESTED = "SANDBOX NOT TESTED"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say clearly what could not be tested on this machine: a skip is no pass."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", ()):
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if NOT_TESTED in reason:
            reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in reasons.items():
        terminalreporter.write_line(
            f"{count} tests: {reason.removeprefix('Skipped: ')}", red=True, bold=True
        )
