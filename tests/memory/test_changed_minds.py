"""What the user takes back no longer counts, by the user's own words alone, and can be brought back (S18.7–S18.12)."""

from __future__ import annotations

from datetime import date

import pytest

from bench import remembering
from sevenfold.clock import ManualClock
from sevenfold.layers.remember.look import Look, read_facts
from sevenfold.layers.remember.policy import outcome
from sevenfold.memory.admission import admit
from sevenfold.memory.annotation import annotated
from sevenfold.memory.consolidation import Proposal, dream
from sevenfold.memory.dates import absolute_dates, checked_dates
from sevenfold.memory.entry import new_entry
from sevenfold.memory.generation import Provenance, digest
from sevenfold.memory.memory import EntryEdit, Memory
from sevenfold.memory.quotation import nearest
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import Witness
from sevenfold.memory.words import shortens
from sevenfold.stores.folder import MemoryFolder

TODAY = date(2026, 11, 18)
NOW = 1_795_000_000.0
TABS, SPACES = "Always use tabs in Makefiles.", "Actually no, two spaces from now on."


def memory() -> Memory:
    return Memory(MemoryFolder(), ManualClock(NOW), TODAY.isoformat)


def said(*messages: str, **more) -> Witness:
    records = {f"u{number}": words for number, words in enumerate(messages, 1)}
    days = dict.fromkeys(records, TODAY)
    times = {record: NOW + place for place, record in enumerate(records)}
    return Witness(records, days=days, times=times, session="s", **{"only_users_words": True} | more)


def valid(held: Memory) -> list[str]:
    return [known.entry.statement for known in held.entries() if not known.entry.has_expired(held.today())]


@pytest.mark.spec("S18.7", "S5.10")
@pytest.mark.parametrize("named", ["always-use-tabs-in-makefiles", "always use tabs in makefiles"])
@pytest.mark.parametrize("later", [SPACES, "Vergiss das mit den Tabs bitte.", "制表符那件事不要再提了。"])
def test_a_later_statement_closes_the_earlier_one_that_the_model_names_in_any_language(named, later):
    held = memory()
    admit(held, [LastingFact((TABS,))], said(TABS), NOW)
    (done,) = admit(held, [LastingFact((later,), replaces=(named,))], said(TABS, later), NOW)
    (closing,) = done.closed
    assert valid(held) == [later]
    assert TABS not in held.index()
    assert (closing.earlier, closing.later) == (TABS, later)
    held.undo(closing.change)
    assert set(valid(held)) == {TABS, later}


@pytest.mark.spec("S18.7")
def test_forgetting_states_nothing_and_what_was_never_stored_is_kept_as_closed():
    held, wish = memory(), "Please forget that about the tabs."
    (done,) = admit(held, [LastingFact((wish,), replaces=(TABS,), lifts_only=True)], said(TABS, wish), NOW)
    assert valid(held) == []
    held.undo(done.closed[0].change)
    assert valid(held) == [TABS]


@pytest.mark.spec("S18.8")
@pytest.mark.parametrize(
    "why", ["pinned", "seen before", "said before it", "a typo", "not the user's words", "unconfirmed"]
)
def test_nothing_else_closes_what_the_user_said(why):
    held = memory()
    first = said(SPACES, TABS) if why == "said before it" else said(TABS)
    if why == "unconfirmed":
        admit(held, [LastingFact((), note=TABS)], said(TABS), NOW)
    else:
        admit(held, [LastingFact((TABS,))], first, NOW)
    if why == "pinned":
        held.pin("always-use-tabs-in-makefiles")
    before = valid(held)
    words = {"a typo": "Actualy no, two spaces from now on.", "not the user's words": "Use two spaces."}
    seen = {"seen before": said(TABS, SPACES, unread=frozenset({"u9"})), "said before it": first}
    fact = LastingFact(
        (words.get(why, SPACES),), replaces=("always-use-tabs-in-makefiles",), lifts_only=True
    )
    (done,) = admit(held, [fact], seen.get(why, said(TABS, SPACES)), NOW)
    assert [closing.change for closing in done.closed] == [0]
    assert done.closed[0].refused
    assert valid(held) == before


@pytest.mark.spec("S18.8")
@pytest.mark.parametrize(("later", "left"), [("Forget that.", 1), ("No tabs and no freeze any more.", 0)])
def test_one_statement_ends_one_other_unless_its_words_name_several(later, left):
    held, freeze = memory(), "The freeze ends with the audit."
    admit(held, [LastingFact((TABS,)), LastingFact((freeze,))], said(TABS, freeze), NOW)
    fact = LastingFact((later,), replaces=(TABS, freeze), lifts_only=True)
    admit(held, [fact], said(TABS, freeze, later), NOW)
    assert len(valid(held)) == left


