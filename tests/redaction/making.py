"""Secrets made up on the spot: none stands in this file, so no scanner takes the project for a leak."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from random import Random

_LETTERS = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


class Maker:
    """Draws secrets; the same seed draws the same ones."""

    def __init__(self, seed: int = 7) -> None:
        self._random = Random(seed)

    def draw(self, count: int, letters: str = _LETTERS) -> str:
        return "".join(self._random.choices(letters, k=count))

    def hex(self, count: int) -> str:
        return self.draw(count, _HEX)

    def jwt(self) -> str:
        def part(**fields: str) -> str:
            return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

        return ".".join([part(alg="HS256", typ="JWT"), part(sub=self.draw(12)), self.draw(43)])

    def private_key(self, kind: str = "RSA ") -> str:
        lines = "\n".join(self.draw(64, _LETTERS + "+/") for _ in range(6))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


ALONE: dict[str, Callable[[Maker], str]] = {
    "private-key": lambda make: make.private_key(),
    "anthropic-key": lambda make: "sk-ant-" + "api03-" + make.draw(93, _LETTERS + "_-") + "AA",
    "openai-key": lambda make: "sk-proj-" + make.draw(120, _LETTERS + "_"),
    "openrouter-key": lambda make: "sk-or-v1-" + make.hex(64),
    "api-key": lambda make: "sk-" + make.draw(48),
    "google-api-key": lambda make: "AIza" + make.draw(35),
    "huggingface-token": lambda make: "hf_" + make.draw(34, string.ascii_letters),
    "groq-key": lambda make: "gsk_" + make.draw(52),
    "xai-key": lambda make: "xai-" + make.draw(80),
    "perplexity-key": lambda make: "pplx-" + make.draw(48),
    "replicate-token": lambda make: "r8_" + make.draw(37),
    "nvidia-key": lambda make: "nvapi-" + make.draw(64),
    "langsmith-key": lambda make: f"lsv2_pt_{make.hex(32)}_{make.hex(10)}",
    "tavily-key": lambda make: "tvly-" + make.draw(32),
    "github-token": lambda make: "ghp_" + make.draw(36),
    "gitlab-token": lambda make: "glpat-" + make.draw(20),
    "npm-token": lambda make: "npm_" + make.draw(36),
    "pypi-token": lambda make: "pypi-" + "AgEIcHlwaS5vcmc" + make.draw(120),
    "rubygems-key": lambda make: "rubygems_" + make.hex(48),
    "docker-token": lambda make: "dckr_pat_" + make.draw(27),
    "atlassian-token": lambda make: "ATATT3" + make.draw(186),
    "linear-key": lambda make: "lin_api_" + make.draw(40),
    "notion-token": lambda make: "ntn_" + make.draw(46),
    "figma-token": lambda make: "figd_" + make.draw(40),
    "postman-key": lambda make: f"PMAK-{make.hex(24)}-{make.hex(34)}",
    "sentry-token": lambda make: "sntryu_" + make.hex(64),
    "slack-token": lambda make: f"xoxb-{make.draw(12, string.digits)}-{make.draw(24)}",
    "stripe-key": lambda make: "sk_live_" + make.draw(24),
    "sendgrid-key": lambda make: f"SG.{make.draw(22)}.{make.draw(43)}",
    "shopify-token": lambda make: "shpat_" + make.hex(32),
    "aws-key-id": lambda make: "AKIA" + make.draw(16, string.ascii_uppercase + "234567"),
    "google-secret": lambda make: "GOCSPX-" + make.draw(28),
    "google-token": lambda make: "ya29." + make.draw(120),
    "digitalocean-token": lambda make: "dop_v1_" + make.hex(64),
    "databricks-token": lambda make: "dapi" + make.hex(32),
    "vault-token": lambda make: "hvs." + make.draw(90),
    "grafana-token": lambda make: f"glsa_{make.draw(32)}_{make.hex(8)}",
    "supabase-key": lambda make: "sbp_" + make.hex(40),
    "pulumi-token": lambda make: "pul-" + make.hex(40),
    "doppler-token": lambda make: "dp.pt." + make.draw(43),
    "onepassword-token": lambda make: "ops_" + "eyJ" + make.draw(400),
    "age-key": lambda make: "AGE-SECRET-KEY-" + "1" + make.draw(58, string.ascii_uppercase + string.digits),
    "jwt": lambda make: make.jwt(),
}
"""Kinds that are recognised wherever they stand."""

IN_CONTEXT: dict[str, tuple[str, Callable[[Maker], str], str]] = {
    "slack-webhook": (
        "https://hooks.slack.com/services/",
        lambda make: f"T{make.draw(8, '0123456789ABC')}/B{make.draw(8, '0123456789ABC')}/{make.draw(24)}",
        "",
    ),
    "discord-webhook": (
        "https://discord.com/api/webhooks/123456789012345678/",
        lambda make: make.draw(68),
        "",
    ),
    "aws-secret": ('"SecretAccessKey": "', lambda make: make.draw(40, _LETTERS + "/+"), '"'),
    "aws-session-token": ("export AWS_SESSION_TOKEN=", lambda make: make.draw(300, _LETTERS + "/+"), "\n"),
    "azure-key": ("AccountName=a;AccountKey=", lambda make: make.draw(86) + "==", ";"),
    "bearer-token": ("Authorization: Bearer ", lambda make: make.draw(40), "\n"),
    "authorization": (
        "authorization: Basic ",
        lambda make: base64.b64encode(f"maria:{make.draw(20)}".encode()).decode(),
        "\n",
    ),
    "api-key-header": ("-H 'x-api-key: ", lambda make: make.draw(32), "'"),
    "url-password": ("postgres://maria:", lambda make: make.draw(16), "@db.internal:5432/app"),
}
"""Kinds that are recognised by what stands around them: before, the secret, after."""
