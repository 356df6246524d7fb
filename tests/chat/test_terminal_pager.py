"""The pager in a real terminal: whole results and the whole transcript, with its search."""

from __future__ import annotations

import pytest

from .stage import simulated
from .terminal import Terminal

pytestmark = [
    pytest.mark.skipif("sys.platform == 'win32'"),
    pytest.mark.skipif("not __import__('shutil').which('less')", reason="there is no less"),
]


@pytest.mark.spec("S13.5")
def test_a_long_result_and_the_transcript_open_in_the_pager_where_they_can_be_searched(place):
    with (
        simulated() as (url, _),
        Terminal("--mode", "autonomous", **place, url=url, PAGER="less", SEVENFOLD_NOTES="false") as app,
    ):
        app.ready().say("first").until("You said: first").ready()
        app.say("many").until("✓ Shell seq 1 9000").until("Done.").ready()
        app.say("/show").until("command: seq 1 9000")
        app.type("/^ *900 *$\r").until("901")
        app.type("q").ready()
        app.say("/transcript").until("## user")
        app.type("/What I found\r").until("What I found")
        app.type("q").ready().say("go on").until("You said: go on").ready().press("ctrl-d")
        assert app.ended() == 0


def test_what_fits_on_the_screen_is_printed(place):
    with simulated() as (url, _), Terminal(**place, url=url, PAGER="less") as app:
        app.ready().say("read").until("✓ Read a.txt").ready()
        app.say("/show").until("path: a.txt").ready().press("ctrl-d")
        assert app.ended() == 0
