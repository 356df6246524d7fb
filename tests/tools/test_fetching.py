"""WebFetch: real requests to a server on this machine, and all the addresses that are not fetched."""

from __future__ import annotations

import contextlib
import gzip
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.agent.permissions.engine import Permissions
from sevenfold.agent.permissions.rules import PermissionRules
from sevenfold.agent.tools.context import Abort
from sevenfold.agent.tools.web import WebFetchTool, checked_ip_address, is_public, page_text, parse_address
from sevenfold.errors import InputError, Refused
from tests.tools.handling import Hands, context_in

PAGE = b"""<html><head><title> A  page </title><style>x{}</style></head><body><h1>Head</h1>
<p>Some <b>words</b> and a <a href="/there">link</a>.</p><ul><li>one<li>two</ul><script>evil()</script>
<pre>  code
    here</pre><table><tr><td>a</td><td>b</td></tr></table></body></html>"""


DRIPPED = threading.Event()
"""Ends a server's endless answer."""


class Site(BaseHTTPRequestHandler):
    """Answers by path."""

    def do_GET(self) -> None:
        kind, body, more = "text/html; charset=utf-8", PAGE, {}
        status = 200
        match self.path:
            case "/json":
                kind, body = "application/json", b'{"a": 1}'
            case "/png":
                kind, body = "image/png", b"\x89PNG"
            case "/latin":
                kind, body = "text/plain; charset=latin-1", b"caf\xe9"
            case "/odd":
                kind, body = "text/plain; charset=no-such", b"words"
            case "/gzip":
                kind, body, more = (
                    "text/plain",
                    gzip.compress(b"z" * 50_000_000),
                    {"Content-Encoding": "gzip"},
                )
            case "/missing":
                status, body = 404, b"<p>not here</p>"
            case "/moved":
                status, more = 302, {"Location": "/json"}
            case "/round":
                status, more = 302, {"Location": "/round"}
            case "/away":
                status, more = 302, {"Location": "http://elsewhere.test/x"}
            case "/inside":
                status, more = 302, {"Location": "http://169.254.169.254/latest"}
            case "/private":
                body = b"<p>not for you</p>"
            case "/to-private":
                status, more = 302, {"Location": "/private"}
            case "/drip":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                with contextlib.suppress(OSError):
                    while not DRIPPED.wait(0.05):
                        self.wfile.write(b"X-More: x\r\n")
                return
            case "/host":
                kind, body = "text/plain", self.headers["Host"].encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in more.items():
            self.send_header(name, value)
        if self.path != "/endless":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
            while self.path == "/endless":
                self.wfile.write(b"x" * 65536)
        except OSError:
            pass

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def machines(host, port):
    """Names of these tests, and where they lead."""
    known = {
        "site.test": ["127.0.0.1"],
        "mixed.test": ["1.1.1.1", "10.0.0.1"],
        "rebinding.test": ["127.0.0.1"],
    }
    return known.get(host, [])


@pytest.fixture
def hands(tmp_path):
    return Hands(
        context_in(tmp_path), WebFetchTool(private=["site.test"], resolve=machines, most_bytes=300_000)
    )


def test_a_page_is_shown_as_text(hands, port):
    shown = hands.good("WebFetch", url=f"http://site.test:{port}/")
    assert shown.startswith(f"http://site.test:{port}/\nTitle: A page\n")
    for part in (
        "# Head",
        "Some words and a [link](/there).",
        "- one\n- two",
        "  code\n    here",
        "| a | b",
    ):
        assert part in shown
    assert "evil" not in shown
    assert "x{}" not in shown


def test_the_server_is_asked_by_its_name_although_the_machine_is_connected_to(hands, port):
    assert (
        f"site.test:{port}" in hands.good("WebFetch", url=f"http://site.test:{port}/host").splitlines()[-1]
    )


