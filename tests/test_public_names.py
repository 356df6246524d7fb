"""What `import sevenfold` offers, and what `help` says about it."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys

import pytest

import sevenfold
from sevenfold.agent.options import AgentOptions
from sevenfold.session.factory import Options


def test_every_public_name_is_listed_and_can_be_had() -> None:
    assert set(sevenfold.__all__) <= set(dir(sevenfold))
    for name in sevenfold.__all__:
        assert getattr(sevenfold, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        getattr(sevenfold, "Sesion")  # noqa: B009 (a name that mypy would not let pass)


def test_what_users_need_is_at_the_top() -> None:
    needed = "Agent Session Hooks AsyncHooks Asked Consented McpServers Ended ToolBegan Context Veto errors events"
    assert set(needed.split()) <= set(sevenfold.__all__)
    assert sevenfold.errors.InputError is not None
    assert sevenfold.events.Acted is not None


def test_importing_it_loads_nothing_else() -> None:
    code = "import sys, sevenfold; print([name for name in sys.modules if name.startswith('sevenfold.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("shown", "options"), [(sevenfold.Agent, AgentOptions), (sevenfold.Session, Options)]
)
def test_help_names_every_option_and_no_other(shown: type[object], options: type[object]) -> None:
    words = inspect.getdoc(shown) or ""
    listed = [line.split()[0] for line in words.splitlines() if line.startswith("    ")]
    assert sorted(listed) == sorted(options.__annotations__)
    assert listed[0] in pydoc.plain(pydoc.render_doc(shown))
