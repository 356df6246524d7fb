"""Keys and SDKs: each provider names its own, an SDK is loaded when needed and missed with a line that helps."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sevenfold.errors import SettingError
from sevenfold.providers import registry
from sevenfold.providers.sdk import SdkProvider, Vendor

SOURCES = Path(__file__).resolve().parents[2] / "src" / "sevenfold"


def test_the_variables_of_a_provider_are_spelt_in_its_own_module_only() -> None:
    spelt = re.compile(r"\b(ANTHROPIC|OPENAI)_[A-Z]+(_[A-Z]+)*\b")
    found = {
        (path.relative_to(SOURCES).as_posix(), hit.group(1))
        for path in SOURCES.rglob("*.py")
        if "gateway" not in path.as_posix()  # it sets the variables of the programs that it starts
        for hit in spelt.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == {("providers/anthropic.py", "ANTHROPIC"), ("providers/openai/client.py", "OPENAI")}


def test_an_sdk_that_is_not_installed_is_named_with_how_to_install_it() -> None:
    missing = Vendor("Nobody", "NOBODY_KEY", "NOBODY_URL", "https://nobody", "no_such_sdk")
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
    vendors = {one.vendor for one in registry.providers() if isinstance(one, SdkProvider)}
    assert {vendor.load().__name__ for vendor in vendors} == {vendor.sdk for vendor in vendors}
    assert {"anthropic", "openai"} <= {vendor.sdk for vendor in vendors}
