"""WebFetch: fetches a page from the internet as text, within limits of time and size.

Only public addresses are fetched. A host name can resolve to anything, so all its IP addresses are checked, and the
connection uses one that was checked: if the name resolves differently a moment later, that changes nothing. Each
redirect is checked like a new address. A redirect to another host, or to an address that the permission rules do not
allow, is reported instead of followed: permission was given only for the first address.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.interrupt import LeftBehind, run_interruptibly
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import InputError, Refused
from sevenfold.record.quoting import without_tag_characters

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
_HIDING = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0*\s*(?:;|!|$)"
    r"|font-size\s*:\s*0(?![.\d]*[1-9]))",
    re.IGNORECASE,
)
"""Styles with which a part of a page is not shown."""
_DECORATION = "script, style, noscript, template, svg, canvas, iframe, object, video, audio, select, button"

Resolve = Callable[[str, int], list[str]]
"""Resolves a host and a port to IP addresses."""


def system_resolve(host: str, port: int) -> list[str]:
    """Resolve a host name to IP addresses with the system's resolver; raises `Refused` if it is not found."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Refused(f"The host {host} was not found ({error}); check the address.") from error
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


class FetchInput(Struct, forbid_unknown_fields=True):
    """What to fetch.

    Args:
        url: The address, with http:// or https://.
    """

    url: str


class _Page(Struct, frozen=True):
    url: str
    status: int
    kind: str
    body: bytes
    charset: str
    cut: bool


class WebFetchTool(StandardTool[FetchInput]):
    """Fetches a web page."""

    kind = "web"
    concurrent = True

    def __init__(
        self,
        *,
        private: Collection[str] = (),
        resolve: Resolve = system_resolve,
        seconds: float = SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """``private`` are hosts that may be fetched although they are not on the public internet."""
        super().__init__()
        self._private = frozenset(host.lower() for host in private)
        self._resolve = resolve
        self._seconds = seconds
        self._most = most_bytes

    def requires(self, arguments: FetchInput, context: Context) -> PermissionRequest:
        """Request permission to fetch the address."""
        return PermissionRequest(self.name, "fetch", parse_address(arguments.url).url)

    def act(self, arguments: FetchInput, context: Context) -> ToolOutput:
        """Fetch the page, following redirects on the same host."""
        httpx2 = _client_library()
        address = parse_address(context.permitted.subject if context.permitted else arguments.url)
        deadline = time.monotonic() + self._seconds
        client = httpx2.Client(trust_env=False, timeout=min(10.0, self._seconds))

        def over() -> bool:
            return context.abort.is_set() or time.monotonic() > deadline

        try:
            # In a thread, because a server that sends a byte now and then resets the connection's own timeouts.
            return run_interruptibly(partial(self._followed, client, address, over, context), over, 0.0)
        except LeftBehind:
            reason = "was stopped" if context.abort.is_set() else f"took longer than {self._seconds:g} s"
            raise Refused(f"The fetch of {address.url} {reason}.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise Refused(
                f"{address.url} could not be fetched: {error or type(error).__name__}."
            ) from error
        finally:
            client.close()

    def _followed(
        self, client: httpx2.Client, address: WebAddress, is_over: Callable[[], bool], context: Context
    ) -> ToolOutput:
        first = address.url
        for _ in range(MOST_REDIRECTIONS + 1):
            reply = self._ask(client, address, is_over)
            if isinstance(reply, _Page):
                return ToolOutput(_shown(reply), is_error=reply.status >= 400)
            target = parse_address(urljoin(address.url, reply))
            leaves_host = target.host != address.host or (address.secure and not target.secure)
            if leaves_host or not context.may_follow(first, target.url):
                destination = "another host" if leaves_host else "an address that was not permitted"
                return ToolOutput(
                    f"{address.url} redirects to {destination}; fetch {target.url} if you want that."
                )
            address = target
        raise Refused(f"{first} redirects more than {MOST_REDIRECTIONS} times; not fetched.")

    def _ask(self, client: httpx2.Client, address: WebAddress, is_over: Callable[[], bool]) -> _Page | str:
        """Request one address; returns the page, or the address it redirects to."""
        ip_address = checked_ip_address(address, self._resolve, self._private.__contains__)
        host = f"[{ip_address}]" if ":" in ip_address else ip_address
        url = f"{'https' if address.secure else 'http'}://{host}:{address.port}{address.path}"
        headers = {
            "Host": address.authority,
            "User-Agent": _USER_AGENT,
            "Accept": _ACCEPT,
            "Accept-Encoding": "identity",
        }
        with client.stream("GET", url, headers=headers, extensions={"sni_hostname": address.host}) as reply:
            if reply.status_code in _REDIRECTIONS and "location" in reply.headers:
                return str(reply.headers["location"])
            body = bytearray()
            for chunk in reply.iter_bytes():
                if is_over():
                    raise LeftBehind
                body += chunk
                if len(body) > self._most:
                    break
            kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
            charset = reply.charset_encoding or "utf-8"
            cut = len(body) > self._most
            return _Page(address.url, reply.status_code, kind, bytes(body[: self._most]), charset, cut)


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
        text = page.body.decode(page.charset, errors="replace")
    except LookupError:
        text = page.body.decode(errors="replace")
    if page.kind in ("text/html", "application/xhtml+xml") or (
        not page.kind and "<html" in text[:2_000].lower()
    ):
        title, text = page_text(text)
        lines += [f"Title: {title}"] if title else []
    text, invisible = without_tag_characters(text)
    if invisible:
        lines.append(f"({invisible:,} invisible characters were taken out of this page.)")
    if page.cut or len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}\n(The page continues; only its beginning is shown.)"
    return "\n".join([*lines, "", text.strip() or "(nothing to read)"])