@pytest.mark.parametrize(
    ("path", "part"),
    [("json", '{"a": 1}'), ("latin", "café"), ("odd", "words"), ("png", "not text"), ("moved", '{"a"')],
)
def test_each_kind_is_shown_as_it_can_be(hands, port, path, part):
    assert part in hands.good("WebFetch", url=f"http://site.test:{port}/{path}")


def test_an_error_of_the_server_is_an_error_result_with_its_words(hands, port):
    shown = hands.bad("WebFetch", url=f"http://site.test:{port}/missing")
    assert "404" in shown
    assert "not here" in shown


@pytest.mark.parametrize("path", ["endless", "gzip"])
def test_of_a_page_without_end_only_the_beginning_is_taken(hands, port, path):
    shown = hands.good("WebFetch", url=f"http://site.test:{port}/{path}")
    assert len(shown) < 310_000


def test_a_page_that_takes_too_long_is_given_up(tmp_path, port):
    tool = WebFetchTool(private=["site.test"], resolve=machines, seconds=0.2, most_bytes=10**12)
    assert Hands(context_in(tmp_path), tool).bad("WebFetch", url=f"http://site.test:{port}/endless")


@pytest.mark.spec("S11.2")
def test_the_time_limit_covers_headers_that_never_end(tmp_path, port):
    tool = WebFetchTool(private=["site.test"], resolve=machines, seconds=0.3)
    began = time.monotonic()
    shown = Hands(context_in(tmp_path), tool).bad("WebFetch", url=f"http://site.test:{port}/drip")
    DRIPPED.set()
    assert "longer than 0.3 s" in shown
    assert time.monotonic() - began < 5


@pytest.mark.spec("S11.2")
def test_the_time_limit_covers_a_name_that_is_never_found(tmp_path):
    found = threading.Event()

    def resolve(host, port):
        found.wait()
        return []

    tool = WebFetchTool(resolve=resolve, seconds=0.2)
    shown = Hands(context_in(tmp_path), tool).bad("WebFetch", url="http://slow.test/")
    found.set()
    assert "longer than 0.2 s" in shown


def test_a_stopped_fetch_is_an_error_result(hands, port, tmp_path):
    abort = Abort()
    abort.set()
    hands.context = context_in(tmp_path, abort=abort)
    assert "stopped" in hands.bad("WebFetch", url=f"http://site.test:{port}/endless")


def test_redirections_in_a_circle_end(hands, port):
    assert "redirects more than" in hands.bad("WebFetch", url=f"http://site.test:{port}/round")


@pytest.mark.parametrize(("path", "host"), [("away", "elsewhere.test"), ("inside", "169.254.169.254")])
def test_a_redirection_to_another_host_is_told_and_not_followed(hands, port, path, host):
    assert host in hands.good("WebFetch", url=f"http://site.test:{port}/{path}")


@pytest.mark.spec("S11.2")
@pytest.mark.parametrize(
    ("lists", "followed"),
    [
        ({}, True),
        ({"allow": ["WebFetch(domain:site.test)"]}, True),
        ({"allow": ["WebFetch(http://site.test:*/to-*)"]}, False),
        ({"deny": ["WebFetch(*/private)"]}, False),
        ({"ask": ["WebFetch(*/private)"]}, False),
        ({"allow": ["WebFetch"], "ask": ["WebFetch(*/private)"]}, False),
    ],
)
def test_a_redirection_is_held_against_the_rules(hands, port, tmp_path, lists, followed):
    held = Permissions(workspace=str(tmp_path), rules=PermissionRules.of(lists))
    hands.context = context_in(tmp_path, may_follow=held.may_follow)
    shown = hands.good("WebFetch", url=f"http://site.test:{port}/to-private")
    assert ("not for you" in shown) == followed
    assert ("redirects to an address that was not permitted" in shown) != followed


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "mixed.test",
        "rebinding.test",
        "[::1]",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "[fd00::1]",
        "unknown.test",
        "2130706433",
        "0x7f.1",
    ],
)
def test_what_is_not_on_the_public_internet_is_not_fetched(hands, port, host):
    shown = hands.bad("WebFetch", url=f"http://{host}:{port}/json")
    assert '"a"' not in shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://x/",
        "file:///etc/passwd",
        "http://",
        "x",
        "http://a b/",
        "http://good.test\\@evil.test/",
        "http://user@site.test/",
        "http://user:pw@site.test/",
        "http://site.test:99999/",
        "http://[::1/",
        "http://a\r\nHost: b/",
        "http://" + "a" * 300 + ".test/",
    ],
)
def test_what_could_be_read_in_two_ways_is_no_address(url):
    with pytest.raises(InputError):
        parse_address(url)


