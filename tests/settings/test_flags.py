"""Settings through OpenFeature, with the SDK's own providers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.event import ProviderEvent
from openfeature.exception import GeneralError
from openfeature.flag_evaluation import FlagResolutionDetails
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

from sevenfold.clock import ManualClock
from sevenfold.errors import SettingError
from sevenfold.session.flags import DOMAIN, FlagSource, Report, in_memory
from sevenfold.settings import Settings, SettingsLayer, Source, resolve
from sevenfold.stores.settings_files import FileSource


@pytest.fixture(autouse=True)
def nothing_registered():
    yield
    api.shutdown()


class Background:
    """Threads whose end a test can wait for."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def __call__(self, job: Callable[[], None]) -> None:
        thread = threading.Thread(target=job)
        self.threads.append(thread)
        thread.start()

    def wait(self) -> None:
        for thread in self.threads:
            thread.join()


def served(flags: dict[str, Any], report: Report | None = None, base: Source | None = None) -> FlagSource:
    source = FlagSource(base or Settings(), in_memory(flags), report=report)
    source.refresh()
    return source


# What flags do


@pytest.mark.spec("S8.2")
def test_a_flag_wins_over_whatever_else_was_set():
    base = resolve([SettingsLayer("code", {"offload": True, "size_least_tokens": 5})]).settings
    source = served({"offload": False, "size_least_tokens": 7}, base=base)
    assert source.current().offload is False
    assert source.current().size_least_tokens == 7
    assert source.flags == {"offload": False, "size_least_tokens": 7}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layers", False),
        ("collapse", True),
        ("offload_characters", 9_000),
        ("images_limit", 20),
        ("spending_cap_usd", 0.5),
        ("spending_cap_usd", 5),
        ("offload_by_tool", {"Bash": 9_000, "Read": "never"}),
    ],
)
def test_every_kind_of_setting_can_be_a_flag(name, value):
    assert getattr(served({name: value}).current(), name) == value


def test_a_list_can_be_a_flag_too_and_one_that_says_what_is_set_already_is_none():
    assert served({"compact_engines": ["provider", "fork"]}).current().compact_engines == (
        "provider",
        "fork",
    )
    assert served({"compact_engines": []}).flags == {}


@pytest.mark.spec("S8.2")
def test_a_flag_flipped_or_taken_away_is_so_in_a_running_session():
    source = served({"offload": False})
    assert source.current().offload is False
    in_memory({"offload": True, "snip": False})
    source.refresh()
    assert (source.current().offload, source.current().snip) == (True, False)
    in_memory({})
    source.refresh()
    assert source.current() == Settings()


@pytest.mark.spec("S6.4")
def test_what_is_latched_is_no_flag():
    assert served({"provider_edits": False, "gap_keep": 1}).current() == Settings()


def test_without_any_provider_nothing_changes_and_nothing_is_reported():
    said: list[str] = []
    source = FlagSource(Settings(), report=said.append)
    source.refresh()
    assert source.current() == Settings()
    assert said == []


def test_the_provider_the_application_has_is_the_one_that_is_asked():
    api.set_provider_and_wait(InMemoryProvider({"sevenfold.offload": InMemoryFlag("off", {"off": False})}))
    source = FlagSource(Settings())
    source.refresh()
    assert source.current().offload is False


def test_a_provider_may_decide_by_whom_it_is_for():
    def for_beta(flag, context):
        return FlagResolutionDetails(value=context.targeting_key != "beta")

    flag = InMemoryFlag("on", {"on": True}, context_evaluator=for_beta)
    api.set_provider_and_wait(InMemoryProvider({"sevenfold.offload": flag}), DOMAIN)
    beta = FlagSource(Settings(), context=EvaluationContext("beta"))
    others = FlagSource(Settings())
    for source in (beta, others):
        source.refresh()
    assert (beta.current().offload, others.current().offload) == (False, True)


def test_flags_lie_over_files_that_change_too(tmp_path):
    files = FileSource(environ={"SEVENFOLD_HOME": str(tmp_path)})
    source = served({"offload": False}, base=files)
    (tmp_path / "settings.toml").write_text("offload = true\nsnip = false\n")
    assert (source.current().offload, source.current().snip) == (False, False)


def test_a_flag_for_no_setting_cannot_be_made():
    with pytest.raises(SettingError, match="did you mean offload"):
        in_memory({"ofload": False})


# What is wrong with flags


@pytest.mark.spec("S8.2")
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("offload", "off"),
        ("offload_characters", -5),
        ("offload_characters", "many"),
        ("offload_characters", True),
        ("spending_cap_usd", -0.5),
        ("spending_cap_usd", "none"),
        ("offload_by_tool", {"Bash": "always"}),
        ("compact_engines", ["notes"]),
    ],
)
def test_a_wrong_value_is_reported_once_and_ignored(name, wrong):
    said: list[str] = []
    source = served({name: wrong}, said.append)
    assert source.current() == Settings()
    source.refresh()
    (report,) = said
    assert f"flag sevenfold.{name}" in report
    assert "it takes" in report


