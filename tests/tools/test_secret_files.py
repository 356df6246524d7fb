"""A file that looks like secrets is asked about before it is sent; else its secrets are masked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.agent_events import Mentioned
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.secret_files import NOTE, masked, named_secret, secret_inside
from sevenfold.agent.tools.output import ToolOutput
from tests.agent.working import agent, model_of, results, texts, use

PASSWORD = "Tr0ub4dor&3x"
WORD = "kingfisher-lagoon"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / ".env").write_text(f"DEBUG=true\nDB_PASSWORD={PASSWORD}\nMAILBOX={WORD}\n")
    (made / "settings.yaml").write_text(f"db:\n  host: localhost\n  password: {PASSWORD}\n")
    (made / "plain.txt").write_text("nothing to hide\n")
    return made


@pytest.mark.spec("S22.20")
@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.production",
        ".env~",
        "prod.env",
        ".dev.vars",
        ".netrc",
        ".pypirc",
        ".pgpass",
        ".git-credentials",
        ".databrickscfg",
        "id_rsa",
        "id_rsa.bak",
        "server.key",
        "master.key",
        "tls-key.pem",
        "privkey1.pem",
        "AuthKey_1.p8",
        "store.jks",
        ".ssh/config",
        "secrets.yaml",
        "db-secrets.json",
        "credentials.json",
        "my-service-account-1.json",
        "app-adminsdk-1.json",
        "sa-key.json",
        ".aws/credentials",
        "terraform.tfvars",
        "kubeconfig.yaml",
        "dev.kubeconfig",
        "token",
        "tokens.yaml",
        "cookies.txt",
        "run/secrets/db",
        "deploy/secrets/db",
        "rclone.conf",
    ],
)
def test_files_that_usually_hold_secrets_are_known_by_their_names(name: str) -> None:
    assert named_secret(f"/home/you/{name}")


@pytest.mark.spec("S22.20")
@pytest.mark.parametrize(
    "name",
    [
        ".env.example",
        ".env.sample",
        "id_rsa.pub",
        "ca.pem",
        "app.py",
        "secrets.py",
        "secrets/store.go",
        "token.go",
        "tokens.ts",
        "README.md",
        "keys.md",
        "package.json",
        "environment.yml",
        "keyboard.txt",
        "monkey.json",
        "config.toml",
        "tokenizer.json",
        "known_hosts",
    ],
)
def test_examples_public_halves_and_code_are_not(name: str) -> None:
    assert not named_secret(f"/home/you/{name}")


@pytest.mark.spec("S22.20")
def test_a_file_of_settings_with_a_secret_in_it_is_known_by_its_content(folder: Path) -> None:
    assert secret_inside(str(folder / "settings.yaml"))
    assert not secret_inside(str(folder / "plain.txt"))
    assert not secret_inside(str(folder / "not there"))
    code = folder / "test_login.py"
    code.write_text(f'password = "{PASSWORD}"\n')
    assert not secret_inside(str(code))
    script = folder / "deploy.sh"
    script.write_text(f"export SMTP_PASSWORD={PASSWORD}\n")
    assert secret_inside(str(script))
    code.write_text("KEY = 'ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5" + "'\n")
    assert secret_inside(str(code))


def asked_and(answer: bool) -> tuple[list[Asked], Any]:
    asked: list[Asked] = []

    def consent(question: Asked) -> Consented:
        asked.append(question)
        return Consented(answer)

    return asked, consent


@pytest.mark.spec("S22.21")
@pytest.mark.parametrize("mode", ["ask", "accept_edits", "plan"])
@pytest.mark.parametrize("path", [".env", "settings.yaml"])
def test_it_is_asked_about_in_every_mode_that_asks(folder: Path, mode: Any, path: str) -> None:
    for answer in (True, False):
        asked, consent = asked_and(answer)
        with agent(
            [[use("Read", "toolu_1", path=path)], "Done."], folder, consent=consent, mode=mode
        ) as made:
            made.run("Read it.")
            assert len(asked) == 1
            assert "sent to the provider" in asked[0].decision.reason
            shown = str(results(model_of(made).requests[-1])["toolu_1"])
            assert (PASSWORD in shown) == answer


@pytest.mark.spec("S22.21")
def test_a_file_without_secrets_is_read_without_a_question(folder: Path) -> None:
    asked, consent = asked_and(False)
    with agent([[use("Read", "toolu_1", path="plain.txt")], "Done."], folder, consent=consent) as made:
        made.run("Read it.")
        assert asked == []
        assert "nothing to hide" in str(results(model_of(made).requests[-1])["toolu_1"])


@pytest.mark.spec("S22.21")
def test_a_rule_that_names_the_file_allows_it_and_a_broad_one_does_not(folder: Path) -> None:
    for rule, allowed in (("Read(.env)", True), ("Read(**)", False), ("Read", False)):
        asked, consent = asked_and(False)
        steps = [[use("Read", "toolu_1", path=".env")], "Done."]
        with agent(steps, folder, consent=consent, rules={"allow": [rule]}) as made:
            made.run("Read it.")
            assert (asked == []) == allowed
            assert (PASSWORD in str(results(model_of(made).requests[-1]))) == allowed


@pytest.mark.spec("S22.22")
@pytest.mark.parametrize(
    "call",
    [
        use("Read", "toolu_1", path=".env"),
        use("Shell", "toolu_1", command="cat .env"),
        use("Shell", "toolu_1", command="grep -n . .env settings.yaml"),
        use("Grep", "toolu_1", pattern="PASSWORD|password", show="lines"),
    ],
)
def test_in_the_autonomous_mode_secrets_are_masked_and_the_model_is_told(folder: Path, call: Any) -> None:
    with agent([[call], "Done."], folder, mode="autonomous") as made:
        made.run("Look.")
        shown = str(results(model_of(made).requests[-1])["toolu_1"])
        assert PASSWORD not in shown
        assert "[masked " in shown
        assert NOTE in shown


@pytest.mark.spec("S22.22")
def test_in_a_file_named_like_secrets_every_telling_value_is_masked(folder: Path) -> None:
    for call in (use("Read", "toolu_1", path=".env"), use("Shell", "toolu_1", command="cat .env")):
        with agent([[call], "Done."], folder, mode="autonomous") as made:
            made.run("Look.")
            shown = str(results(model_of(made).requests[-1])["toolu_1"])
            assert WORD not in shown
            assert "DEBUG=true" in shown


@pytest.mark.spec("S22.22")
def test_in_a_file_named_like_secrets_a_value_is_masked_beyond_what_may_be_a_comment() -> None:
    shown = masked(ToolOutput("password = first-half #second-half\n"), named=True).content
    assert "second-half" not in str(shown)


@pytest.mark.spec("S22.21")
def test_without_a_user_who_could_be_asked_it_is_refused(folder: Path) -> None:
    with agent([[use("Read", "toolu_1", path=".env")], "Done."], folder) as made:
        made.run("Look.")
        assert PASSWORD not in str(results(model_of(made).requests[-1]))


@pytest.mark.spec("S22.21")
def test_a_file_that_a_message_mentions_is_asked_about_too(folder: Path) -> None:
    for answer in (True, False):
        asked, consent = asked_and(answer)
        with agent(["Done."], folder, consent=consent, mentions=True) as made:
            events = list(made.stream("What is in @.env ?"))
            assert len(asked) == 1
            assert (PASSWORD in texts(model_of(made).requests[-1])) == answer
            (mentioned,) = [event for event in events if isinstance(event, Mentioned)]
            assert mentioned.output.is_error != answer


@pytest.mark.spec("S22.21", "S22.22")
@pytest.mark.parametrize(
    ("setting", "questions", "shown"), [("ask", 1, False), ("mask", 0, False), ("allow", 0, True)]
)
def test_a_setting_decides(folder: Path, setting: str, questions: int, shown: bool) -> None:
    asked, consent = asked_and(False)
    steps = [[use("Read", "toolu_1", path=".env")], "Done."]
    with agent(steps, folder, consent=consent, settings={"secret_files": setting}) as made:
        made.run("Look.")
        assert len(asked) == questions
        assert (PASSWORD in str(results(model_of(made).requests[-1]))) == shown


@pytest.mark.spec("S22.20")
def test_a_certificate_is_no_secret_and_a_private_key_is_one_whatever_it_is_called(folder: Path) -> None:
    body = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDLx3kQ7vT2sW9b"] * 6)
    certificate = folder / "ca.pem"
    certificate.write_text(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    assert not named_secret(str(certificate))
    assert not secret_inside(str(certificate))
    key = folder / "ca.py"
    key.write_text(f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
    assert secret_inside(str(key))
