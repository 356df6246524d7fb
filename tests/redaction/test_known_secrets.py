"""Secrets whose values are known, in whatever form they come up."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.record.known_secrets import KnownSecrets, assignments, secret_values
from sevenfold.record.redact import digest, mask
from tests.session.talking import reader, world

SECRET = "corr3ct+horse/bat"
KNOWN = KnownSecrets.of([SECRET])


def based(before: str, after: str = "") -> str:
    return base64.b64encode(f"{before}{SECRET}{after}".encode()).decode()


FORMS = {
    "as it is": SECRET,
    "in an address": quote(SECRET, safe=""),
    "in a form": quote_plus(SECRET),
    "in JSON in JSON": json.dumps(json.dumps({"a": SECRET})),
    "with escaped slashes": SECRET.replace("/", "\\/"),
    "in hexadecimal": SECRET.encode().hex(),
    "in upper-case hexadecimal": SECRET.encode().hex().upper(),
    "on two lines": SECRET[:7] + "\n    " + SECRET[7:],
    "on two lines of a shell": SECRET[:7] + "\\\n" + SECRET[7:],
    "on two lines of code": f'"{SECRET[:7]}" +\n  "{SECRET[7:]}"',
    "on two lines of JSON": json.dumps(SECRET[:7] + "\n" + SECRET[7:]),
    "with a colour in it": SECRET[:7] + "\x1b[1m" + SECRET[7:],
}


@pytest.mark.spec("S12.4")
@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_known_secret_is_masked_in_every_form(text: str) -> None:
    masked = mask(f"see {text} there", KNOWN)
    assert f"[masked known-secret {digest(SECRET)[:4]}]" in masked.text
    assert SECRET[:7] not in masked.text
    assert SECRET[7:] not in masked.text
    assert mask(masked.text, KNOWN).text == masked.text


@pytest.mark.spec("S12.4")
@given(st.text(max_size=20), st.text(max_size=20), st.booleans())
def test_a_known_secret_is_masked_anywhere_within_base64(before: str, after: str, for_urls: bool) -> None:
    encoded = based(before, after)
    encoded = encoded.replace("+", "-").replace("/", "_") if for_urls else encoded
    assert "[masked known-secret " in mask(f"Basic data {encoded}", KNOWN).text
    broken = encoded[:11] + "\n" + encoded[11:]
    assert "[masked known-secret " in mask(broken, KNOWN).text


@pytest.mark.spec("S12.4")
def test_only_values_that_a_name_calls_secret_and_that_tell_are_known() -> None:
    variables = assignments(
        "# a comment\n"
        "export DB_PASSWORD='h0rse-battery'\n"
        "API_TOKEN = plainword\n"
        "SSH_KEY=/home/me/.ssh/id\n"
        "PIN_SECRET=12345678901\n"
        "OTHER_SECRET=short1\n"
        "NEXT_TOKEN=your-token-here\n"
        "TITLE=not-a-secret-123\n"
    )
    assert secret_values(variables) == {"h0rse-battery"}
    assert secret_values({"PWD": "h0rse-battery", "OLDPWD": "h0rse-battery"}) == set()


@pytest.mark.spec("S12.4", "S12.2")
def test_what_the_environment_and_env_files_hold_reaches_neither_the_model_nor_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("QUEUE_PASSWORD=s1lver-fox-run\n", encoding="utf-8")
    monkeypatch.setenv("STAGING_SECRET", SECRET)
    gate = {"redaction": "gate"}
    with world(reader(1)) as here, here.open(tmp_path / "s.jsonl", settings=gate) as session:
        session.user(f"log in with {based('me:')}")
        done = session.complete()
        session.tool_results({done.calls[0].id: "then s1lver-fox-run\nworked"})
        session.complete()
        seen = b"".join(here.bodies) + (tmp_path / "s.jsonl").read_bytes()
    assert b"s1lver-fox-run" not in seen
    assert based("me:").encode() not in seen
    assert seen.count(b"[masked known-secret ") >= 4
