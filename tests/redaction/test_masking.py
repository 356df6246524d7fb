"""Masking: every kind of secret goes, nothing else does, and the same text always gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.record import blocks
from sevenfold.record.redact import digest, find, mask, mask_blocks
from sevenfold.record.secret_patterns import patterns
from tests.redaction.making import ALONE, IN_CONTEXT, Maker

CASES = [(kind, "", make, "") for kind, make in ALONE.items()]
CASES += [(kind, before, make, after) for kind, (before, make, after) in IN_CONTEXT.items()]


def drawn(kind: str, seed: int = 7) -> str:
    return ALONE[kind](Maker(seed))


def test_every_kind_in_the_table_is_tried_here():
    assert {kind for kind, *_ in CASES} == {rule.kind for rule in patterns().rules}


@pytest.mark.parametrize(("kind", "before", "make", "after"), CASES, ids=[case[0] for case in CASES])
def test_a_secret_is_masked_and_what_stands_around_it_stays(kind, before, make, after):
    for seed in range(5):
        secret = make(Maker(seed))
        masked = mask(f"see {before}{secret}{after} there")
        short = digest(secret)[:4]
        assert masked.text == f"see {before}[masked {kind} {short}]{after} there"
        assert [(one.kind, one.digest) for one in masked.findings] == [(kind, digest(secret))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("TOKEN=", "\n"),
        ('{"t":"', '"}'),
        ("\\n", "\\n"),
        ("\x1b[32m", "\x1b[0m"),
        ("(", ")"),
        ("鍵は", "。"),
        ("old_", " "),
        ("?token%3D", "%26x"),
    ],
)
def test_it_is_found_in_code_in_quotes_in_colour_and_between_other_scripts(before, after):
    for kind in ALONE:
        assert mask(before + drawn(kind) + after).text == before + mask(drawn(kind)).text + after


def test_equal_secrets_look_equal_and_others_do_not():
    one, other = drawn("github-token"), drawn("github-token", 8)
    first, second, third = re.findall(r"\[masked [^\]]+\]", mask(f"{one} {other} Bearer {one}").text)
    assert first == third != second


def test_a_key_written_on_one_line_has_the_digest_of_the_same_key_on_many():
    key = drawn("private-key")
    quoted = json.dumps({"private_key": key})
    assert [one.digest for one in find(quoted)] == [one.digest for one in find(key)] == [digest(key)]


def test_a_private_key_of_which_only_the_beginning_is_shown_is_masked():
    shown = "\n".join(drawn("private-key").splitlines()[:3])
    assert mask(shown + "\n").text.startswith("[masked private-key ")


DISGUISED = {
    "letters around it": lambda make: f"token{make.github()}end",
    "an underscore behind it": lambda make: f"{make.github()}_old",
    "a colour inside it": lambda make: "ghp_\x1b[1m" + make.draw(36),
    "a colour inside it, as text": lambda make: "ghp_" + make.draw(9) + "\\u001b[0m" + make.draw(27),
    "an invisible character inside it": lambda make: (
        "g\u200bhp_" + make.draw(18) + "\u2060" + make.draw(18)
    ),
    "percent signs before it": lambda make: f"q%3Dsk-{make.draw(48)}",
    "percent signs inside it": lambda make: make.jwt().replace(".", "%2E"),
    "a header in an address": lambda make: f"Authorization%3A%20Bearer%20{make.draw(40)}",
    "an npm setting": lambda make: f"//registry.npmjs.org/:_authToken={make.uuid()}",
    "a docker login": lambda make: f'{{"auths":{{"r":{{"auth":"{make.login()}"}}}}}}',
    "two at signs": lambda make: f"postgres://me@corp.org:p@{make.draw(12)}@db/x",
    "two colons": lambda make: f"https://me:a:{make.draw(12)}@host/x",
    "a token for a user": lambda make: f"https://{make.draw(40)}@github.com/o/r.git",
    "numbers counted up": lambda make: f"xoxb-123456789012-1234567890123-{make.draw(24)}",
    "a number in front": lambda make: f"xapp-1-A01BC2DE3F4-1234567890123-{make.hex(64)}",
    "the environment": lambda make: f"SNYK_TOKEN={make.uuid()}",
    "a password": lambda make: "DB_PASSWORD=Tr0ub4dor" + make.draw(3, "123") + "xyz",
    "a password in the environment": lambda make: f"APP_DB_PASS=p{make.draw(10)}7x",
    "a password for mysql": lambda make: f"mysqldump -h db -u root -p{make.draw(12)}7x shop > shop.sql",
    "a password for ssh": lambda make: f"sshpass -p 'p{make.draw(12)}7x' ssh host",
    "a password in XML": lambda make: f"<password>p{make.draw(12)}7x</password>",
    "a key for administrators": lambda make: f"ALGOLIA_ADMIN_KEY={make.hex(32)}",
    "a header of a mail service": lambda make: f"X-Postmark-Server-Token: {make.uuid()}",
    "a login on the command line": lambda make: f"curl -u admin:{make.draw(12)}7xY3 https://host/",
    "a password in a sentence": lambda make: f"The password for the staging db is {make.draw(5)}x7!K.",
    "a short password in a sentence": lambda make: f"the password is now '{make.draw(6, 'abc')}2'",
    "a cookie in JSON": lambda make: f'{{"set-cookie": "sid={make.draw(20)}x7; Path=/"}}',
    "a cookie on the command line": lambda make: f"curl --cookie 'sid={make.draw(20)}x7' https://host/",
    "a .netrc": lambda make: f"machine h login me password {make.draw(12)}",
}


@pytest.mark.spec("S12.1")
@pytest.mark.parametrize("disguised", DISGUISED.values(), ids=DISGUISED)
def test_a_secret_is_found_whatever_is_around_it_or_in_it(disguised):
    for seed in range(5):
        maker = Maker(seed)
        text = disguised(maker)
        assert maker.last not in mask(text).text
        assert "[masked " in mask(text).text


HARMLESS = {
    "words behind Bearer": "Bearer authentication-is-required-for-this-v2-endpoint-since-2024",
    "code": "password=config.password1, secret = settings['secret_1234'], api_key=os.environ['API_KEY_2']",
    "placeholders": "password=${DB_PASSWORD_1} api_key: <your-api-key-1> secretName: my-secret-v1-config",
    "a page token": '{"nextPageToken": "CAUQAA8x9kLm21", "token_count": 12345678901}',
    "a git hash": hashlib.sha1(b"x").hexdigest(),
    "a sha256": f"sha256:{hashlib.sha256(b'x').hexdigest()}",
    "a uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, "x")),
    "a tool id": "toolu_01A09q90qw90lq917835lq9",
    "a call id": "call_8Xw2mQzv0a1b2C3d4E5f6G7h",
    "a message id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "a request id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    "an integrity hash": "sha512-" + base64.b64encode(hashlib.sha512(b"x").digest()).decode(),
    "a picture": base64.b64encode(hashlib.shake_256(b"x").digest(60_000)).decode(),
    "a signature": base64.urlsafe_b64encode(hashlib.shake_256(b"y").digest(60_000)).decode(),
    "a file name": "src/components/task-list/sk-circle-very-long-name-of-a-component.tsx",
    "a variable": "Authorization: Bearer ${process.env.SOME_LONG_TOKEN_NAME_2}",
    "an address": "https://user@example.org:8080/a:b@c git@github.com:owner/repo.git http://localhost:3000",
    "a usual address": "postgres://postgres:postgres@localhost:5432/app redis://:password@cache:6379",
    "an example": "ghp_" + "x" * 36 + " AKIA" + "IOSFODNN7EXAMPLE sk-ant-" + "your-key-here-" * 4,
    "a counted example": "sk-" + "1234567890abcdef" * 3,
    "words about passwords": (
        "the password is base64 encoded; the password is required; a password is 12chars at least; the password was "
        "hashed with sha256, password is user.password1; the password is {p1} and the password is P4SS_WORD"
    ),
    "words about cookies": "the cookie = consent; cookie: a=b, Set-Cookie: theme=dark; Path=/ and cookie_count = 3",
    "words about keys": 'if "-----BEGIN RSA PRIVATE KEY-----" in text and "-----END RSA PRIVATE KEY-----" in text:',
}


@pytest.mark.spec("S12.1")
@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_what_only_looks_random_is_left_alone(text):
    assert mask(text).findings == ()
    assert mask(text).text is text


def test_real_transcripts_raise_no_false_alarm(corpus):
    for path in corpus.rglob("*.jsonl"):
        assert find(path.read_text(encoding="utf-8")) == []


SECRETS = st.builds(lambda kind, seed: drawn(kind, seed), st.sampled_from(sorted(ALONE)), st.integers(0, 9))
GLUE = st.text(alphabet=st.sampled_from("ab1 \n\"'\\-_./:=@+[]kégh"), max_size=6)
HINTS = st.sampled_from(
    [hint for rule in patterns().rules for hint in rule.hints] + ["Bearer ", "https://u:", "@h"]
)


@given(st.lists(st.one_of(SECRETS, GLUE, HINTS), max_size=8).map("".join))
def test_masking_twice_changes_nothing(text):
    once = mask(text)
    assert mask(once.text) == (type(once))(once.text)
    assert mask(text) == once


@given(st.text())
def test_any_text_can_be_masked(text):
    masked = mask(text)
    assert (masked.text == text) == (not masked.findings)


@given(st.lists(st.one_of(SECRETS, GLUE), max_size=6).map(" ".join))
def test_findings_are_in_order_and_do_not_overlap(text):
    ends = 0
    for found in find(text):
        assert ends <= found.start < found.end <= len(text)
        ends = found.end


def test_beginnings_without_an_end_take_no_more_time_than_the_text_is_long():
    """A pattern that backtracks over the rest of the text would not come back from this."""
    for rule in patterns().rules:
        for filler in ("", "A1b2-", ":", "eyJ.", "PRIVATE KEY-----"):
            find((rule.hints[0] + filler) * 1_000)


# -- blocks ----------------------------------------------------------------------------------------


def _block(**fields: object) -> blocks.Block:
    return blocks.read(json.dumps(fields).encode())


def test_texts_and_tool_results_are_masked_in_both_forms():
    secret = drawn("anthropic-key")
    parts = [{"type": "text", "text": f"is {secret}"}, {"type": "image", "source": {"data": "iVBORw0KGgo"}}]
    given_blocks = [
        _block(type="text", text=f"my key is {secret}"),
        _block(type="tool_result", tool_use_id="t1", content=f"key={secret}", is_error=True),
        _block(type="tool_result", tool_use_id="t2", content=parts),
    ]
    masked = mask_blocks(given_blocks)
    assert len(masked.findings) == 3
    shown = [json.loads(block.raw) for block in masked.blocks]
    label = mask(secret).text
    assert shown[0] == {"type": "text", "text": f"my key is {label}"}
    assert shown[1] == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": f"key={label}",
        "is_error": True,
    }
    assert shown[2]["content"] == [{"type": "text", "text": f"is {label}"}, parts[1]]
    assert [block.id for block in masked.blocks] == ["", "t1", "t2"]


def test_a_block_without_a_secret_is_the_very_same_block():
    plain = [
        blocks.read(b'{"type":"text",  "text":"na\\u00efve"}'),
        blocks.read(b'{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"1.0"}]}'),
        blocks.read(b'{"type":"mystery","of":[1.0, 2]}'),
    ]
    masked = mask_blocks(plain)
    assert all(one is other for one, other in zip(masked.blocks, plain, strict=True))


def test_all_other_fields_of_a_masked_block_keep_their_bytes():
    raw = b'{"type":"text","cache_control": {"type":"ephemeral"},"text":"%s","n":1.50}'
    (masked,) = mask_blocks([blocks.read(raw % drawn("npm-token").encode())]).blocks
    assert b'"cache_control":{"type":"ephemeral"},' in masked.raw.replace(b": ", b":")
    assert masked.raw.endswith(b'"n":1.50}')


def test_what_the_model_said_is_never_touched():
    secret = drawn("github-token")
    said = [
        _block(type="thinking", thinking=secret, signature=secret),
        _block(type="redacted_thinking", data=secret),
        _block(type="tool_use", id=secret, name="Bash", input={"command": f"echo {secret}"}),
    ]
    assert mask_blocks(said).blocks == said
    assert mask_blocks(said).findings == ()
