"""Secrets in the shapes of every day are masked, and what only looks like them is not."""

from __future__ import annotations

import pytest

from sevenfold.record.redact import find, mask

pytestmark = pytest.mark.spec("S22.19")
TOKEN = "q8Zr2LmX0vTn4KpW"
PASSWORD = "Tr0ub4dor&3x"
LONG = "k3Jx9vQ2mT7bZ4rW8nL1pY6sD0hF5gC3aE2uI9oK7xM="


@pytest.mark.parametrize(
    "shape",
    [
        f'{{"token": "{TOKEN}"}}',
        f'{{"idToken": "{TOKEN}", "a": 1}}',
        f'{{\\"token\\": \\"{TOKEN}\\"}}',
        f"token={TOKEN}",
        f"token: {TOKEN}",
        f"stringData:\n  api-token: {TOKEN}",
        f"run --api-key {TOKEN} now",
        f"run --token {TOKEN}",
        f"run --token={TOKEN}",
        f"run --client-secret '{TOKEN}'",
        f'secretKey := "{TOKEN}"',
        f'const apiKey = "{TOKEN}"',
        f"SENDGRID_KEY={TOKEN}",
        f"ENV SECRET_KEY {TOKEN}",
        f"//registry.npmjs.org/:_authToken={TOKEN}",
        f"credentials: {TOKEN}",
        f"var apiKey = `{TOKEN}`;",
        f"vault login {TOKEN}",
        f"aws configure set aws_secret_access_key {LONG[:40]}",
        f"api key: {TOKEN}",
        f"mail:\n  pass: {TOKEN}",
        f"users: {{user: bob, pass: {TOKEN}}}",
        f"The access token is `{TOKEN}`.",
        f"https://b.s3.amazonaws.com/k?X-Amz-Signature={TOKEN * 4}&a=1",
        f'{{"name": "API_TOKEN", "value": "{TOKEN}"}}',
        f'<add key="ApiSecret" value="{TOKEN}" />',
        "secret_key_base: " + "9f3c2e1a7b" * 12,
    ],
)
def test_a_token_is_masked(shape: str) -> None:
    masked = mask(shape).text
    assert TOKEN not in masked
    assert LONG[:40] not in masked
    assert "9f3c2e1a7b" not in masked
    assert "[masked " in masked


@pytest.mark.parametrize(
    "shape",
    [
        f"run --password {PASSWORD}",
        f"run --password={PASSWORD}",
        f"Server=db;User Id=sa;Pwd={PASSWORD};",
        f"define('DB_PASSWORD', '{PASSWORD}');",
        f'define("AUTH_SALT", "{PASSWORD}");',
        f"ansible_become_pass: {PASSWORD}",
        f"redis-cli -h cache -a {PASSWORD} ping",
        f"docker login registry.local -u bob -p {PASSWORD}",
        f"curl -u bob:{PASSWORD} https://x",
        f"passphrase: {PASSWORD}",
        f'user.set_password("{PASSWORD}")',
        f"[pypi]\nusername = bob\npassword = {PASSWORD}",
        f"machine api.x.com login bob password {PASSWORD}",
        f"--from-literal=password={PASSWORD}",
        f"'password' => '{PASSWORD}'",
        f"ENV DB_PASS {PASSWORD}",
        f"- name: DB_PASSWORD\n  value: {PASSWORD}",
        f'{{"name":"DB_PASSWORD","value":"{PASSWORD}"}}',
        f"os.environ.get('DB_PASSWORD', '{PASSWORD}')",
        f'getenv("SMTP_PASSWORD", "{PASSWORD}")',
        f"openssl pkcs12 -in a.p12 -passin pass:{PASSWORD}",
        f"mongosh -u admin -p {PASSWORD}",
        f"zip -P {PASSWORD} a.zip b",
        f"ssh-keygen -t ed25519 -N {PASSWORD}",
        f'requests.get(url, auth=("bob", "{PASSWORD}"))',
        f'BasicAuth("bob", "{PASSWORD}")',
        f'smtp.login("bob", "{PASSWORD}")',
    ],
)
def test_a_password_is_masked(shape: str) -> None:
    masked = mask(shape).text
    assert PASSWORD not in masked
    assert "[masked " in masked


def test_the_key_of_an_application_is_masked() -> None:
    assert LONG not in mask(f"APP_KEY=base64:{LONG}").text


@pytest.mark.parametrize(
    "text",
    [
        "nextPageToken: CAUQAAabc123def456ghi",
        '{"next_page_token": "CAUQAAabc123def456ghi"}',
        '{"continuationToken": "CAUQAAabc123def456ghi"}',
        "PWD=/home/you/project2",
        "pwd: /srv/app1/releases",
        "tokens: 123456789",
        "max_tokens=128000",
        "eos_token: </s>",
        "token = tokenizer.next_token()",
        "token=$CI_JOB_TOKEN123",
        "--token $TOKEN1234567",
        "--password-file secrets/db1.txt",
        "--token-limit 12345678",
        "PRIMARY_KEY=user_id_2024abc1",
        "CACHE_KEY=v1-deps-3f9a2c7e",
        "PUBLIC_KEY=pk1q8Zr2LmX0vTn4K",
        "docker run -u 1000:1000 -p 8080:8080 image1234",
        "docker login ghcr.io -u bob --password-stdin",
        "curl -u https://example.org/a1",
        "define('APP_VERSION', '2026.11.18-rc1');",
        "ENV NODE_VERSION 22.11.0",
        "redis-cli -h cache -p 6379 ping",
        "the token is printed once",
        "pass: 12",
        "pass: test_suite_12",
        "bypass: rule1234Ab",
        "the token is refreshed every 12345678 seconds",
        "unzip -p archive2024Ab1.zip file1234Xy.txt",
        "- name: TOKEN_LIMIT\n  value: 12345678",
        "- name: max_tokens\n  value: 128000ab",
        'getenv("API_KEY_FILE", "/run/secrets/key_1234")',
        'env("PUBLIC_KEY_PATH", "keys/pub_2024.pem")',
        "os.environ.get('HOME', '/home/user12345')",
        'client.login("bob", password)',
        "zip -P $PASS a.zip",
        'ssh-keygen -y -N "" -f id1',
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(text: str) -> None:
    assert find(text) == []