# -- addresses -------------------------------------------------------------------------------------


class WebAddress(Struct, frozen=True):
    """A parsed URL."""

    url: str
    host: str
    port: int
    secure: bool
    path: str
    """The path, including the query."""

    @property
    def authority(self) -> str:
        """Host and port in the form of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def parse_address(url: str) -> WebAddress:
    """Parse an http or https URL; raises `InputError` if it is invalid or ambiguous."""
    if any(character <= " " or character in "\\\x7f" for character in url):
        raise InputError(
            f"{url!r} is not a valid address: it contains blanks, control characters or backslashes."
        )
    try:
        url_parts = urlsplit(url)
        port = url_parts.port
    except ValueError as error:
        raise InputError(f"{url!r} is not a valid address: {error}.") from None
    if url_parts.scheme not in ("http", "https") or not url_parts.hostname:
        raise InputError(
            f"{url!r} cannot be fetched: give an address that begins with http:// or https://."
        )
    if "@" in url_parts.netloc:
        raise InputError(f"{url!r} contains a user name, which is not sent; leave it out.")
    host = (url_parts.hostname or "").rstrip(".")
    try:
        if not _is_ip_address(host):
            host = host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise InputError(f"{host!r} is not a valid host name.") from None
    secure = url_parts.scheme == "https"
    path = (url_parts.path or "/") + (f"?{url_parts.query}" if url_parts.query else "")
    address = WebAddress("", host, port or (443 if secure else 80), secure, path)
    return replace(address, url=f"{url_parts.scheme}://{address.authority}{path}")


def checked_ip_address(address: WebAddress, resolve: Resolve, allowed: Callable[[str], bool]) -> str:
    """The IP address to connect to.

    Raises `Refused` if any IP address of the host is not public, unless ``allowed(host)``.
    """
    addresses = [address.host] if _is_ip_address(address.host) else resolve(address.host, address.port)
    if not addresses:
        raise Refused(f"There is no host {address.host}; check the address.")
    if not allowed(address.host):
        for ip_address in addresses:
            if not is_public(ip_address):
                raise Refused(f"{address.host} resolves to {ip_address}, which is not public; not fetched.")
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an IP address is public; if it embeds an IPv4 address, both must be."""
    try:
        ip_address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip_address, ipaddress.IPv6Address):
        embedded = [ip_address.ipv4_mapped, ip_address.sixtofour, *(ip_address.teredo or ())]
        if ip_address in ipaddress.ip_network("64:ff9b::/96"):
            embedded.append(ipaddress.IPv4Address(int(ip_address) & 0xFFFFFFFF))
        if any(inner is not None and not inner.is_global for inner in embedded):
            return False
    return ip_address.is_global and not ip_address.is_multicast and not ip_address.is_reserved


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# -- pages -----------------------------------------------------------------------------------------


def _is_hidden(attributes: Mapping[str, object]) -> bool:
    """Whether a part of a page says itself that readers do not see it."""
    return "hidden" in attributes or bool(_HIDING.search(str(attributes.get("style", ""))))


def page_text(html: str) -> tuple[str, str]:
    """The title of a page and its text as Markdown: headings, lists, links, tables and code, without decoration."""
    try:
        import turbohtml
    except ImportError:
        raise Refused("Pages need turbohtml: install the extra, pip install 'sevenfold[agent]'.") from None
    page = turbohtml.parse(html, positions=False)
    style = turbohtml.Markdown
    styled = page.select("[hidden], [style]")
    hidden = [element for element in styled if _is_hidden(element.attrs) and element.text.strip()]
    for element in hidden:
        element.decompose()
    title = page.find("title")
    markdown = page.remove(_DECORATION).to_markdown(
        style(
            inline=style.Inline(ignore_emphasis=True),
            images=style.Images(mode="alt"),
            escaping=style.Escaping(mode="none", asterisks=False, underscores=False),
        )
    )
    if hidden:
        markdown += (
            f"\n\n({len(hidden):,} parts of this page are hidden from its readers, and left out here.)"
        )
    return " ".join(title.text.split()) if title else "", markdown
