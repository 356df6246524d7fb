"""WebFetch: a page from the internet as text, within limits of time and size.

Only public addresses are fetched; each redirection is looked at like a new address, and one to another host is not
followed but told: permission was given for the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urljoin

from msgspec import Meta, Struct

from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools import pages
from sevenfold.agent.tools.addresses import Resolve, Target, machine, resolve, target
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import Refused

if TYPE_CHECKING:
    import httpx2

SECONDS = 30.0
MOST_BYTES = 5_000_000
MOST_CHARACTERS = 400_000
MOST_REDIRECTIONS = 5
_REDIRECTIONS = (301, 302, 303, 307, 308)
_TEXTUAL = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "csv")
_ACCEPT = "text/html, text/*;q=0.9, */*;q=0.5"
_WHO = "sevenfold"


class FetchInput(Struct, forbid_unknown_fields=True):
    """What to fetch."""

    url: Annotated[str, Meta(description="The address, with http:// or https://.")]


class _Moved(Struct, frozen=True):
    url: str


class _Page(Struct, frozen=True):
    url: str
    status: int
    kind: str
    body: bytes
    charset: str
    cut: bool


class WebFetch(StandardTool[FetchInput]):
    """Fetches a page."""

    name = "WebFetch"
    kind = "web"
    concurrent = True
    input = FetchInput

    def __init__(
        self,
        *,
        private: Collection[str] = (),
        resolve: Resolve = resolve,
        seconds: float = SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """``private`` names hosts that may be fetched although they are not on the public internet."""
        super().__init__()
        self._private = frozenset(host.lower() for host in private)
        self._resolve = resolve
        self._seconds = seconds
        self._most = most_bytes

    def wants(self, given: FetchInput, context: Context) -> Wish:
        """Fetching that address."""
        return Wish(self.name, "fetch", target(given.url).url)

    def act(self, given: FetchInput, context: Context) -> ToolOutput:
        """Fetch it, and what it redirects to on the same host."""
        httpx2 = _client_library()
        wanted = target(context.wish.subject if context.wish else given.url)
        deadline = time.monotonic() + self._seconds
        try:
            with httpx2.Client(trust_env=False, timeout=min(10.0, self._seconds)) as client:
                return self._followed(client, wanted, deadline, context.abort.is_set)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise Refused(f"{wanted.url} could not be fetched: {error or type(error).__name__}.") from error

    def _followed(
        self, client: httpx2.Client, wanted: Target, deadline: float, stopped: Callable[[], bool]
    ) -> ToolOutput:
        first = wanted.url
        for _ in range(MOST_REDIRECTIONS + 1):
            came = self._ask(client, wanted, deadline, stopped)
            if isinstance(came, _Page):
                return ToolOutput(_shown(came), is_error=came.status >= 400)
            following = target(urljoin(wanted.url, came.url))
            if following.host != wanted.host or (wanted.secure and not following.secure):
                return ToolOutput(
                    f"{wanted.url} redirects to another host; fetch {following.url} if you want that."
                )
            wanted = following
        raise Refused(f"{first} redirects more than {MOST_REDIRECTIONS} times; it leads nowhere.")

    def _ask(
        self, client: httpx2.Client, wanted: Target, deadline: float, stopped: Callable[[], bool]
    ) -> _Page | _Moved:
        address = machine(wanted, self._resolve, self._private.__contains__)
        host = f"[{address}]" if ":" in address else address
        url = f"{'https' if wanted.secure else 'http'}://{host}:{wanted.port}{wanted.path}"
        headers = {
            "Host": wanted.authority,
            "User-Agent": _WHO,
            "Accept": _ACCEPT,
            "Accept-Encoding": "identity",
        }
        with client.stream("GET", url, headers=headers, extensions={"sni_hostname": wanted.host}) as reply:
            return self._taken(reply, wanted, deadline, stopped)

    def _taken(
        self, reply: httpx2.Response, wanted: Target, deadline: float, stopped: Callable[[], bool]
    ) -> _Page | _Moved:
        if reply.status_code in _REDIRECTIONS and "location" in reply.headers:
            return _Moved(reply.headers["location"])
        body, cut = bytearray(), False
        for chunk in reply.iter_bytes():
            if stopped():
                raise Refused("The fetching was stopped.")
            if time.monotonic() > deadline:
                raise Refused(f"{wanted.url} took longer than {self._seconds:g} s; it was given up.")
            body += chunk
            if len(body) > self._most:
                del body[self._most :]
                cut = True
                break
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        return _Page(
            wanted.url, reply.status_code, kind, bytes(body), reply.charset_encoding or "utf-8", cut
        )


def _client_library() -> Any:
    try:
        import httpx2
    except ImportError:
        raise Refused("Fetching needs httpx2: install the extra, pip install 'sevenfold[agent]'.") from None
    return httpx2


def _shown(page: _Page) -> str:
    lines = [page.url if page.status == 200 else f"{page.url} answers with status {page.status}."]
    if page.kind and not page.kind.startswith("text/") and not page.kind.endswith(_TEXTUAL):
        return f"{lines[0]}\n{page.kind}, {len(page.body):,} bytes: no text, so it is not shown."
    try:
        words = page.body.decode(page.charset, errors="replace")
    except LookupError:
        words = page.body.decode(errors="replace")
    if page.kind in ("text/html", "application/xhtml+xml") or (
        not page.kind and "<html" in words[:2_000].lower()
    ):
        title, words = pages.as_text(words)
        lines += [f"Title: {title}"] if title else []
    if page.cut or len(words) > MOST_CHARACTERS:
        words = f"{words[:MOST_CHARACTERS]}\n(The page goes on; only its beginning was taken.)"
    return "\n".join([*lines, "", words.strip() or "(nothing to read)"])
