"""Keys and SDKs: named in one place, loaded when needed, missed with a line that helps."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sevenfold.errors import SettingError
from sevenfold.providers.keys import ANTHROPIC, OPENAI, Provider

SOURCES = Path(__file__).resolve().parents[2] / "src"


def test_the_variables_of_providers_are_spelt_in_one_place() -> None:
    spelt = re.compile(r"\b(ANTHROPIC|OPENAI)_[A-Z]+(_[A-Z]+)*\b")
    found = {path.name for path in SOURCES.rglob("*.py") if spelt.search(path.read_text(encoding="utf-8"))}
    assert found == {"keys.py"}


def test_an_sdk_that_is_not_installed_is_named_with_how_to_install_it() -> None:
    missing = Provider("Nobody", "NOBODY_KEY", "NOBODY_URL", "https://nobody", "no_such_sdk")
    with pytest.raises(SettingError, match=r"pip install 'sevenfold\[no_such_sdk\]'"):
        missing.load()


def test_clients_load_no_sdk_until_one_is_made() -> None:
    script = (
        "import sys, sevenfold.providers.anthropic, sevenfold.providers.openai.client;"
        "import sevenfold.providers.offline;"
        "print([name for name in ('anthropic', 'openai', 'httpx2', 'asyncio') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_sdks_are_those_the_extras_install() -> None:
    for provider in (ANTHROPIC, OPENAI):
        assert provider.load().__name__ == provider.sdk
