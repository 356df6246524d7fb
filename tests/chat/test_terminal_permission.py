"""Questions for permission in a real terminal: what is shown, where, and how long an answer holds."""

from __future__ import annotations

import msgspec
import pytest

from .stage import simulated
from .terminal import Terminal

pytestmark = pytest.mark.skipif("sys.platform == 'win32'")


@pytest.mark.spec("S13.2")
def test_a_change_is_shown_under_its_own_call_and_no_clock_runs_while_the_user_decides(place):
    with simulated() as (url, _), Terminal(**place, url=url, SEVENFOLD_NOTES="false") as app:
        app.ready().say("read fix").until("Change a.txt?")
        lines = [line.strip() for line in app.everything.splitlines()]
        read = next(place for place, line in enumerate(lines) if line.startswith("✓ Read a.txt"))
        asked = lines.index("? Edit a.txt")
        assert read < asked < lines.index("1 -hello") < lines.index("1 +goodbye")
        assert "working" not in app.shown
        app.type("y").until("✓ Edit a.txt · +1 -1").ready()
        assert app.everything.count("+goodbye") == 1
        assert (place["folder"] / "a.txt").read_text() == "goodbye\n"


@pytest.mark.spec("S13.2")
def test_a_change_that_cannot_be_made_is_answered_without_asking_the_user(place):
    with simulated() as (url, simulator), Terminal(**place, url=url, SEVENFOLD_NOTES="false") as app:
        app.ready().say("read miss").until("old does not occur in").ready()
        assert "Change" not in app.everything
        assert "never there" not in app.everything
        results = simulator.requests.answered()[-1].body["messages"][-1]["content"]
        assert "old does not occur" in msgspec.json.encode(results).decode()


@pytest.mark.spec("S13.2")
def test_escape_at_a_question_for_permission_interrupts_the_turn(place):
    with simulated() as (url, simulator), Terminal(**place, url=url, SEVENFOLD_NOTES="false") as app:
        app.ready().say("run").until("Run this command?")
        app.until("Enter chooses, Esc interrupts")
        asked = len(simulator.requests)
        app.press("esc").until("interrupted").ready()
        assert len(simulator.requests) == asked
        assert not (place["folder"] / "ran.txt").exists()
        app.say("still there").until("still there").ready()


@pytest.mark.spec("S13.2")
def test_a_denied_call_is_shown_as_denied(place):
    with simulated() as (url, _), Terminal(**place, url=url, SEVENFOLD_NOTES="false") as app:
        app.ready().say("run").until("Run this command?").type("n").until("Esc goes back").say("not now")
        app.until("⊘ Shell echo ran").until("denied").ready()
        assert "failed" not in app.everything


@pytest.mark.spec("S13.2")
def test_an_answer_for_good_holds_in_the_next_session_until_it_is_revoked(place):
    with simulated() as (url, _):
        with Terminal(**place, url=url, SEVENFOLD_NOTES="false") as app:
            app.ready().say("write").until("never ask again in this folder").type("f")
            app.until("✓ Write new.txt").ready().press("ctrl-d")
            assert app.ended() == 0
        (place["folder"] / "new.txt").unlink()
        with Terminal(**place, url=url, SEVENFOLD_NOTES="false") as app:
            app.ready().say("write").until("✓ Write new.txt").ready()
            assert "never ask again" not in app.everything
            app.say("/permissions").until("for good, in")
            kept = msgspec.json.decode((place["home"] / "permissions.json").read_bytes())
            [rule] = kept[str(place["folder"])]
            app.say(f"/permissions revoke {rule}").ready()
            (place["folder"] / "new.txt").unlink()
            app.say("write").until("never ask again in this folder")
