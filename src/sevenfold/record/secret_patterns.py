"""What secrets look like: one table of token formats, and one of the contexts that give a secret away.

A format is known by the text it begins with and by the run of characters that follows. Nothing is guessed from
randomness alone: hashes, ids and pictures are random too, and a mask in their place does harm. Examples from
documentation (one letter repeated, counted up, "your-key-here") are left alone, because a model that edits such a file
would otherwise write the mask back into it. All repetitions are bounded or possessive, so the time taken grows with
the length of the text and with nothing else.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct

_EXAMPLE = re.compile(
    r"example|placeholder|redacted|changeme|your[-_]|[-_]here|(?:fake|dummy|sample|test)[-_]|[-_](?:fake|dummy|sample)"
    r"|x{6}|\*{3}|\.{3}|(.)\1{6}",
    re.IGNORECASE,
)
_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/]{40}")
_RUN = re.compile(r"[A-Za-z0-9]+")
_NO_PASSWORD = re.compile(
    r"[A-Z_]+|\d{1,5}|%[a-z(].*|[$<{\[%*].*|.*\$\{.*"
    r"|(?:my|your|db|the)?[-_]?(?:password|passwd|pass|pwd|pw|secret|token|user|username|root|admin|guest|test|foo|bar"
    r"|postgres|mysql|redis|mongo|rabbitmq|minio|neo4j|hunter2|letmein|foobar|s3cret|secret123|password123|pass123)",
)
_CODE = re.compile(r"[A-Za-z_]\.[A-Za-z_]|[(\[{]|^[A-Za-z_]+\d?$")
_TERM = re.compile(
    r"(?i:base|sha|md|utf|ucs|o?auth|aes|argon|b?crypt|scrypt|pbkdf|ed|rsa|ec|http|ipv|tls|ssl|ascii|iso|rfc|cve|latin"
    r"|python|py|node|mysql|postgres|step|line|row|page|part|test|type|level|version|user|[a-z])[-_]?\d[\d.]*(?:url|[-_]\w*)?\Z"
    r"|\d+(?:[-.:/]\d+)*-?[A-Za-z]{0,12}\Z|[A-Z][A-Z0-9_]*\Z"
)
"""Terms with digits that sentences about passwords use, numbers with units, and names of variables."""
_CALL = re.compile(r"[(\[{<$]|[A-Za-z_]\.[A-Za-z_]|::|->|=")
LEAST_DIFFERENT = 8
"""A token with fewer different characters is an example."""


class Rule(Struct, frozen=True):
    """How one kind of secret is recognised."""

    kind: str
    hints: tuple[str, ...]
    """Texts one of which comes first."""
    rest: re.Pattern[str]
    """What follows the hint. A group named ``secret`` is what is masked; without one, it is hint and rest."""
    is_real: Callable[[str], bool]
    """Whether what was found can be a secret in use."""
    in_context: bool = False
    """The hint is not part of the secret; it only says that one follows."""
    many_lines: bool = False
    """A whole block of text, in which no other secret is looked for."""
    begins_word: bool = False
    """The hint is so short that it counts only at the beginning of a word."""
    at_edge: bool = False
    """It also occurs by chance in encoded data, and counts only where a word begins or ends with it."""
    before: re.Pattern[str] | None = None
    """What precedes the hint and belongs to the secret; it ends with ``\\Z``."""


# -- telling secrets from examples and from words ----------------------------------------------------


def _is_example(secret: str) -> bool:
    """Is it made up: words like ``your-key``, few different characters, or characters counted up?"""
    if len(set(secret)) < LEAST_DIFFERENT or _EXAMPLE.search(secret):
        return True
    longest = max(_RUN.findall(secret), key=len, default="")
    steps = sum(ord(after) - ord(before) == 1 for before, after in pairwise(longest))
    return steps * 2 > len(longest)


def _looks_random(secret: str) -> bool:
    """Not an example, and not words joined with dashes."""
    return not _is_example(secret) and any(letter.isupper() or letter.isdigit() for letter in secret)


def _looks_mixed(secret: str) -> bool:
    """The same where only the context speaks for it: a run that no word is, of letters and digits."""
    return any(map(_is_no_word, _RUN.findall(secret))) and not _is_example(secret)


def _is_no_word(run: str) -> bool:
    digits = sum(map(str.isdigit, run))
    cases = any(map(str.isupper, run[1:])) and any(map(str.islower, run))
    return len(run) >= 8 and digits >= 1 and len(run) - digits >= 2 and (digits >= 3 or cases)


def _is_password(secret: str) -> bool:
    return not _NO_PASSWORD.fullmatch(secret) and not _EXAMPLE.search(secret)


def _is_assigned(secret: str) -> bool:
    """A value that a name calls secret: no placeholder, no name of another variable, no plain word."""
    return _is_password(secret) and _looks_mixed(secret)


def _is_set_password(secret: str) -> bool:
    """A value that a name calls a password: with digits and other characters, and no piece of code."""
    digits = sum(map(str.isdigit, secret))
    return _is_password(secret) and 0 < digits < len(secret) and not _CODE.search(secret)


def _is_spoken_password(secret: str) -> bool:
    """A word in a sentence that calls it a password: letters and digits, and no name of an encoding or a place."""
    mixed = any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    return mixed and not _TERM.match(secret) and not _EXAMPLE.search(secret) and not _CALL.search(secret)


def _is_login(encoded: str) -> bool:
    """Base64 of ``user:password``."""
    try:
        user, _, password = base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode().partition(":")
    except ValueError:
        return False
    return user.isprintable() and password.isprintable() and bool(password) and _is_password(password)


def _holds_a_key(block: str) -> bool:
    return _KEY_MATERIAL.search(block) is not None


# -- formats ---------------------------------------------------------------------------------------

_ALNUM, _HEX, _WORD, _DOTTED = "[A-Za-z0-9]", "[0-9a-fA-F]", "[A-Za-z0-9_-]", "[A-Za-z0-9_.-]"
_BASE64, _UPPER, _DIGIT = "[A-Za-z0-9+/=_-]", "[A-Z0-9]", "[0-9]"
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
LONGEST = 1_000
"""Characters of a token; longer ones say so."""


def token(kind: str, hints: str, alphabet: str, least: int, most: int = LONGEST) -> Rule:
    """A token that begins with one of the hints (separated by blanks) and goes on with a run of an alphabet."""
    return shaped(kind, hints, f"{alphabet}{{{least},{most}}}+")


def shaped(
    kind: str, hints: str, rest: str, *, begins_word: bool = False, at_edge: bool = False, before: str = ""
) -> Rule:
    """A token that has one of the hints in it, between a pattern before it and one behind it."""
    precedes = re.compile(rf"{before}\Z") if before else None
    return Rule(
        kind,
        tuple(hints.split()),
        re.compile(rest),
        _looks_random,
        begins_word=begins_word,
        at_edge=at_edge,
        before=precedes,
    )


FORMATS = (
    # Providers of models
    token("anthropic-key", "sk-ant-", _WORD, 32),
    token("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", _WORD, 32),
    token("openrouter-key", "sk-or-v1-", _HEX, 64),
    token("langfuse-key", "sk-lf-", _WORD, 32),
    shaped("api-key", "sk-", rf"(?:{_ALNUM}{{40,200}}+|{_HEX}{{32}})", begins_word=True),
    shaped("google-api-key", "AIza", rf"{_WORD}{{35,60}}+", at_edge=True),
    token("huggingface-token", "hf_ api_org_", _ALNUM, 30),
    token("groq-key", "gsk_", _ALNUM, 40),
    token("xai-key", "xai-", _ALNUM, 60),
    token("perplexity-key", "pplx-", _ALNUM, 40),
    token("replicate-token", "r8_", _ALNUM, 37),
    token("nvidia-key", "nvapi-", _WORD, 50),
    token("langsmith-key", "lsv2_pt_ lsv2_sk_", "[0-9a-f_]", 32),
    token("tavily-key", "tvly-", _WORD, 28),
    token("cerebras-key", "csk-", _ALNUM, 40),
    token("pinecone-key", "pcsk_", _WORD, 40),
    token("jina-key", "jina_", _WORD, 40),
    shaped("firecrawl-key", "fc-", rf"{_HEX}{{32}}", begins_word=True),
    token("together-key", "tgp_v1_", _WORD, 40),
    shaped("elevenlabs-key", "sk_", rf"{_HEX}{{48,64}}+", begins_word=True),
    # Code and packages
    token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _ALNUM, 36),
    token("github-token", "github_pat_", "[A-Za-z0-9_]", 36),
    token("gitlab-token", "glpat- gldt- glrt- glrtr- glptt- glcbt- gloas- glsoat- glft-", _DOTTED, 20),
    token("gitlab-token", "glimt- glagent- glffct- glwt-", _DOTTED, 20),
    shaped("bitbucket-token", "ATBB", rf"{_ALNUM}{{32,200}}+", begins_word=True),
    token("npm-token", "npm_", _ALNUM, 36),
    shaped("pypi-token", "pypi-", rf"AgE{_WORD}{{50,2000}}+"),
    token("rubygems-key", "rubygems_", _HEX, 48),
    shaped("crates-token", "cio", rf"{_ALNUM}{{32,40}}+", begins_word=True),
    shaped("nuget-key", "oy2", "[a-z0-9]{43,50}+", begins_word=True),
    token("clojars-token", "CLOJARS_", _ALNUM, 50),
    token("docker-token", "dckr_pat_ dckr_oat_", _WORD, 27),
    shaped("jfrog-token", "AKCp", rf"{_ALNUM}{{60,200}}+", begins_word=True),
    token("sourcegraph-token", "sgp_", "[0-9a-z_]", 40),
    token("sonar-token", "squ_ sqp_ sqa_", _HEX, 40),
    token("circleci-token", "CCIPAT_ CCIPRJ_", "[A-Za-z0-9_]", 40),
    token("buildkite-token", "bkua_", _HEX, 40),
    # Work
    token("atlassian-token", "ATATT3 ATCTT3", "[A-Za-z0-9_=-]", 60),
    token("linear-key", "lin_api_ lin_oauth_", _ALNUM, 40),
    token("notion-token", "ntn_ secret_", _ALNUM, 40),
    token("figma-token", "figd_ figu_", _WORD, 36),
    token("postman-key", "PMAK-", "[0-9a-f-]", 50),
    token("sentry-token", "sntryu_ sntrys_", _BASE64, 60),
    shaped("airtable-token", "pat", rf"{_ALNUM}{{14}}\.{_HEX}{{64}}"),
    token("typeform-token", "tfp_", _WORD, 40),
    token("contentful-token", "CFPAT-", _WORD, 40),
    token("readme-key", "rdme_", "[a-z0-9]", 60),
    # Messages
    token("slack-token", "xoxa- xoxb- xoxc- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xoxe. xwfp-", _DOTTED, 20),
    token("slack-token", "xoxd-", "[A-Za-z0-9_.%-]", 20),
    shaped("discord-token", ".", rf"{_WORD}{{6}}\.{_WORD}{{27,45}}+", before=rf"[MNO]{_WORD}{{22,27}}"),
    shaped("telegram-token", ":AA", rf"{_WORD}{{32,36}}+", before=r"\d{8,10}"),
    shaped("sendgrid-key", "SG.", rf"{_WORD}{{16,32}}\.{_WORD}{{40,50}}+"),
    shaped("mailgun-key", "key-", rf"{_HEX}{{32}}(?!{_ALNUM})", begins_word=True),
    shaped("mailchimp-key", "-us", rf"\d{{1,2}}(?!{_WORD})", before="[0-9a-f]{32}"),
    token("facebook-token", "EAACEdEose0cBA", _ALNUM, 20),
    token("brevo-key", "xkeysib- xsmtpsib-", _WORD, 64),
    shaped("resend-key", "re_", rf"{_ALNUM}{{8}}_{_ALNUM}{{24,32}}+", begins_word=True),
    shaped("twilio-key", "SK", rf"{_HEX}{{32}}(?!{_ALNUM})", begins_word=True),
    # Money
    token("stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_ sk_org_ whsec_", _BASE64, 20),
    token("square-token", "sq0atp- sq0csp-", _WORD, 22),
    token("shopify-token", "shpat_ shpca_ shppa_ shpss_", _HEX, 32),
    shaped("plaid-token", "access-sandbox- access-development- access-production-", _UUID),
    token("paypal-token", "access_token$production$ access_token$sandbox$", "[0-9a-z$]", 40),
    token("flutterwave-key", "FLWSECK- FLWSECK_TEST-", _WORD, 30),
    shaped("easypost-key", "EZAK EZTK", rf"{_ALNUM}{{54,100}}+", begins_word=True),
    token(
        "payment-key", "rzp_live_ rzp_test_ shippo_live_ shippo_test_ duffel_live_ duffel_test_", _WORD, 14
    ),
    # Clouds and hosts
    shaped("aws-key-id", "AKIA ASIA ABIA ACCA", "[A-Z2-7]{16,20}+", at_edge=True),
    token("aws-bedrock-key", "ABSKQmVkcm9ja0FQSUtleS bedrock-api-key-", _BASE64, 60, 4_000),
    token("google-secret", "GOCSPX-", _WORD, 28),
    token("google-token", "ya29. 1//0", _DOTTED, 40, 2_000),
    shaped("azure-secret", "7Q~ 8Q~", r"[A-Za-z0-9_.~-]{31,40}+", before="[A-Za-z0-9_.~-]{3}"),
    token("cloudflare-key", "v1.0-", "[0-9a-f-]", 160),
    token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", _HEX, 64),
    shaped("databricks-token", "dapi", rf"{_HEX}{{32}}(?:-\d)?"),
    token("heroku-key", "HRKU-", _WORD, 36),
    token("fly-token", "fo1_ fm1a_ fm1r_ fm2_", "[A-Za-z0-9+/=_,-]", 40, 4_000),
    token("netlify-token", "nfp_", _ALNUM, 36),
    token("render-key", "rnd_", _ALNUM, 28),
    token("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", _ALNUM, 24),
    shaped("alibaba-key-id", "LTAI", rf"{_ALNUM}{{16,30}}+", begins_word=True),
    shaped("tencent-key-id", "AKID", rf"{_ALNUM}{{32,40}}+", begins_word=True),
    shaped("yandex-key", "AQVN y0_", rf"{_WORD}{{38,100}}+", begins_word=True),
    shaped("scaleway-key", "SCW", rf"{_UPPER}{{17}}", begins_word=True),
    token("tailscale-key", "tskey-", _WORD, 24),
    token("openshift-token", "sha256~", _WORD, 43),
    # Data
    shaped("dropbox-token", "sl.", rf"{_DOTTED}{{100,1500}}+", begins_word=True),
    token("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", _DOTTED, 32),
    token("supabase-key", "sbp_ sb_secret_", _WORD, 22),
    token("neon-key", "napi_", _ALNUM, 40),
    token("neon-password", "npg_", _ALNUM, 12),
    token("posthog-key", "phx_", _ALNUM, 40),
    # Running things
    shaped("terraform-token", ".atlasv1.", rf"{_BASE64}{{60,80}}+", before=rf"{_ALNUM}{{14}}"),
    token("vault-token", "hvs. hvb. hvr.", _DOTTED, 24),
    token("pulumi-token", "pul-", _HEX, 40),
    token("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", _DOTTED, 40),
    token("grafana-token", "glsa_ glc_", _BASE64, 32),
    token("newrelic-key", "NRAK- NRJS- NRII- NRRA-", _WORD, 19),
    token("dynatrace-token", "dt0c01.", "[A-Z0-9.]", 80),
    token("honeycomb-key", "hcaik_ hcaic_ hcxik_", _ALNUM, 50),
    shaped("launchdarkly-key", "sdk-", _UUID, begins_word=True),
    token("onepassword-token", "ops_eyJ", _WORD, 200, 4_000),
    token("age-key", "AGE-SECRET-KEY-1", _UPPER, 50),
    # Of any service
    shaped("jwt", "eyJ", rf"{_WORD}{{8,4096}}+\.eyJ{_WORD}{{8,16384}}+\.{_WORD}{{16,4096}}+"),
)

# -- contexts --------------------------------------------------------------------------------------

_QUOTE = r"""\\{0,3}["']?"""
_ASSIGNED = rf"{_QUOTE}\s{{0,4}}(?:[:=]|=>)\s{{0,4}}{_QUOTE}"
_VALUE = r"""(?P<secret>(?:[^\s"'`<>\\,;()\[\]{}$|&]|&(?!\w{1,40}=)){8,400}+)"""
_SPOKEN = ("password", "passphrase", "passcode")
_PAIR = r"""[A-Za-z0-9_.!#$%&*+^`|~-]{1,64}=[^\s"'<>;\\,]{1,4000}"""
_HEADING = r"(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"


def _after(kind: str, hints: str, rest: str, is_real: Callable[[str], bool] = _looks_mixed) -> Rule:
    """Something that is secret because of what comes before it, however that is capitalised.

    ``_`` in a hint may also be written as ``-`` or left out; ``rest`` has the group ``secret``.
    """
    spelled = {hint.replace("_", sign) for hint in hints.split() for sign in ("_", "-", "")}
    return Rule(kind, tuple(sorted(spelled)), re.compile(rest), is_real, in_context=True)


CONTEXTS = (
    Rule(
        "private-key",
        ("-----begin ", "putty-user-key-file-"),
        re.compile(
            rf"(?:{_HEADING}(?:(?:(?!-----(?i:begin) )[\s\S]){{20,20000}}?-----END {_HEADING}"
            # A file of which only the beginning was shown.
            r"|[A-Za-z0-9+/=\\\s]{64,20000}+)"
            r"|\d: [\s\S]{100,8000}?Private-MAC: [0-9a-f]{40,64})"
        ),
        _holds_a_key,
        in_context=True,
        many_lines=True,
    ),
    _after("bearer-token", "bearer", r" {1,4}(?P<secret>[A-Za-z0-9._~+/=-]{20,4096}+)"),
    _after(
        "authorization",
        "authorization",
        _ASSIGNED
        + r"(?:(?i:token|apikey|api-key|ssws|key) {1,4})?(?P<secret>[A-Za-z0-9._~+/=-]{16,4096}+)",
    ),
    _after(
        "login",
        "basic auth",
        rf"(?: {{1,4}}|{_ASSIGNED})(?P<secret>[A-Za-z0-9+/]{{8,4096}}+={{0,2}})",
        _is_login,
    ),
    _after("npm-token", "_authtoken", _ASSIGNED + _VALUE, _is_password),
    _after("api-key-header", "x_api_key", _ASSIGNED + r"(?P<secret>[A-Za-z0-9._~+/=-]{20,512}+)"),
    _after("aws-secret", "secret_access_key", _ASSIGNED + r"(?P<secret>[A-Za-z0-9/+]{40,80}+)"),
    _after("aws-session-token", "session_token", _ASSIGNED + r"(?P<secret>[A-Za-z0-9/+]{100,4096}+={0,2})"),
    _after("azure-key", "account_key shared_access_key", r"=(?P<secret>[A-Za-z0-9+/]{43,88}+={0,2})"),
    _after("azure-signature", "&sig= ?sig=", r"(?P<secret>[A-Za-z0-9%+/=]{40,120}+)"),
    _after(
        "slack-webhook",
        "hooks.slack.com/services/",
        r"(?P<secret>T[A-Z0-9]{6,14}/B[A-Z0-9]{6,14}/[A-Za-z0-9]{16,60}+)",
    ),
    _after("discord-webhook", "/api/webhooks/", r"\d{15,21}/(?P<secret>[A-Za-z0-9_-]{60,90}+)"),
    # User and password may hold "@" and ":" as people write them; the last "@" before the path ends them.
    _after(
        "url-password",
        "://",
        r"""[^\s/:"'<>\\`]{0,100}+:(?P<secret>[^\s/"'<>\\`]{5,200})@(?=[A-Za-z0-9_.\[-])""",
        _is_password,
    ),
    _after("url-token", "s://", r"(?P<secret>[A-Za-z0-9_~.-]{20,200}+)@(?=[A-Za-z0-9_.-])"),
    _after("login", "--user -u", r"(?: {1,4}|=)['\"]?[\w.@-]{1,60}+:" + _VALUE, _is_assigned),
    _after(
        "password", "login", r"\s{1,8}\S{1,100}+\s{1,8}password\s{1,8}(?P<secret>\S{8,200}+)", _is_password
    ),
    _after(
        "password",
        "password passwd",
        rf"""{_ASSIGNED}(?P<secret>[^\s"'`<>\\,;]{{8,200}}+)""",
        _is_set_password,
    ),
    # In a sentence: only "the password (for …) is …", and only a word with digits in it.
    Rule(
        "password",
        tuple(f"{noun} {verb}" for noun in _SPOKEN for verb in ("is", "was", "for", "to")),
        re.compile(
            r"""(?:(?<=for|.to)(?: [\w.@'-]{1,40}+){1,4}? (?:is|was))?(?: now| still)?:?\s{1,2}["'`]?"""
            r"""(?P<secret>[^\s"'`,;]{5,63}[^\s"'`,;.!?)])(?=[.,;!?)"'`]{0,3}(?:\s|\Z))"""
        ),
        _is_spoken_password,
        in_context=True,
    ),
    _after(
        "cookie",
        "cookie",
        rf"(?:{_ASSIGNED}| {{1,2}}['\"]?)(?P<secret>{_PAIR}(?:; {{0,2}}{_PAIR}){{0,60}}+)",
    ),
    _after(
        "secret",
        "secret api_key access_key secret_key api_token auth_token access_token refresh_token bot_token ?token &token",
        _ASSIGNED + _VALUE + r"(?![(\[.])",
        _is_assigned,
    ),
    # As in the environment; page tokens and the like are written otherwise.
    Rule("secret", ("_token=",), re.compile(_QUOTE + _VALUE), _is_assigned, in_context=True),
)
"""Hints are in lower case, and found in any."""

RULES = FORMATS + CONTEXTS
