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
        self.last = ""
        """What was drawn last."""

    def draw(self, count: int, letters: str = _LETTERS) -> str:
        self.last = "".join(self._random.choices(letters, k=count))
        return self.last

    def github(self) -> str:
        return "ghp_" + self.draw(36)

    def login(self) -> str:
        self.last = base64.b64encode(f"maria:{self.draw(20)}".encode()).decode()
        return self.last

    def hex(self, count: int) -> str:
        return self.draw(count, _HEX)

    def jwt(self) -> str:
        def part(**fields: str) -> str:
            return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

        return ".".join([part(alg="HS256", typ="JWT"), part(sub=self.draw(12)), self.draw(43)])

    def uuid(self) -> str:
        return "-".join(map(self.hex, (8, 4, 4, 4, 12)))

    def private_key(self, kind: str = "RSA ") -> str:
        lines = "\n".join(self.draw(64, _LETTERS + "+/") for _ in range(6))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


_UPPER = string.ascii_uppercase + string.digits
_LOWER = string.ascii_lowercase + string.digits
_BEGINNINGS: dict[str, tuple[str, int, str]] = {
    "anthropic-key": ("sk-ant-" + "api03-", 95, _LETTERS + "_-"),
    "openai-key": ("sk-proj-", 120, _LETTERS + "_"),
    "openrouter-key": ("sk-or-v1-", 64, _HEX),
    "langfuse-key": ("sk-lf-", 36, _HEX),
    "api-key": ("sk-", 48, _LETTERS),
    "google-api-key": ("AIza", 35, _LETTERS),
    "huggingface-token": ("hf_", 34, string.ascii_letters),
    "groq-key": ("gsk_", 52, _LETTERS),
    "xai-key": ("xai-", 80, _LETTERS),
    "perplexity-key": ("pplx-", 48, _LETTERS),
    "replicate-token": ("r8_", 37, _LETTERS),
    "nvidia-key": ("nvapi-", 64, _LETTERS),
    "tavily-key": ("tvly-", 32, _LETTERS),
    "cerebras-key": ("csk-", 48, _LOWER),
    "pinecone-key": ("pcsk_", 70, _LETTERS),
    "jina-key": ("jina_", 60, _LETTERS),
    "firecrawl-key": ("fc-", 32, _HEX),
    "fireworks-key": ("fw_", 24, _LETTERS),
    "together-key": ("tgp_v1_", 43, _LETTERS),
    "elevenlabs-key": ("sk_", 48, _HEX),
    "github-token": ("ghp_", 36, _LETTERS),
    "gitlab-token": ("glpat-", 20, _LETTERS),
    "bitbucket-token": ("ATBB", 32, _LETTERS),
    "npm-token": ("npm_", 36, _LETTERS),
    "pypi-token": ("pypi-" + "AgEIcHlwaS5vcmc", 120, _LETTERS),
    "rubygems-key": ("rubygems_", 48, _HEX),
    "crates-token": ("cio", 32, _LETTERS),
    "nuget-key": ("oy2", 43, _LOWER),
    "clojars-token": ("CLOJARS_", 60, _HEX),
    "docker-token": ("dckr_pat_", 27, _LETTERS),
    "jfrog-token": ("AKCp", 69, _LETTERS),
    "sourcegraph-token": ("sgp_", 40, _HEX),
    "sonar-token": ("squ_", 40, _HEX),
    "circleci-token": ("CCIPAT_", 62, _LETTERS),
    "buildkite-token": ("bkua_", 40, _HEX),
    "atlassian-token": ("ATATT3", 186, _LETTERS),
    "linear-key": ("lin_api_", 40, _LETTERS),
    "notion-token": ("ntn_", 46, _LETTERS),
    "figma-token": ("figd_", 40, _LETTERS),
    "sentry-token": ("sntryu_", 64, _HEX),
    "dropbox-token": ("sl.", 140, _LETTERS),
    "facebook-token": ("EAACEdEose0cBA", 120, _LETTERS),
    "typeform-token": ("tfp_", 44, _LETTERS),
    "contentful-token": ("CFPAT-", 43, _LETTERS),
    "readme-key": ("rdme_", 70, _LOWER),
    "brevo-key": ("xkeysib-", 81, _HEX),
    "stripe-key": ("sk_live_", 24, _LETTERS),
    "square-token": ("sq0atp-", 22, _LETTERS),
    "shopify-token": ("shpat_", 32, _HEX),
    "paypal-token": ("access_token$production$", 49, _LOWER),
    "flutterwave-key": ("FLWSECK-", 34, _LETTERS),
    "easypost-key": ("EZAK", 54, _LETTERS),
    "payment-key": ("rzp_live_", 14, _LETTERS),
    "aws-key-id": ("AKIA", 16, string.ascii_uppercase + "234567"),
    "aws-bedrock-key": ("ABSKQmVkcm9ja0FQSUtleS", 110, _LETTERS),
    "google-secret": ("GOCSPX-", 28, _LETTERS),
    "google-token": ("ya29.", 120, _LETTERS),
    "cloudflare-key": ("v1.0-", 171, _HEX),
    "digitalocean-token": ("dop_v1_", 64, _HEX),
    "databricks-token": ("dapi", 32, _HEX),
    "heroku-key": ("HRKU-AA", 58, _LETTERS),
    "fly-token": ("fm2_", 200, _LETTERS),
    "netlify-token": ("nfp_", 36, _LETTERS),
    "render-key": ("rnd_", 28, _LETTERS),
    "vercel-token": ("vcp_", 24, _LETTERS),
    "alibaba-key-id": ("LTAI", 20, _LETTERS),
    "tencent-key-id": ("AKID", 32, _LETTERS),
    "yandex-key": ("AQVN", 39, _LETTERS),
    "scaleway-key": ("SCW", 17, _UPPER),
    "mapbox-token": ("sk.eyJ1Ijoi" + "m" * 3 + "aB3dE6gH9jK2mN5pQ8sT1vW4." + "x", 22, _LETTERS),
    "tailscale-key": ("tskey-auth-", 36, _LETTERS),
    "openshift-token": ("sha256~", 43, _LETTERS),
    "planetscale-token": ("pscale_tkn_", 43, _LETTERS),
    "supabase-key": ("sbp_", 40, _HEX),
    "neon-key": ("napi_", 64, _LOWER),
    "neon-password": ("npg_", 12, _LETTERS),
    "posthog-key": ("phx_", 43, _LETTERS),
    "vault-token": ("hvs.", 90, _LETTERS),
    "pulumi-token": ("pul-", 40, _HEX),
    "doppler-token": ("dp.pt.", 43, _LETTERS),
    "grafana-token": ("glsa_", 41, _LETTERS),
    "newrelic-key": ("NRAK-", 27, _UPPER),
    "honeycomb-key": ("hcaik_", 58, _LOWER),
    "dynatrace-token": ("dt0c01.", 89, _UPPER),
    "onepassword-token": ("ops_" + "eyJ", 400, _LETTERS),
    "age-key": ("AGE-SECRET-KEY-" + "1", 58, _UPPER),
}


