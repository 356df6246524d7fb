"""What secrets look like: a table, one line a kind.

A kind is known by a literal text, its hint, and by the pattern of what follows. Nothing is guessed from
randomness alone: hashes, ids and pictures are random too, and a mask in their place does harm. What stands
in the documentation as an example (all the same letter, counted up, "your-key-here") is left alone, because
whoever edits such a file would otherwise write the mask back into it. All repetitions are bounded or
possessive, so the time taken grows with the length of the text and with nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

_WORD_ENDS = r"(?![A-Za-z0-9_])"
_ASSIGNED = r"""\\{0,3}["']?\s{0,4}[:=]\s{0,4}\\{0,3}["']?"""
_HEADING = r"(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"

_EXAMPLE = re.compile(
    r"example|placeholder|redacted|changeme|your[-_]|[-_]here|(?:fake|dummy|sample|test)[-_]|[-_](?:fake|dummy|sample)"
    r"|x{6}|\*{3}|\.{3}|1234567|abcdefg|(.)\1{6}",
    re.IGNORECASE,
)
_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/]{40}")
_NO_PASSWORD = re.compile(
    r"[A-Z_]+|\d{1,5}|%[a-z(].*"
    r"|(?:my|your|db|the)?[-_]?(?:password|passwd|pass|pwd|pw|secret|token|user|username|root|admin|guest|test|foo|bar"
    r"|postgres|mysql|redis|mongo|rabbitmq|minio|neo4j|hunter2|letmein|foobar|s3cret|secret123|password123|pass123)",
)

LEAST_DIFFERENT = 8
"""A token with fewer different characters is an example."""


class Rule(Struct, frozen=True):
    """How one kind of secret is recognised."""

    kind: str
    hints: tuple[str, ...]
    """One of these stands in the text…"""
    rest: re.Pattern[str]
    """…followed by this. A group named ``secret`` is what is masked; without one, it is hint and rest."""
    is_real: Callable[[str], bool]
    """Whether what was found can be a secret in use."""
    in_context: bool = False
    """The hint only says that a secret follows; it may stand inside a word."""
    many_lines: bool = False
    """A whole block of text, in which no other secret is looked for."""


def _looks_random(secret: str) -> bool:
    """Not an example, and not words joined with dashes."""
    return (
        len(set(secret)) >= LEAST_DIFFERENT
        and not _EXAMPLE.search(secret)
        and any(letter.isupper() or letter.isdigit() for letter in secret)
    )


def _looks_mixed(secret: str) -> bool:
    """The same where nothing but the context speaks for it: letters and digits."""
    return _looks_random(secret) and any(map(str.isdigit, secret)) and sum(map(str.isalpha, secret)) >= 4


def _is_password(secret: str) -> bool:
    return not _NO_PASSWORD.fullmatch(secret) and not _EXAMPLE.search(secret)


def _holds_a_key(block: str) -> bool:
    return _KEY_MATERIAL.search(block) is not None


def token(kind: str, *hints: str, rest: str) -> Rule:
    """A token that is known by how it begins."""
    return Rule(kind, hints, re.compile(rest + _WORD_ENDS), _looks_random)


def _following(kind: str, *hints: str, rest: str, is_real: Callable[[str], bool] = _looks_mixed) -> Rule:
    """Something that is secret because of what stands before it."""
    return Rule(kind, hints, re.compile(rest), is_real, in_context=True)


