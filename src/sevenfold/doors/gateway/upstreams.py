"""Where requests go: the provider of each API, or one server for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.providers.anthropic import ANTHROPIC
from sevenfold.providers.openai.client import OPENAI

_VERSION = "/v1"
_OPENAI_PATHS = ("/chat/completions", "/responses", "/embeddings", "/completions", "/files", "/images")


class Upstream(Struct, frozen=True):
    """A server that requests are passed on to."""

    secure: bool
    host: str
    port: int
    path: str = ""
    """What its paths begin with."""

    @classmethod
    def of(cls, url: str) -> Upstream:
        """The server at an address; raises `InputError` if it is none."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise InputError(f"the upstream must be an http or https address, got {url!r}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError(
                f"the upstream must be an address without a user name, a query or a fragment, got {url!r}"
            )
        secure = parts.scheme == "https"
        return cls(secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """The value of the header ``Host`` for it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.path}"


class Upstreams(Struct, frozen=True):
    """The servers of the two vendors' APIs."""

    anthropic: Upstream
    openai: Upstream

    @classmethod
    def chosen(cls, url: str | None, env: Mapping[str, str]) -> Upstreams:
        """One server for everything, or those that the environment names, or the providers themselves."""
        if url is not None:
            root = Upstream.of(url.rstrip("/").removesuffix(_VERSION))
            return cls(root, Upstream(root.secure, root.host, root.port, f"{root.path}{_VERSION}"))
        return cls(
            Upstream.of(env.get(ANTHROPIC.url_variable) or ANTHROPIC.url),
            Upstream.of(env.get(OPENAI.url_variable) or OPENAI.url),
        )

    def route(self, target: str, headers: Mapping[str, str]) -> tuple[Upstream, str]:
        """The server for a request, and the target there; ``headers`` have names in lower case."""
        path = target.partition("?")[0]
        plain = path.removeprefix(_VERSION)
        openai = plain.startswith(_OPENAI_PATHS) or (
            path.startswith(f"{_VERSION}/models") and "anthropic-version" not in headers
        )
        if not openai:
            return self.anthropic, f"{self.anthropic.path}{target}"
        return self.openai, f"{self.openai.path}{target.removeprefix(_VERSION)}"
