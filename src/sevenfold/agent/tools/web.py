"""WebFetch: a page from the internet as text, within limits of time and size.

Only addresses anyone on the internet could reach are fetched. A name can lead anywhere, so all the machine addresses
behind it are checked, and the one that was checked is the one connected to: a name that leads elsewhere a moment later
changes nothing. Each redirection is checked like a new address, and one to another host is reported instead of being
followed, since permission was given for the first.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Callable, Collection
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urljoin, urlsplit

from msgspec import Meta, Struct
from msgspec.structs import replace

from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.permissions.shell import names
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import InputError, Refused

if TYPE_CHECKING:
    import httpx2

SECONDS = 30.0
MOST_BYTES = 5_000_000
MOST_CHARACTERS = 400_000
MOST_REDIRECTIONS = 5
_REDIRECTIONS = (301, 302, 303, 307, 308)
_TEXTUAL = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "csv")
_ACCEPT = "text/html, text/*;q=0.9, */*;q=0.5"
_USER_AGENT = "sevenfold"
_SKIPPED = names("script style noscript template svg canvas iframe head object video audio select button")
_BLOCKS = names(
    "p div section article main header footer aside nav ul ol dl table tr blockquote pre figure form fieldset "
    "h1 h2 h3 h4 h5 h6 li dt dd hr details summary address figcaption"
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_VOID = names("br hr img input meta link area base col embed source track wbr")
_BLANKS = re.compile(r"[ \t\r\f\v\n\u00a0]+")
_MANY_ENDS = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")

Resolve = Callable[[str, int], list[str]]
"""From a host and a port to machine addresses."""


def system_resolve(host: str, port: int) -> list[str]:
    """The machine addresses behind a name, as this system knows them; raises `Refused` if there are none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"The host {host} was not found ({error}); check the address.") from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class FetchInput(Struct, forbid_unknown_fields=True):
    """What to fetch."""

    url: Annotated[str, Meta(description="The address, with http:// or https://.")]


class _Page(Struct, frozen=True):
    url: str
    status: int
    kind: str
    body: bytes
    charset: str
    cut: bool


