"""`sevenfold gateway -- COMMAND`: how a program learns its address."""

from __future__ import annotations

import pytest

from sevenfold.cli.gateway import environment, with_address

pytestmark = pytest.mark.spec("S30.10")
URL = "http://127.0.0.1:8123"


def test_programs_find_the_gateway_in_their_environment_past_any_proxy() -> None:
    env = environment({"HTTPS_PROXY": "http://proxy", "NO_PROXY": "example.org"}, URL)
    assert (env["ANTHROPIC_BASE_URL"], env["OPENAI_BASE_URL"]) == (URL, f"{URL}/v1")
    assert env["NO_PROXY"].split(",") == ["example.org", "127.0.0.1", "localhost", "::1"]


@pytest.mark.parametrize("name", ["codex", "/usr/local/bin/codex"])
def test_codex_which_does_not_look_there_gets_it_on_its_command_line(name: str) -> None:
    expected = [name, "-c", f'openai_base_url="{URL}/v1"', "exec", "--", "-c"]
    assert with_address([name, "exec", "--", "-c"], URL) == expected


def test_no_other_command_line_is_changed() -> None:
    assert with_address(["python", "codex"], URL) == ["python", "codex"]