def _begun(beginning: str, count: int, letters: str) -> Callable[[Maker], str]:
    return lambda make: beginning + make.draw(count, letters)


ALONE: dict[str, Callable[[Maker], str]] = {
    **{kind: _begun(*form) for kind, form in _BEGINNINGS.items()},
    "private-key": lambda make: make.private_key(),
    "langsmith-key": lambda make: f"lsv2_pt_{make.hex(32)}_{make.hex(10)}",
    "postman-key": lambda make: f"PMAK-{make.hex(24)}-{make.hex(34)}",
    "airtable-token": lambda make: f"pat{make.draw(14)}.{make.hex(64)}",
    "slack-token": lambda make: f"xoxb-{make.draw(12, string.digits)}-{make.draw(24)}",
    "discord-token": lambda make: f"M{make.draw(23)}.{make.draw(6)}.{make.draw(38)}",
    "telegram-token": lambda make: f"{make.draw(10, '123456789')}:AA{make.draw(33)}",
    "sendgrid-key": lambda make: f"SG.{make.draw(22)}.{make.draw(43)}",
    "mailgun-key": lambda make: f"key-{make.hex(32)}",
    "mailchimp-key": lambda make: f"{make.hex(32)}-us14",
    "resend-key": lambda make: f"re_{make.draw(8)}_{make.draw(24)}",
    "twilio-key": lambda make: f"SK{make.hex(32)}",
    "plaid-token": lambda make: f"access-production-{make.uuid()}",
    "azure-secret": lambda make: f"{make.draw(3)}8Q~{make.draw(34)}",
    "terraform-token": lambda make: f"{make.draw(14)}.atlasv1.{make.draw(67)}",
    "launchdarkly-key": lambda make: f"sdk-{make.uuid()}",
    "jwt": lambda make: make.jwt(),
}
"""Kinds that are recognised wherever they are."""

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
    "cookie": ("Cookie: ", lambda make: f"theme=dark; sid={make.draw(32)}", "\n"),
    "aws-secret": ('"SecretAccessKey": "', lambda make: make.draw(40, _LETTERS + "/+"), '"'),
    "aws-session-token": ("export AWS_SESSION_TOKEN=", lambda make: make.draw(300, _LETTERS + "/+"), "\n"),
    "azure-key": ("AccountName=a;AccountKey=", lambda make: make.draw(86) + "==", ";"),
    "bearer-token": ("Authorization: Bearer ", lambda make: make.draw(40), "\n"),
    "authorization": ("Authorization: token ", lambda make: make.draw(40), "\n"),
    "login": (
        "authorization: Basic ",
        lambda make: make.login(),
        "\n",
    ),
    "azure-signature": ("https://a.blob.core.windows.net/c?sv=1&sig=", lambda make: make.draw(46), "&se=2"),
    "url-signature": ("https://b.s3.amazonaws.com/k?X-Amz-Signature=", lambda make: make.draw(64), "&a=1"),
    "url-token": ("https://", lambda make: make.draw(40), "@github.com/o/r.git"),
    "password": ("machine h login me password ", lambda make: make.draw(12), "\n"),
    "secret": ('"client_secret": "', lambda make: "p" + make.draw(20) + "2X", '"'),
    "api-key-header": ("-H 'x-api-key: ", lambda make: make.draw(32), "'"),
    "url-password": ("postgres://maria:", lambda make: make.draw(16), "@db.internal:5432/app"),
}
"""Kinds that are recognised by what stands around them: before, the secret, after."""
