"""Secrets whose values are known, in whatever form they come up."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.conversation.gate import Gate
from sevenfold.record.known_secrets import MAX_VALUES, KnownSecrets, parse_dotenv, secret_values
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
    variables = parse_dotenv(
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


@pytest.mark.spec("S12.4")
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('API_KEY="abc123XYZ" # prod', "abc123XYZ"),
        ("API_KEY='abc123XYZ'\t# prod\r", "abc123XYZ"),
        ("API_KEY=abc123XYZ # prod", "abc123XYZ"),
        ("API_KEY=abc#123XYZ", "abc#123XYZ"),
        ('API_KEY="abc # 123XYZ"', "abc # 123XYZ"),
        (r'API_KEY="abc\" # 123XYZ" # prod', r"abc\" # 123XYZ"),
        ('API_KEY="abc123XYZ', "abc123XYZ"),
        ("API_KEY= # none yet", ""),
    ],
)
def test_the_value_in_an_env_file_ends_before_its_comment(line: str, value: str) -> None:
    assert parse_dotenv(f"A=1\n{line}\nB=2\n") == {"A": "1", "API_KEY": value, "B": "2"}


@pytest.mark.spec("S12.4")
@given(
    st.text(st.characters(exclude_characters="\"'\\\r\n", exclude_categories=["Z", "C"])),
    st.sampled_from("\"'"),
)
def test_a_quoted_value_in_an_env_file_is_read_whole_whatever_is_in_it(value: str, quote: str) -> None:
    line = f"export API_KEY = {quote}{value} #{value}{quote}  # prod {value}"
    assert parse_dotenv(line) == {"API_KEY": f"{value} #{value}"}


@pytest.mark.spec("S12.4")
@pytest.mark.parametrize("escaped_slashes", [True, False])
@pytest.mark.parametrize("value", ['p"ss/w\\rd-77', "schlüssel/77\U0001f511"])
def test_a_known_secret_in_json_is_masked_with_either_spelling_of_a_slash(
    value: str, escaped_slashes: bool
) -> None:
    written = json.dumps({"a": value})
    written = written.replace("/", "\\/") if escaped_slashes else written
    assert mask(written, KnownSecrets.of([value])).text.startswith('{"a": "[masked known-secret ')


@pytest.mark.spec("S12.4")
@pytest.mark.parametrize(
    "value",
    ["/k3J9xY7/Qm2+z0==", "/run7Bq/Xa91", "$2b$12$R9h/cIPz0gi.URNNX3kh2O", "~9xQ/77aB-c", ".aX9+q2/Lm7"],
)
def test_a_key_may_begin_like_a_path_or_a_reference(value: str) -> None:
    assert secret_values({"API_KEY": value}) == {value}


@pytest.mark.spec("S12.4")
@pytest.mark.parametrize(
    "value",
    [
        "/home/me/.ssh/id",
        "/run/secrets/DB_PASS",
        "/data/keys/deploy-2",
        "/Data/My Keys/deploy.pem",
        "~/.ssh/id_ed25519",
        "~deploy/.ssh/id",
        "../keys/Deploy1",
        ".secrets/Deploy1",
        "$DB_PASSWORD_2",
        "$HOME/.ssh/id",
        "${DB_PASSWORD:-none1}",
        "$(pass show Db1)",
        "$password",
    ],
)
def test_paths_and_references_are_no_secrets(value: str) -> None:
    assert secret_values({"API_KEY": value}) == set()


@pytest.mark.spec("S12.5")
def test_beyond_the_limit_the_simplest_values_are_left_out_and_a_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    simple = [f"aabbccdd-{number}" for number in range(20)]
    random = [f"{number:03}-zYxWvUtSrQpO" for number in range(MAX_VALUES - 5)]
    gate = Gate(known=[*simple, *random])
    assert set(random) < set(gate.known.value_by_form)
    assert gate.known.left_out == 15
    assert "15 secret values" in caplog.text
    Gate(known=[*simple, *random])
    assert caplog.text.count("15 secret values") == 1
    assert KnownSecrets.of(random).left_out == 0


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


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_known_secret_with_letters_of_any_script_is_found_in_both_spellings_of_json(
    ascii_only: bool,
) -> None:
    secret = 'grüße-"Ω"-4711-x'
    written = json.dumps({"said": secret}, ensure_ascii=ascii_only)
    assert json.loads(mask(written, KnownSecrets.of([secret])).text)["said"].startswith(
        "[masked known-secret "
    )