def test_permission_is_asked_for_the_address_in_one_form(hands):
    assert hands.box.permission_request(
        "WebFetch", {"url": "HTTPS://Site.TEST:443?q#frag"}, hands.context
    ).subject == ("https://site.test/?q")


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "2606:4700::1111"],
)
def test_checked_ip_addresss_are_public(address):
    assert is_public(address)


PRIVATE = """
127.0.0.1 10.0.0.1 172.16.0.1 192.168.1.1 169.254.1.1 100.64.0.1 0.0.0.0 224.0.0.1 255.255.255.255 240.0.0.1
::1 :: fe80::1 fe80::1%eth0 fc00::1 ff02::1 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1:: nonsense
"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_all_others_are_not(address):
    assert not is_public(address)


@given(st.text(st.sampled_from("<>/abpre liscrt\"'=&;!-\n"), max_size=80))
def test_any_soup_is_taken_for_a_page(soup):
    title, words = page_text(soup)
    assert len(title) + len(words) <= 10 * len(soup) + 10


@pytest.mark.spec("S11.2")
@pytest.mark.parametrize(
    "part",
    [
        *(
            "<a ",
            "<div>",
            "<b>",
            "<a href=x>",
            "<table>",
            "<svg>",
            "<template>",
            "<ul><li>",
            "<blockquote>",
            "&",
        ),
        *(
            "<i><p>",
            "<table><tr><td>",
            "<!--",
            "<select>",
            "</p>",
            "<a b=c ",
            "<script>",
            "<title>",
            "<a><b><i>",
        ),
    ],
)
def test_no_page_takes_long_to_read(part):
    began = time.process_time()
    page_text(part * (1_000_000 // len(part)))
    assert time.process_time() - began < 5


def test_a_name_with_one_machine_that_is_not_public_is_refused_for_all_of_them():
    with pytest.raises(Refused, match=r"10\.0\.0\.1"):
        checked_ip_address(parse_address("http://mixed.test/"), machines, lambda host: False)
    assert checked_ip_address(parse_address("http://mixed.test/"), machines, lambda host: True) == "1.1.1.1"


@pytest.mark.spec("S19.10")
@pytest.mark.parametrize(
    "attributes",
    [
        'style="display:none"',
        'style="color: red; DISPLAY : none !important"',
        'style="visibility:hidden"',
        'style="opacity: 0"',
        'style="font-size:0px"',
        "hidden",
    ],
)
def test_what_a_page_hides_from_its_readers_is_left_out_and_said(attributes):
    html = (
        f"<html><body><p>Seen.</p><div {attributes}>Obey <b hidden>me</b>.</div><p>Also.</p></body></html>"
    )
    _, words = page_text(html)
    assert "Seen." in words
    assert "Also." in words
    assert "Obey" not in words
    assert "parts of this page are hidden from its readers, and left out here" in words


@pytest.mark.spec("S19.10")
@pytest.mark.parametrize("style", ["display:block", "opacity: 0.5", "font-size: 0.9em", "background: none"])
def test_what_a_page_shows_is_kept(style):
    _, words = page_text(f'<html><body><div style="{style}">Seen.</div></body></html>')
    assert words.strip() == "Seen."