def test_a_value_gone_wrong_leaves_the_last_good_one():
    said: list[str] = []
    source = served({"offload": False}, said.append)
    in_memory({"offload": "flase"})
    source.refresh()
    assert source.current().offload is False
    assert len(said) == 1


def test_a_flag_that_contradicts_another_setting_is_reported_and_ignored():
    said: list[str] = []
    source = served({"size_trigger_tokens": 10_000, "snip": False}, said.append)
    assert source.current() == Settings(snip=False)
    (report,) = said
    assert "size_target_tokens = 20000" in report
    assert "size_trigger_tokens = 10000 (flag)" in report


class Broken(InMemoryProvider):
    """A provider that fails when asked."""

    def resolve_boolean_details(self, flag_key, default_value, evaluation_context=None):
        raise GeneralError("the server is on fire")


def test_a_provider_that_fails_leaves_everything_as_it_was():
    said: list[str] = []
    source = served({"offload": False}, said.append)
    api.set_provider_and_wait(Broken({}), DOMAIN)
    source.refresh()
    assert source.current().offload is False
    assert all("the server is on fire" in report for report in said)
    assert said


# Nobody waits


class Slow(InMemoryProvider):
    """A provider that answers when it is let."""

    def __init__(self, flags: dict[str, InMemoryFlag[Any]]) -> None:
        super().__init__(flags)
        self.asked, self.let = threading.Event(), threading.Event()

    def resolve_boolean_details(self, flag_key, default_value, evaluation_context=None):
        self.asked.set()
        self.let.wait()
        return super().resolve_boolean_details(flag_key, default_value, evaluation_context)


@pytest.mark.spec("S8.2")
def test_a_session_never_waits_for_a_provider_and_asks_once_at_a_time():
    slow, background = Slow({"sevenfold.offload": InMemoryFlag("off", {"off": False})}), Background()
    api.set_provider_and_wait(slow, DOMAIN)
    source = FlagSource(Settings(), start=background)
    assert source.current().offload is True
    slow.asked.wait()
    assert source.current().offload is True
    assert len(background.threads) == 1
    slow.let.set()
    background.wait()
    assert source.current().offload is False


class Starting(InMemoryProvider):
    """A provider that takes its time to get ready."""

    def __init__(self, flags: dict[str, InMemoryFlag[Any]]) -> None:
        super().__init__(flags)
        self.let = threading.Event()

    def initialize(self, evaluation_context):
        self.let.wait()


def test_a_provider_that_is_not_ready_is_reported_and_asked_again_at_the_next_request():
    said: list[str] = []
    background, ready = Background(), threading.Event()
    starting = Starting({"sevenfold.offload": InMemoryFlag("off", {"off": False})})
    source = FlagSource(Settings(), start=background, report=said.append, clock=ManualClock())
    api.add_handler(ProviderEvent.PROVIDER_READY, lambda _: ready.set())
    ready.clear()
    api.set_provider(starting, DOMAIN)
    for _ in range(2):
        source.current()
        background.wait()
    (report,) = said
    assert "NOT_READY" in report
    starting.let.set()
    ready.wait()
    source.current()
    background.wait()
    assert source.current().offload is False


@pytest.mark.spec("S8.2")
def test_the_last_copy_is_used_until_it_has_grown_old():
    clock, background = ManualClock(), Background()
    source = FlagSource(Settings(), in_memory({}), clock=clock, start=background, seconds=30)
    source.current()
    background.wait()
    in_memory({"offload": False})
    clock.advance(29)
    source.current()
    background.wait()
    assert source.current().offload is True
    clock.advance(1)
    source.current()
    background.wait()
    assert source.current().offload is False


def test_a_clock_set_back_does_not_stop_the_reading():
    clock, background = ManualClock(), Background()
    source = FlagSource(Settings(), in_memory({"offload": False}), clock=clock, start=background)
    source.current()
    background.wait()
    clock.advance(-1_000_000)
    in_memory({})
    source.current()
    background.wait()
    assert source.current().offload is True


def test_where_no_thread_can_be_had_the_last_copy_stays_and_it_is_tried_again():
    started = []

    def start(job):
        started.append(job)
        if len(started) == 1:
            raise RuntimeError("can't start new thread")
        job()

    source = FlagSource(Settings(), in_memory({"offload": False}), start=start)
    assert source.current().offload is True
    assert source.current().offload is False


def test_by_default_flags_are_read_in_a_thread_that_does_not_keep_the_program():
    source = FlagSource(Settings(), in_memory({"offload": False}))
    source.current()
    for thread in threading.enumerate():
        if thread.name == "sevenfold-flags":
            assert thread.daemon
            thread.join()
    assert source.current().offload is False


def test_without_the_sdk_the_error_says_what_to_install():
    script = (
        "import sys; sys.modules['openfeature'] = None\n"
        "from sevenfold.session.flags import FlagSource\n"
        "from sevenfold.settings import Settings\n"
        "from sevenfold.errors import SettingError\n"
        "try: FlagSource(Settings())\n"
        "except SettingError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'sevenfold[flags]'" in ran.stdout
