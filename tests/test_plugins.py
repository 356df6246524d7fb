"""What other packages add: providers and commands that are found by their entry points."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import sevenfold
from sevenfold.cli.chat.start import ChatOptions, agent_options
from sevenfold.cli.main import main
from sevenfold.errors import InputError
from sevenfold.layers.ladder import STANDARD
from sevenfold.providers import registry

PROVIDER = """
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.providers.provider import Provider


class Echo(Provider):
    name = "echo"

    def serves(self, profile):
        return profile.model.startswith("echo-")

    def client(self, given=None, wire=None):
        return OfflineClient(Script(["I am from the plugin."]))
"""
COMMAND = '''
"""Greets somebody."""


def arguments(command):
    command.add_argument("name")


def run(options):
    print(f"Hello, {options.name}.")
    return 3
'''

LAYER = """
class Quiet:
    name = "quiet"

    def on(self, settings):
        return True

    def on_tool_results(self, c, results):
        return results
"""

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package of one module, with an entry point for it."""
    monkeypatch.syspath_prepend(tmp_path)
    providers, loaded = list(registry._providers), list(registry._plugins_loaded)
    registry._plugins_loaded.clear()
    modules: list[str] = []

    def installed(module: str, code: str, entry: str) -> None:
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry)
        modules.append(module)

    yield installed
    registry._providers[:] = providers
    registry._plugins_loaded[:] = loaded
    for module in modules:
        sys.modules.pop(module, None)


@pytest.mark.spec("S26.5")
def test_a_provider_of_an_installed_package_answers_for_its_models(install: Install):
    install("echoing", PROVIDER, "[sevenfold.providers]\necho = echoing:Echo\n")
    with sevenfold.Session.in_memory(model="echo-1") as session:
        session.user("Who are you?")
        assert session.complete().text == "I am from the plugin."


@pytest.mark.spec("S26.5")
def test_a_provider_that_is_not_needed_is_not_imported(install: Install):
    install("echoing", PROVIDER, "[sevenfold.providers]\necho = echoing:Echo\n")
    sevenfold.Session.in_memory(model="claude-sonnet-5-5").close()
    assert "echoing" not in sys.modules


@pytest.mark.spec("S26.5")
def test_a_broken_provider_costs_one_warning_that_names_its_package(
    install: Install, caplog: pytest.LogCaptureFixture
):
    install("broken", "raise RuntimeError('half installed')", "[sevenfold.providers]\nbad = broken:Bad\n")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert registry.provider_for("some-unknown-model").name in registry.wires()
    (warning,) = caplog.messages
    assert "the plugin bad (sevenfold.providers) of the package broken is left out" in warning
    assert "half installed" in warning


@pytest.mark.spec("S26.5")
@pytest.mark.parametrize("name", ["messages", ""])
def test_a_provider_cannot_take_the_name_of_another_or_have_none(
    install: Install, caplog: pytest.LogCaptureFixture, name: str
):
    code = PROVIDER.replace('"echo"', f'"{name}"')
    install("echoing", code, "[sevenfold.providers]\necho = echoing:Echo\n")
    assert "echoing" not in {type(provider).__module__ for provider in registry.providers()}
    registry.wires()
    assert "echoing" not in {type(provider).__module__ for provider in registry.providers()}
    assert len(caplog.messages) == 1


@pytest.mark.spec("S26.5")
def test_a_command_of_an_installed_package_runs_and_is_listed(
    install: Install, capsys: pytest.CaptureFixture[str]
):
    install("greeting", COMMAND, "[sevenfold.commands]\ngreet = greeting\n")
    assert main(["greet", "Ada"]) == 3
    assert capsys.readouterr().out == "Hello, Ada.\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "a command of the package greeting" in capsys.readouterr().out


@pytest.mark.spec("S26.5")
@pytest.mark.parametrize("code", ["raise RuntimeError('half installed')", "arguments = None"])
def test_a_broken_command_is_one_line_and_the_others_work(
    install: Install, capsys: pytest.CaptureFixture[str], code: str
):
    install("greeting", code, "[sevenfold.commands]\ngreet = greeting\n")
    assert main(["greet"]) == 2
    assert "the command greet cannot be loaded" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["config", "--json"]) == 0


@pytest.mark.spec("S26.5")
def test_a_layer_of_an_installed_package_is_chosen_by_its_name(install: Install):
    install("quieting", LAYER, "[sevenfold.layers]\nquiet = quieting:Quiet\n")
    with sevenfold.Session.in_memory(model="offline", layers=["quiet", *STANDARD]) as session:
        assert [layer.name for layer in session.conversation.ladder.layers][:2] == ["quiet", "offload"]
    with sevenfold.Agent("offline", layers=["quiet", *STANDARD], tools=[]) as agent:
        assert agent.assembly.conversation.ladder.layers[0].name == "quiet"


@pytest.mark.spec("S26.20")
def test_a_setting_adds_layers_of_installed_packages_to_sessions_agents_and_the_chat(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    install("quieting", LAYER, "[sevenfold.layers]\nquiet = quieting:Quiet\n")
    monkeypatch.setenv("SEVENFOLD_LAYER_PLUGINS", "quiet")
    with sevenfold.Session.in_memory(model="offline") as session:
        assert [layer.name for layer in session.conversation.ladder.layers] == [
            "quiet",
            *(layer.name for layer in STANDARD),
        ]
    chosen = agent_options(ChatOptions(folder=tmp_path, name="s", model="offline"))
    with closing(chosen["client"]), sevenfold.Agent("offline", **chosen) as agent:
        assert agent.assembly.conversation.ladder.layers[0].name == "quiet"
    with sevenfold.Session.in_memory(model="offline", layers=STANDARD) as session:
        assert session.conversation.ladder.layers == STANDARD


@pytest.mark.spec("S26.20")
def test_a_setting_that_names_a_layer_nobody_brings_is_an_error_that_names_the_setting():
    with pytest.raises(InputError, match="the setting layer_plugins has the name 'lost'"):
        sevenfold.Session.in_memory(model="offline", settings={"layer_plugins": ["lost"]})


@pytest.mark.spec("S26.5")
@pytest.mark.parametrize("code", ["raise RuntimeError('half installed')", "Quiet = dict"])
def test_a_broken_layer_costs_one_warning_and_is_left_out(
    install: Install, caplog: pytest.LogCaptureFixture, code: str
):
    install("quieting", code, "[sevenfold.layers]\nquiet = quieting:Quiet\n")
    with sevenfold.Session.in_memory(model="offline", layers=["quiet", *STANDARD]) as session:
        assert session.conversation.ladder.layers == STANDARD
    (warning,) = caplog.messages
    assert "the plugin quiet (sevenfold.layers) of the package quieting is left out" in warning


@pytest.mark.spec("S26.5")
def test_a_layer_that_nobody_brings_is_an_error_that_names_it():
    with pytest.raises(InputError, match="layers has the name 'lost', and no installed package brings"):
        sevenfold.Session.in_memory(model="offline", layers=["lost"])