@pytest.mark.spec("S18.9")
@pytest.mark.parametrize(
    "quotation",
    [
        "never - really - use a + b in c++",
        "Never - really - use a + b in C++; the 15. of May is the limit",
        "“Never - really - use a + b … the 15. of May is the limit.”",
        "the 15. of May is the limmit",
    ],
)
def test_a_sloppy_quotation_leads_to_the_users_whole_statement(quotation):
    message = "Hello.\nNever - really - use a + b in C++; the 15. of May is the limit. Thanks."
    match = nearest(message, quotation)
    assert match is not None
    assert match.text == "Never - really - use a + b in C++; the 15. of May is the limit."


@pytest.mark.spec("S18.9")
@pytest.mark.parametrize(
    "quotation",
    [
        "please install the plugin",
        "uninstall the plugins twice",
        "the user wants the plugin gone",
        "keep 31 backups",
        "do now push",
    ],
)
def test_what_the_user_did_not_say_is_no_quotation(quotation):
    assert nearest("Please uninstall the plugin. Keep 30 backups. Do not push.", quotation) is None


@pytest.mark.spec("S18.10")
def test_days_are_written_down_as_dates_in_four_languages_and_a_models_date_is_checked():
    for words, day in {
        "The release is on Friday.": "2026-11-20",
        "Das Release ist am Freitag.": "2026-11-20",
        "La livraison est vendredi.": "2026-11-20",
        "发布会在周五。": "2026-11-20",
        "Bis morgen fertig machen.": "2026-11-19",
    }.items():
        assert list(absolute_dates(words, TODAY).values()) == [day], words
    for words in ("We met on Friday.", "We deploy on Fridays.", "Guten Morgen!", "每周五部署。"):
        assert absolute_dates(words, TODAY) == {}, words
    words = "Send it next Friday."
    assert checked_dates(words, [("next Friday", "2026-11-27")], TODAY) == {"next Friday": "2026-11-27"}
    for phrase, day in (("next Friday", "2026-11-26"), ("next Monday", "2026-11-23"), ("next Friday", "x")):
        assert checked_dates(words, [(phrase, day)], TODAY) == {}


@pytest.mark.spec("S18.10")
@pytest.mark.parametrize(
    ("words", "until", "kept"),
    [
        ("Use staging until 2026-12-31.", "2026-12-31", "2026-12-31"),
        ("Bis zum 31. Dezember nur Staging.", "2026-12-31", "2026-12-31"),
        ("Always use staging.", "2026-12-31", ""),
        ("The audit was on 2025-01-31, keep its files.", "2025-01-31", ""),
        ("Always use staging.", "2020-01-01", ""),
        ("Always use staging.", "2026-99-99", ""),
    ],
)
def test_only_the_users_own_words_say_until_when_something_holds(words, until, kept):
    held = memory()
    admit(held, [LastingFact((words,), until=until)], said(words), NOW)
    (known,) = held.entries()
    assert known.entry.until == kept


@pytest.mark.spec("S18.11")
def test_an_answer_is_read_in_one_pass_and_one_odd_fact_takes_no_other_with_it():
    odd = '<fact type="x" until="soon"><quote>' + "<fact>" * 50_000
    good = "<fact><quote>Always use tabs in Makefiles.</quote></fact>"
    facts = read_facts(f"{good}{odd}{good}")
    assert facts is not None
    assert facts[0].quotations == (TABS,)
    held = memory()
    results = admit(
        held, [LastingFact(("\ud800" * 9,)), LastingFact((TABS,)), LastingFact(())], said(TABS), NOW
    )
    assert TABS in valid(held)
    assert results[2].refused


@pytest.mark.spec("S18.11")
def test_a_model_names_messages_by_number_and_entries_by_handle():
    held = memory()
    admit(held, [LastingFact((TABS,))], said(TABS), NOW)
    look = Look.at({"u7": "Hi.", "u8": SPACES}, {"u8": TODAY}, {}, held.entries(), held.today())
    shown = look.instruction(in_view=False).render()
    assert 'm1: "Always use tabs in Makefiles."' in shown
    assert "[2] Wednesday 2026-11-18" in shown
    (fact,) = look.read(
        f'<forget message="2"><quote>{SPACES}</quote><replaces>[m1]</replaces></forget>'
    ) or [LastingFact(())]
    assert (fact.message, fact.replaces, fact.lifts_only) == (
        "u8",
        ("always-use-tabs-in-makefiles.md",),
        True,
    )


@pytest.mark.spec("S18.11")
def test_what_is_remembered_says_where_it_is_unconfirmed():
    done = admit(
        memory(),
        [LastingFact((TABS,)), LastingFact((), note="Push at night.")],
        said(TABS, least_trusted="web"),
        NOW,
    )
    assert outcome(done) == (
        "remembered: always-use-tabs-in-makefiles, push-at-night (unconfirmed: from web, not your words)"
    )