RULES = (
    Rule(
        "private-key",
        ("-----BEGIN ",),
        re.compile(
            _HEADING
            + r"(?:(?:(?!-----BEGIN )[\s\S]){20,20000}?-----END "
            + _HEADING
            # A file of which only the beginning was shown.
            + r"|[A-Za-z0-9+/=\\\s]{64,20000}+)"
        ),
        _holds_a_key,
        many_lines=True,
    ),
    # Providers of models
    token("anthropic-key", "sk-ant-", rest=r"[A-Za-z0-9_-]{32,512}+"),
    token("openai-key", "sk-proj-", "sk-svcacct-", "sk-admin-", rest=r"[A-Za-z0-9_-]{32,512}+"),
    token("openrouter-key", "sk-or-v1-", rest=r"[0-9a-f]{64}"),
    token("api-key", "sk-", rest=r"(?:[A-Za-z0-9]{48}|[0-9a-f]{32})"),
    token("google-api-key", "AIza", rest=r"[A-Za-z0-9_-]{35}(?!-)"),
    token("huggingface-token", "hf_", "api_org_", rest=r"[A-Za-z0-9]{34,40}+"),
    token("groq-key", "gsk_", rest=r"[A-Za-z0-9]{48,60}+"),
    token("xai-key", "xai-", rest=r"[A-Za-z0-9]{70,100}+"),
    token("perplexity-key", "pplx-", rest=r"[A-Za-z0-9]{40,60}+"),
    token("replicate-token", "r8_", rest=r"[A-Za-z0-9]{37}"),
    token("nvidia-key", "nvapi-", rest=r"[A-Za-z0-9_-]{60,80}+"),
    token("langsmith-key", "lsv2_pt_", "lsv2_sk_", rest=r"[0-9a-f]{32}_[0-9a-f]{10}"),
    token("tavily-key", "tvly-", rest=r"[A-Za-z0-9-]{32,64}+"),
    # Code, packages, work
    token("github-token", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", rest=r"[A-Za-z0-9]{36,255}+"),
    token("github-token", "github_pat_", rest=r"[A-Za-z0-9_]{36,255}+"),
    token(
        "gitlab-token",
        *(
            "glpat-",
            "gldt-",
            "glrt-",
            "glptt-",
            "glcbt-",
            "gloas-",
            "glsoat-",
            "glft-",
            "glimt-",
            "glagent-",
        ),
        rest=r"[A-Za-z0-9_.-]{20,300}+",
    ),
    token("npm-token", "npm_", rest=r"[A-Za-z0-9]{36}"),
    token("pypi-token", "pypi-", rest=r"AgE[A-Za-z0-9_-]{50,1000}+"),
    token("rubygems-key", "rubygems_", rest=r"[0-9a-f]{48}"),
    token("docker-token", "dckr_pat_", rest=r"[A-Za-z0-9_-]{27,40}+"),
    token("atlassian-token", "ATATT3", rest=r"[A-Za-z0-9_=-]{100,300}+"),
    token("linear-key", "lin_api_", rest=r"[A-Za-z0-9]{40}"),
    token("notion-token", "ntn_", rest=r"[A-Za-z0-9]{40,60}+"),
    token("figma-token", "figd_", rest=r"[A-Za-z0-9_-]{40,60}+"),
    token("postman-key", "PMAK-", rest=r"[0-9a-f]{24}-[0-9a-f]{34}"),
    token("sentry-token", "sntryu_", rest=r"[0-9a-f]{64}"),
    # Messages and money
    token(
        "slack-token", "xoxa-", "xoxb-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", rest=r"[A-Za-z0-9-]{20,300}+"
    ),
    token("slack-token", "xapp-", "xoxe-", "xoxe.", rest=r"[A-Za-z0-9-]{20,300}+"),
    _following(
        "slack-webhook",
        "hooks.slack.com/services/",
        rest=r"(?P<secret>T[A-Z0-9]{6,14}/B[A-Z0-9]{6,14}/[A-Za-z0-9]{16,40})" + _WORD_ENDS,
    ),
    _following(
        "discord-webhook", "/api/webhooks/", rest=r"\d{15,21}/(?P<secret>[A-Za-z0-9_-]{60,80})" + _WORD_ENDS
    ),
    token(
        "stripe-key", "sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_", rest=r"[A-Za-z0-9]{20,250}+"
    ),
    token("sendgrid-key", "SG.", rest=r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    token("shopify-token", "shpat_", "shpca_", "shppa_", "shpss_", rest=r"[0-9a-fA-F]{32}"),
    # Clouds and services
    token("aws-key-id", "AKIA", "ASIA", rest=r"[A-Z2-7]{16}"),
    _following(
        "aws-secret",
        *("secret_access_key", "SECRET_ACCESS_KEY", "ecretAccessKey"),
        rest=_ASSIGNED + r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=_])",
    ),
    _following(
        "aws-session-token",
        *("aws_session_token", "AWS_SESSION_TOKEN", "essionToken"),
        rest=_ASSIGNED + r"(?P<secret>[A-Za-z0-9/+]{100,4096}+={0,2})",
    ),
    _following(
        "azure-key", "AccountKey=", "SharedAccessKey=", rest=r"(?P<secret>[A-Za-z0-9+/]{43,86}={1,2})"
    ),
    token("google-secret", "GOCSPX-", rest=r"[A-Za-z0-9_-]{28}"),
    token("google-token", "ya29.", rest=r"[A-Za-z0-9_-]{40,2000}+"),
    token("digitalocean-token", "dop_v1_", "doo_v1_", "dor_v1_", rest=r"[0-9a-f]{64}"),
    token("databricks-token", "dapi", rest=r"[0-9a-f]{32}(?:-\d)?"),
    token("vault-token", "hvs.", "hvb.", rest=r"[A-Za-z0-9_-]{24,300}+"),
    token("grafana-token", "glsa_", rest=r"[A-Za-z0-9]{32}_[0-9a-f]{8}"),
    token("supabase-key", "sbp_", rest=r"[0-9a-f]{40}"),
    token("supabase-key", "sb_secret_", rest=r"[A-Za-z0-9_-]{22,60}+"),
    token("pulumi-token", "pul-", rest=r"[0-9a-f]{40}"),
    token("doppler-token", "dp.pt.", rest=r"[A-Za-z0-9]{40,44}+"),
    token("onepassword-token", "ops_", rest=r"eyJ[A-Za-z0-9_-]{200,3000}+"),
    token("age-key", "AGE-SECRET-KEY-", rest=r"1[0-9A-Z]{58}"),
    # Whatever their kind
    token(
        "jwt", "eyJ", rest=r"[A-Za-z0-9_-]{8,4096}+\.eyJ[A-Za-z0-9_-]{8,16384}+\.[A-Za-z0-9_-]{16,4096}+"
    ),
    _following("bearer-token", "earer ", rest=r"(?P<secret>[A-Za-z0-9._~+/-]{20,4096}+={0,2})"),
    _following(
        "authorization",
        "uthorization",
        rest=_ASSIGNED
        + r"(?:[Bb]asic|[Tt]oken|[Aa]pi[Kk]ey) {1,4}(?P<secret>[A-Za-z0-9._~+/-]{16,4096}+={0,2})",
    ),
    _following(
        "api-key-header",
        *("-api-k", "-Api-K", "-API-K"),
        rest=r"(?:ey|EY)" + _ASSIGNED + r"(?P<secret>[A-Za-z0-9._~+/-]{20,512}+={0,2})",
    ),
    _following(
        "url-password",
        "://",
        rest=r"""[^\s/:@"'<>\\`{}$]{0,100}+:(?P<secret>[^\s/:@"'<>\\`{}$*\[\]()|,]{5,200}+)@(?=[A-Za-z0-9_.-])""",
        is_real=_is_password,
    ),
)