class WebFetchTool(StandardTool[FetchInput]):
    """Fetches a page."""

    name = "WebFetch"
    kind = "web"
    concurrent = True
    input = FetchInput

    def __init__(
        self,
        *,
        private: Collection[str] = (),
        resolve: Resolve = system_resolve,
        seconds: float = SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """``private`` names hosts that may be fetched although they are not on the public internet."""
        super().__init__()
        self._private = frozenset(host.lower() for host in private)
        self._resolve = resolve
        self._seconds = seconds
        self._most = most_bytes

    def requires(self, given: FetchInput, context: Context) -> PermissionRequest:
        """Permission to fetch the address."""
        return PermissionRequest(self.name, "fetch", parse_address(given.url).url)

    def act(self, given: FetchInput, context: Context) -> ToolOutput:
        """Fetch it, and what it redirects to on the same host."""
        httpx2 = _client_library()
        wanted = parse_address(context.permitted.subject if context.permitted else given.url)
        deadline = time.monotonic() + self._seconds
        try:
            with httpx2.Client(trust_env=False, timeout=min(10.0, self._seconds)) as client:
                return self._followed(client, wanted, deadline, context.abort.is_set)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise Refused(f"{wanted.url} could not be fetched: {error or type(error).__name__}.") from error

    def _followed(
        self, client: httpx2.Client, wanted: WebAddress, deadline: float, stopped: Callable[[], bool]
    ) -> ToolOutput:
        first = wanted.url
        for _ in range(MOST_REDIRECTIONS + 1):
            reply = self._ask(client, wanted, deadline, stopped)
            if isinstance(reply, _Page):
                return ToolOutput(_shown(reply), is_error=reply.status >= 400)
            following = parse_address(urljoin(wanted.url, reply))
            if following.host != wanted.host or (wanted.secure and not following.secure):
                return ToolOutput(
                    f"{wanted.url} redirects to another host; fetch {following.url} if you want that."
                )
            wanted = following
        raise Refused(f"{first} redirects more than {MOST_REDIRECTIONS} times; not fetched.")

    def _ask(
        self, client: httpx2.Client, wanted: WebAddress, deadline: float, stopped: Callable[[], bool]
    ) -> _Page | str:
        """The page, or the address it redirects to."""
        address = public_machine(wanted, self._resolve, self._private.__contains__)
        host = f"[{address}]" if ":" in address else address
        url = f"{'https' if wanted.secure else 'http'}://{host}:{wanted.port}{wanted.path}"
        headers = {
            "Host": wanted.authority,
            "User-Agent": _USER_AGENT,
            "Accept": _ACCEPT,
            "Accept-Encoding": "identity",
        }
        with client.stream("GET", url, headers=headers, extensions={"sni_hostname": wanted.host}) as reply:
            return self._taken(reply, wanted, deadline, stopped)

    def _taken(
        self, reply: httpx2.Response, wanted: WebAddress, deadline: float, stopped: Callable[[], bool]
    ) -> _Page | str:
        """The page, or the address it redirects to."""
        if reply.status_code in _REDIRECTIONS and "location" in reply.headers:
            return str(reply.headers["location"])
        body, cut = bytearray(), False
        for chunk in reply.iter_bytes():
            if stopped():
                raise Refused("The fetch was stopped.")
            if time.monotonic() > deadline:
                raise Refused(
                    f"{wanted.url} took longer than {self._seconds:g} s; the fetch was abandoned."
                )
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
    lines = [page.url if page.status == 200 else f"{page.url} returned status {page.status}."]
    if page.kind and not page.kind.startswith("text/") and not page.kind.endswith(_TEXTUAL):
        return f"{lines[0]}\n{page.kind}, {len(page.body):,} bytes: not text, so it is not shown."
    try:
        words = page.body.decode(page.charset, errors="replace")
    except LookupError:
        words = page.body.decode(errors="replace")
    if page.kind in ("text/html", "application/xhtml+xml") or (
        not page.kind and "<html" in words[:2_000].lower()
    ):
        title, words = page_text(words)
        lines += [f"Title: {title}"] if title else []
    if page.cut or len(words) > MOST_CHARACTERS:
        words = f"{words[:MOST_CHARACTERS]}\n(The page continues; only its beginning is shown.)"
    return "\n".join([*lines, "", words.strip() or "(nothing to read)"])


# -- addresses -------------------------------------------------------------------------------------


class WebAddress(Struct, frozen=True):
    """An address taken apart."""

    url: str
    host: str
    port: int
    secure: bool
    path: str
    """With the query."""

    @property
    def authority(self) -> str:
        """Host and port as a request names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def parse_address(address: str) -> WebAddress:
    """Take an http or https address apart; raises `InputError` for anything that could be read in two ways."""
    if any(sign <= " " or sign in "\\\x7f" for sign in address):
        raise InputError(
            f"{address!r} is not a valid address: it contains blanks, control characters or backslashes."
        )
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise InputError(f"{address!r} is not a valid address: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            f"{address!r} cannot be fetched: give an address that begins with http:// or https://."
        )
    if "@" in parts.netloc:
        raise InputError(f"{address!r} contains a user name, which is not sent; leave it out.")
    host = (parts.hostname or "").rstrip(".")
    try:
        if not _is_machine(host):
            host = host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise InputError(f"{host!r} is not a valid host name.") from None
    secure = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    made = WebAddress("", host, port or (443 if secure else 80), secure, path)
    return replace(made, url=f"{parts.scheme}://{made.authority}{path}")


def public_machine(wanted: WebAddress, resolve: Resolve, allowed: Callable[[str], bool]) -> str:
    """The machine address to connect to.

    Raises `Refused` if any machine behind the name is not on the public internet, unless ``allowed(host)``.
    """
    machines = [wanted.host] if _is_machine(wanted.host) else resolve(wanted.host, wanted.port)
    if not machines:
        raise Refused(f"There is no host {wanted.host}; check the address.")
    if not allowed(wanted.host):
        for one in machines:
            if not is_public(one):
                raise Refused(f"{wanted.host} resolves to {one}, which is not public; not fetched.")
    return machines[0]


def is_public(address: str) -> bool:
    """Whether anyone on the internet could reach this machine; an address that holds another is judged by both."""
    try:
        one = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(one, ipaddress.IPv6Address):
        held = [one.ipv4_mapped, one.sixtofour, *(one.teredo or ())]
        if one in ipaddress.ip_network("64:ff9b::/96"):
            held.append(ipaddress.IPv4Address(int(one) & 0xFFFFFFFF))
        if any(inner is not None and not inner.is_global for inner in held):
            return False
    return one.is_global and not one.is_multicast and not one.is_reserved


def _is_machine(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# -- pages -----------------------------------------------------------------------------------------


def page_text(html: str) -> tuple[str, str]:
    """The title of a page and its text: headings, lists, links, tables and code, without mere decoration."""
    reader = _PageReader()
    reader.feed(html)
    reader.close()
    return _BLANKS.sub(" ", "".join(reader.title)).strip(), _MANY_ENDS.sub(
        "\n\n", "".join(reader.text)
    ).strip()


class _PageReader(HTMLParser):
    """Collects the text of a page, however broken its HTML is."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.title: list[str] = []
        self._skipping: list[str] = []
        self._preformatted = 0
        self._in_title = False
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "title":
            self._in_title = True
        if tag in _SKIPPED:
            self._skipping.append(tag)
        if self._skipping:
            return
        if tag in _BLOCKS:
            self._new_line(2 if tag in _HEADINGS or tag in ("p", "pre", "table") else 1)
        if tag in _HEADINGS:
            self.text.append(_HEADINGS[tag])
        elif tag == "li":
            self.text.append("- ")
        elif tag == "br":
            self.text.append("\n")
        elif tag in ("td", "th"):
            self.text.append(" | ")
        elif tag == "pre":
            self._preformatted += 1
            self.text.append("```\n")
        elif tag == "code" and not self._preformatted:
            self.text.append("`")
        elif tag == "img" and given.get("alt"):
            self.text.append(f"[image: {given['alt']}]")
        elif tag == "a":
            self._links.append((given.get("href") or "", len(self.text)))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if tag in self._skipping:
            while self._skipping.pop() != tag:
                pass
            return
        if self._skipping or tag in _VOID:
            return
        if tag == "pre" and self._preformatted:
            self._preformatted -= 1
            self.text.append("\n```")
        elif tag == "code" and not self._preformatted:
            self.text.append("`")
        elif tag == "a" and self._links:
            self._end_link()
        if tag in _BLOCKS:
            self._new_line(2 if tag in _HEADINGS or tag in ("p", "pre", "table") else 1)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._skipping:
            words = data if self._preformatted else _BLANKS.sub(" ", data)
            if words == " " and self.text and self.text[-1].endswith(("\n", " ")):
                return
            self.text.append(words)

    def _end_link(self) -> None:
        """Show a link with where it leads, unless that says nothing."""
        href, start = self._links.pop()
        words = "".join(self.text[start:]).strip()
        if words and href.startswith(("http://", "https://", "/")) and "\n" not in words:
            del self.text[start:]
            self.text.append(f"[{words}]({href})")

    def _new_line(self, number: int) -> None:
        if self.text and not self.text[-1].endswith("\n" * number):
            self.text.append("\n" * number)