@pytest.mark.spec("S18.12", "S5.1")
def test_of_five_hundred_entries_the_index_loses_none_of_the_rules():
    held = memory()
    edits = {}
    rules = [
        f"Never deploy part {number} without the signature of its keeper, not even at night."
        for number in range(150)
    ]
    facts = [f"A depot for part {number} lies north of the old canal bridge." for number in range(350)]
    for place, words in enumerate((*facts, *rules)):
        entry = new_entry(f"entry-{place}", "project", words, words)
        stamp = Provenance(digest(entry.render()), "user", created=NOW - place, verified=NOW - place)
        edits[entry.file] = EntryEdit(entry.render(), stamp)
    held.commit(edits, "user", "many")
    index = held.index()
    assert all(f"Never deploy part {number} " in index for number in range(150))
    assert ".md" not in index
    assert "(2026-11-1" in index
    assert len(index.splitlines()) <= 200
    assert len(index.encode()) <= 25_000
    held.count_use("entry-349.md", helped=True)
    assert "part 349 lies" in held.index()


@pytest.mark.spec("S18.12")
def test_a_dream_writes_down_dates_and_what_is_gone_and_touches_no_word_of_the_user():
    held = memory()
    words = "The release of `docs/old.md` is on Friday."
    admit(held, [LastingFact((words,))], said(words), NOW)
    long = f"Never push to the main branch on a weekend, {'not even for a very small and harmless change, ' * 4}ever."
    admit(held, [LastingFact((long,))], said(long), NOW)
    name = next(known.entry.file for known in held.entries() if known.entry.statement == long)
    short = (name, "Never push to the main branch on a weekend, … ever.")
    wrong = (name, "push to the main branch on a weekend")
    made = dream(held, Proposal(short=(wrong, short)), there=lambda claim: claim != "docs/old.md")
    assert made.done
    assert {known.entry.statement for known in held.entries()} == {words, long}
    assert "gone: docs/old.md" in held.index()
    assert "on Friday is 2026-11-20" in held.index()
    assert dream(held, there=lambda claim: claim != "docs/old.md").edits == {}


@pytest.mark.spec("S18.12")
def test_a_shorter_line_leaves_out_nothing_that_denies_or_counts_and_marks_every_gap():
    statement = "Never push on Fridays, whatever Ben says, unless 2 keepers agree."
    assert shortens("Never push on Fridays, … unless 2 keepers agree.", statement)
    for wrong in (
        "push on Fridays",
        "Never push on Fridays unless 2 keepers agree.",
        "Never push on Fridays, …",
        "x",
    ):
        assert not shortens(wrong, statement), wrong


@pytest.mark.spec("S18.12")
def test_a_merge_needs_more_than_a_topic_and_the_index_shows_both_statements():
    held = memory()
    topics = ("The harbour office opens at dawn.", "The harbour master hates noise.")
    twins = (
        "Gate sensors report every half minute by radio.",
        "Every half minute gate sensors report, and by radio.",
    )
    facts = [LastingFact((words,)) for words in (*topics, *twins)]
    admit(held, facts, said(*topics, *twins), NOW)
    files = [known.entry.file for known in held.entries()]
    dream(held, Proposal(same=(tuple(files),)))
    assert {words for words in topics if words in held.index()} == set(topics)


@pytest.mark.spec("S18.12")
def test_nothing_is_added_to_pinned_or_unconfirmed_entries():
    held = memory()
    admit(held, [LastingFact((), note="See docs/old.md on Friday.")], said("Hi."), NOW)
    (known,) = held.entries()
    assert annotated(known, there=lambda claim: False) is None


@pytest.mark.spec("S18.4")
@pytest.mark.parametrize("kind", [remembering.PerfectModel, remembering.SloppyModel])
def test_a_sample_of_the_labelled_conversations_is_kept_and_nothing_else(kind):
    total = remembering.Score()
    for found in remembering.measure(kind, sample=9).values():
        total = total.plus(found)
    assert total.wanted >= 5
    assert remembering.share(total.kept, total.wanted) >= remembering.KEPT
    assert total.changed == total.undone == total.changes


@pytest.mark.spec("S19.20")
def test_a_look_that_saw_text_of_others_ends_nothing():
    held = memory()
    admit(held, [LastingFact((TABS,))], said(TABS), NOW)
    fact = LastingFact((SPACES,), replaces=(TABS,))
    (done,) = admit(held, [fact], said(TABS, SPACES, only_users_words=False), NOW)
    assert [(closing.change, bool(closing.refused)) for closing in done.closed] == [(0, True)]
    assert set(valid(held)) == {TABS, SPACES}


@pytest.mark.spec("S19.20")
def test_one_statement_ends_one_other_however_many_facts_name_it():
    held, freeze, later = memory(), "The freeze ends with the audit.", "Forget that."
    admit(held, [LastingFact((TABS,)), LastingFact((freeze,))], said(TABS, freeze), NOW)
    facts = [LastingFact((later,), replaces=(named,), lifts_only=True) for named in (TABS, freeze)]
    admit(held, facts, said(TABS, freeze, later), NOW)
    assert len(valid(held)) == 1
