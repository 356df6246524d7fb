"""The system prompt: what it is made of, in which order, what may change, and that its bytes never do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import cast, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sevenfold import prompts as prompts_package
from sevenfold.agent import texts as agent_texts
from sevenfold.agent.prompt import Sections, SectionSource, standard
from sevenfold.agent.texts import (
    Budgets,
    Clearing,
    Environment,
    Guidance,
    InstructionFile,
    InstructionProblem,
    Instructions,
    Language,
    LeftOut,
    McpInstructions,
    McpServer,
    MemoryIndex,
    OutputStyle,
    Scratch,
    Skills,
    Today,
)
from sevenfold.errors import InputError
from sevenfold.prompts.context import Changed, Withdrawn
from sevenfold.prompts.text import KB, CutNote, Stage, Static, Text, cut, fill, render, size
from sevenfold.record.blocks import PLACEHOLDER_CLEARED
from sevenfold.request.sections import Section, SystemPrompt, announcement

GOLDEN = Path(__file__).parent / "golden"

ENVIRONMENT = Environment(
    cwd="/srv/shop",
    platform="Linux 6.12 (x86_64)",
    shell="bash",
    model="claude-sonnet-5-5",
)
WITH_GIT = Environment(
    cwd="/srv/shop/api",
    platform="Linux 6.12 (x86_64)",
    git="main...origin/main [ahead 1]",
    changes=" M api/orders.py\n?? notes.txt",
)
INSTRUCTIONS = Instructions.of(
    [
        InstructionFile("/home/ada/.sevenfold/AGENTS.md", "user", "Prefer small commits."),
        InstructionFile("/srv/shop/AGENTS.md", "project", "Run `make check`. See @docs/style.md."),
        InstructionFile(
            "/srv/shop/docs/style.md", "project", "Tabs, not spaces.", parent="/srv/shop/AGENTS.md"
        ),
        InstructionProblem("/srv/shop/old.md", "no such file or directory", parent="/srv/shop/AGENTS.md"),
    ]
)
SERVERS = {"tracker": "Search before you file.", "ledger": "Amounts are in cents."}
INDEX = "\n".join(f"- [Note {n}](note-{n}.md) — what was learnt on day {n}" for n in range(1, 211))
EVERYTHING: tuple[Text | None, ...] = (
    Budgets(tokens=120_000, turns=40, dollars="2.50"),
    Clearing(kept=5),
    Scratch("/tmp/session-7"),
    Skills.of({"release": "Cut a release.\nTag it, then write the notes.", "audit": "Check licences."}),
    McpInstructions.of(SERVERS),
    OutputStyle("teaching", "Explain each step\nbefore you take it."),
    Language("Portuguese"),
    Today("2026-11-14"),
    WITH_GIT,
    INSTRUCTIONS,
    MemoryIndex("/srv/data/memory/MEMORY.md", INDEX),
    Guidance("A shell is available."),
)


def saying(text: Text) -> SectionSource:
    return SectionSource.of(type(text), lambda: text)


def prompt_of(*texts: Text | None) -> SystemPrompt:
    return standard(saying(text) for text in texts if text).prompt()[0]


def words(block: bytes) -> str:
    decoded = json.loads(block)
    assert decoded.keys() == {"type", "text"}
    assert decoded["type"] == "text"
    return str(decoded["text"])


def as_file(prompt: SystemPrompt) -> str:
    static_words, session_words = map(words, prompt.blocks())
    return f"=== static ===\n{static_words}\n=== session ===\n{session_words}\n"


# The whole prompt


@pytest.mark.spec("S6.1")
@pytest.mark.parametrize(
    ("name", "prompt"),
    [("bare", prompt_of(ENVIRONMENT, Today("2026-11-14"))), ("full", prompt_of(*EVERYTHING))],
    ids=["bare", "full"],
)
def test_the_rendered_prompt_is_the_golden_one(name: str, prompt: SystemPrompt) -> None:
    file = GOLDEN / f"{name}.md"
    if not file.exists():
        file.write_text(as_file(prompt), encoding="utf-8")
        pytest.fail(f"{file} was not there and has been written; read it, then run the test again")
    assert as_file(prompt) == file.read_text(encoding="utf-8")


@pytest.mark.spec("S6.1")
def test_the_prompt_has_every_section_of_the_spec_in_a_fixed_order_however_sources_are_given() -> None:
    names = list(prompt_of(*EVERYTHING).parts())
    assert names[:7] == ["identity", "rules", "tasks", "care", "tools", "tone", "brevity"]
    assert names[7:] == [
        "guidance",
        "memory_index",
        "instructions",
        "environment",
        "today",
        "language",
        "output_style",
        "mcp_instructions",
        "skills",
        "scratch",
        "clearing",
        "budgets",
    ]
    assert prompt_of(*EVERYTHING).blocks() == prompt_of(*reversed(EVERYTHING)).blocks()


@pytest.mark.spec("S6.1")
def test_the_model_is_told_that_results_get_cleared_and_the_conversation_compressed() -> None:
    said = words(prompt_of().blocks()[0])
    assert "Results of old tool calls get cleared" in said
    assert "compressed automatically" in said
    assert "look up with Recall if you have that tool" in said


@pytest.mark.spec("S6.1")
def test_the_clearing_notice_shows_the_very_placeholder_that_results_are_replaced_by() -> None:
    assert f"`{PLACEHOLDER_CLEARED}`" in Clearing(kept=5).render()


@pytest.mark.spec("S6.1")
def test_a_section_without_text_is_absent_and_nothing_hints_at_it() -> None:
    silent = [
        SectionSource.of(McpInstructions, lambda: McpInstructions.of({"mute": "  "})),
        SectionSource.of(Skills, lambda: Skills.of({})),
        SectionSource.of(Instructions, lambda: Instructions.of([])),
        SectionSource("empty", lambda: " \n"),
        SectionSource("none", lambda: None),
    ]
    assert standard(silent).prompt()[0] == prompt_of()


# The boundary and the blocks


@pytest.mark.spec("S6.1")
def test_static_sections_are_one_block_and_those_of_the_session_another() -> None:
    prompt = SystemPrompt(
        (Section("a", "A", "static"), Section("b", "B", "static"), Section("c", "C", "session"))
    )
    assert prompt.blocks() == (b'{"type":"text","text":"A\\n\\nB"}', b'{"type":"text","text":"C"}')


def test_a_stage_without_sections_sends_no_block() -> None:
    assert SystemPrompt().blocks() == ()
    assert SystemPrompt((Section("c", "C", "session"),)).blocks() == (b'{"type":"text","text":"C"}',)


@pytest.mark.spec("S6.1")
def test_a_static_section_behind_the_boundary_is_refused() -> None:
    with pytest.raises(InputError, match=r"static section 'rules' comes after 'environment'"):
        SystemPrompt((Section("environment", "here", "session"), Section("rules", "be good", "static")))


def test_a_static_section_cannot_vary() -> None:
    with pytest.raises(InputError, match="'rules' is static, so it cannot vary"):
        Section("rules", "be good", "static", volatile="moods")


@pytest.mark.parametrize(
    ("sections", "complaint"),
    [
        ((Section("a", "x", "session"), Section("a", "y", "session")), "two sections are called 'a'"),
        ((Section("a", " \n", "session"),), "section 'a' is empty"),
    ],
)
def test_sections_that_cannot_be_told_apart_or_say_nothing_are_refused(
    sections: tuple[Section, ...], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        SystemPrompt(sections)


def test_a_section_that_json_cannot_hold_is_refused_by_its_name() -> None:
    with pytest.raises(InputError, match=r"\$\.odd holds half a surrogate pair"):
        Section("odd", "a\ud800", "session")


def test_a_section_of_no_known_stage_is_refused_rather_than_left_out() -> None:
    with pytest.raises(InputError, match="'sessoin'"):
        Section("a", "x", cast(Stage, "sessoin"))


@pytest.mark.spec("S6.1")
def test_an_own_prompt_replaces_ours_word_for_word_and_is_one_part() -> None:
    own = SystemPrompt.own("  You sell shoes.\n\n")
    assert [words(block) for block in own.blocks()] == ["  You sell shoes.\n\n"]
    assert own.parts() == {"own": "  You sell shoes.\n\n"}


def test_a_blank_own_prompt_is_none_at_all() -> None:
    assert SystemPrompt.own(" \n").blocks() == ()


# Bytes


texts = st.text(min_size=1).filter(str.strip)
stages: st.SearchStrategy[Stage] = st.sampled_from(get_args(Stage))


@st.composite
def prompts(draw: st.DrawFn) -> SystemPrompt:
    """Prompts of any sections, volatile ones among those of the session."""
    said = draw(st.dictionaries(st.text(min_size=1, max_size=8), st.tuples(texts, stages), max_size=6))
    sections = [
        Section(name, text, stage, draw(st.sampled_from(["", "moves"])) if stage == "session" else "")
        for name, (text, stage) in said.items()
    ]
    return SystemPrompt(tuple(sorted(sections, key=lambda section: section.stage == "session")))


@pytest.mark.spec("S6.2")
@given(prompts())
def test_the_same_sections_give_the_same_bytes_and_hold_every_word(prompt: SystemPrompt) -> None:
    again = SystemPrompt(tuple(Section(s.name, s.text, s.stage, s.volatile) for s in prompt.sections))
    assert again.blocks() == prompt.blocks()
    assert again.parts() == prompt.parts()
    assert "\n\n".join(map(words, prompt.blocks())) == "\n\n".join(s.text for s in prompt.sections)


@pytest.mark.spec("S6.2", "S9.3")
@given(prompts(), st.data())
def test_one_changed_section_is_named_and_told_by_itself(prompt: SystemPrompt, data: st.DataObject) -> None:
    assume(prompt.sections)
    place = data.draw(st.integers(0, len(prompt.sections) - 1))
    old = prompt.sections[place]
    new = Section(old.name, data.draw(texts.filter(lambda text: text != old.text)), old.stage, old.volatile)
    later = SystemPrompt((*prompt.sections[:place], new, *prompt.sections[place + 1 :]))
    moved = [name for name, text in later.parts().items() if text != prompt.parts()[name]]
    assert moved == [old.name]
    told = announcement(prompt.parts(), later.parts())
    assert told == announcement({}, {new.name: new.text})
    assert told.count("<changed-section>") >= 1
    assert (prompt.now(later) == later) == bool(old.volatile)
    assert prompt.now(later) in (prompt, later)


@pytest.mark.spec("S6.2")
@given(
    st.lists(st.tuples(st.text(max_size=300), st.text(max_size=300)), max_size=5), st.text(max_size=3000)
)
def test_foreign_words_of_any_kind_render_to_the_same_bytes_each_time(
    files: list[tuple[str, str]], index: str
) -> None:
    def rendered() -> tuple[bytes, ...]:
        return prompt_of(
            Instructions.of([InstructionFile(path, "project", text) for path, text in files]),
            MemoryIndex("/m/MEMORY.md", index),
        ).blocks()

    assert rendered() == rendered()


# What may change, and when


def mcp(**servers: str) -> SystemPrompt:
    return prompt_of(ENVIRONMENT, McpInstructions.of(servers))


@pytest.mark.spec("S6.1", "S9.3")
def test_a_change_of_a_section_is_a_message_of_its_own() -> None:
    sent, later = mcp(tracker="Search first."), mcp(tracker="Search first.", ledger="In cents.")
    told = announcement(sent.parts(), later.parts())
    assert told.startswith("<changed-section>\n")
    assert '"mcp_instructions"' in told
    assert "In cents." in told
    assert told.count("</changed-section>") == 1


@pytest.mark.spec("S9.3")
def test_a_section_that_appears_or_goes_away_is_told_too() -> None:
    without, with_one = mcp().parts(), mcp(ledger="In cents.").parts()
    assert "In cents." in announcement(without, with_one)
    assert '"mcp_instructions" of the system prompt no longer applies' in announcement(with_one, without)


@pytest.mark.spec("S9.3")
def test_a_change_that_was_told_is_not_told_again() -> None:
    later = mcp(ledger="In cents.").parts()
    assert announcement(mcp().parts(), later)
    assert announcement(later, mcp(ledger="In cents.").parts()) == ""


@pytest.mark.spec("S6.1")
def test_only_what_varies_is_taken_from_a_later_prompt() -> None:
    sent = SystemPrompt((Section("a", "A", "session"), Section("left", "10", "session", "It is spent.")))
    later = SystemPrompt(
        (
            Section("a", "B", "session"),
            Section("left", "5", "session", "It is spent."),
            Section("day", "Monday", "session", "Days pass."),
        )
    )
    assert sent.now(later).parts() == {"a": "A", "left": "5", "day": "Monday"}
    assert sent.now(later, but={"left"}).parts() == {"a": "A", "left": "10", "day": "Monday"}
    assert sent.now(SystemPrompt((Section("a", "A", "session"),))).parts() == {"a": "A"}


@pytest.mark.spec("S6.1")
def test_every_section_that_varies_says_why() -> None:
    varying = {kind.file for kind in every_text() if kind.volatile}
    assert varying == {"mcp_instructions", "budgets", "today"}
    assert all(kind.volatile.endswith(".") for kind in every_text() if kind.volatile)


# Computed once


def counted(name: str, volatile: str = "") -> SectionSource:
    count = iter(range(1, 100))
    return SectionSource(name, lambda: f"{name} {next(count)}", volatile=volatile)


@pytest.mark.spec("S6.1")
def test_a_section_is_computed_once_and_kept_until_clear_or_compact() -> None:
    prompt, sections = Sections((counted("facts"),)).prompt()
    again, sections = sections.prompt()
    assert [s.text for s in prompt.sections] == [s.text for s in again.sections] == ["facts 1"]
    renewed, sections = sections.renewed().prompt()
    assert [s.text for s in renewed.sections] == ["facts 2"]
    assert sections.prompt()[0] == renewed


@pytest.mark.spec("S6.1")
def test_a_section_that_had_nothing_to_say_stays_absent_until_clear_or_compact() -> None:
    said: Iterator[str | None] = iter([None, "now there is something"])
    prompt, sections = Sections((SectionSource("late", lambda: next(said)),)).prompt()
    assert sections.prompt()[0] == prompt == SystemPrompt()
    assert [s.text for s in sections.renewed().prompt()[0].sections] == ["now there is something"]


@pytest.mark.spec("S6.1")
def test_a_volatile_section_is_computed_for_every_prompt() -> None:
    first, sections = Sections((counted("facts"), counted("left", volatile="It is spent."))).prompt()
    second, _ = sections.prompt()
    assert [s.text for s in second.sections] == ["facts 1", "left 2"]
    assert first.parts().keys() == second.parts().keys()


def test_sections_computed_earlier_are_not_changed_by_later_ones() -> None:
    start = Sections((counted("facts"),))
    start.prompt()
    assert start.kept == {}


# Texts: strict holes, hard caps


for _module in iter_modules(prompts_package.__path__):
    import_module(f"sevenfold.prompts.{_module.name}")


def every_text(kind: type[Text] = Text) -> Iterator[type[Text]]:
    for sub in kind.__subclasses__():
        if sub is not Static and sub.__module__.startswith("sevenfold."):
            yield sub
        yield from every_text(sub)


@pytest.mark.parametrize(
    ("text", "values", "complaint"),
    [
        ("Hi {{name}}", {}, "no value was given for name"),
        ("Hi", {"name": "Ada"}, "nothing in it uses name"),
        ("Hi {{name}}", {"name": None}, "name has no value here"),
        ("Hi {{#a}}x{{/a}}", {}, "no value was given for a"),
        ("Hi {{name", {}, "neither a hole nor a part"),
        ("Hi {{ name }}", {}, "neither a hole nor a part"),
        ("{{#a}}x", {}, "neither a hole nor a part"),
        ("{{#a}}{{#b}}x{{/b}}{{/a}}", {"a": "1"}, "neither a hole nor a part"),
    ],
)
def test_a_template_and_its_values_that_do_not_fit_are_refused(
    text: str, values: dict[str, str | None], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        fill(text, values)


@given(st.text())
def test_values_are_put_in_as_they_are_and_never_read_as_templates(value: str) -> None:
    assert fill("<{{a}}|{{b}}>", {"a": value, "b": "{{a}}"}) == f"<{value}|{{{{a}}}}>"


def test_a_part_without_a_value_leaves_nothing_behind() -> None:
    text = "one\n{{#b}}\ntwo {{b}}\n{{/b}}\nthree{{#c}}, four{{/c}}"
    assert fill(text, {"b": None, "c": None}) == "one\nthree"
    assert fill(text, {"b": "2", "c": ""}) == "one\ntwo 2\nthree, four"


def test_every_text_has_its_file_and_every_file_its_text() -> None:
    files = {path.stem for path in Path(prompts_package.__path__[0]).joinpath("texts").iterdir()}
    kinds = list(every_text())
    assert {kind.file for kind in kinds} == files
    assert len({kind.file for kind in kinds}) == len(kinds)


def test_every_text_uses_exactly_the_fields_of_its_class() -> None:
    for kind in every_text():
        values = dict.fromkeys(kind.__struct_fields__, "x")
        assert render(kind.file, values)


def test_every_text_is_small_enough_to_be_read_by_a_person_or_is_other_peoples_words() -> None:
    for kind in agent_texts.STATIC:
        assert size(kind().render()) <= kind.cap == 3 * KB
    for text in every_text():
        if text.cap > 40 * KB:
            assert text.body, f"{text.file} may be long, and none of it is somebody else's words"


def test_a_text_over_its_cap_with_nothing_to_cut_is_an_error() -> None:
    class Tiny(Text, frozen=True):
        """A note with no room."""

        file = "withdrawn"
        cap = 10

        name: str

    with pytest.raises(InputError, match="over its cap of 10"):
        Tiny("something").render()


HUGE = "word " * 60_000


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (Guidance(HUGE), Guidance.cap),
        (OutputStyle(HUGE, HUGE), OutputStyle.cap),
        (MemoryIndex(HUGE, HUGE), MemoryIndex.cap),
        (McpServer(HUGE, HUGE), McpServer.cap),
        (McpInstructions.of({f"server-{n}": HUGE for n in range(99)}), McpInstructions.cap),
        (Skills.of({f"skill-{n}": HUGE for n in range(99)}), Skills.cap),
        (
            Instructions.of([InstructionFile(f"/p/{n}", "project", HUGE) for n in range(9)]),
            Instructions.cap,
        ),
        (Instructions.of([InstructionProblem(HUGE, HUGE, HUGE)]), Instructions.cap),
        (Environment(HUGE, HUGE, HUGE, HUGE, HUGE, HUGE), Environment.cap),
        (Language(HUGE), Language.cap),
        (Scratch(HUGE), Scratch.cap),
        (Clearing(10**30), Clearing.cap),
        (Budgets(10**30, 10**30), Budgets.cap),
        (Changed(HUGE, HUGE), Changed.cap),
        (Withdrawn(HUGE), Withdrawn.cap),
        (LeftOut(HUGE), LeftOut.cap),
        (CutNote(10**30, 10**30, HUGE), CutNote.cap),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_text_grows_beyond_its_cap_whatever_is_put_into_it(text: Text, most: int) -> None:
    fields = len(text.__struct_fields__) + (2 if text.source else 1)
    assert size(text.render()) <= most + fields * 4200


@pytest.mark.spec("S6.1")
def test_a_memory_index_of_200_lines_is_whole_and_one_line_more_is_cut_with_a_note() -> None:
    whole = "\n".join(f"- line {n}" for n in range(200))
    assert whole in MemoryIndex("/m/MEMORY.md", whole).render()
    assert "Cut here" not in MemoryIndex("/m/MEMORY.md", whole).render()
    longer = MemoryIndex("/m/MEMORY.md", whole + "\n- line 200").render()
    assert whole in longer
    assert "- line 200" not in longer
    assert "[Cut here: showing 2,089 of 2,100 bytes. The full text is in /m/MEMORY.md.]" in longer


@pytest.mark.spec("S6.1")
def test_a_memory_index_of_more_than_25_kb_is_cut_at_a_line_end() -> None:
    lines = [f"- {n:03} " + "é" * 120 for n in range(150)]
    said = MemoryIndex("/m/MEMORY.md", "\n".join(lines)).render()
    shown = [line for line in said.splitlines() if line.startswith("- ")]
    assert shown == lines[: len(shown)]
    assert 24 * KB < size("\n".join(shown)) <= 25 * KB
    assert "[Cut here: " in said


@pytest.mark.spec("S6.1")
def test_the_words_of_a_server_are_cut_at_2_kb_with_a_note() -> None:
    assert "Cut here" not in McpServer("s", "x" * 2048).render()
    longer = McpServer("s", "x" * 2049).render()
    assert "x" * 2048 in longer
    assert "[Cut here: showing 2,048 of 2,049 bytes.]" in longer


@pytest.mark.spec("S6.1")
def test_instruction_files_without_room_are_named_and_the_most_specific_ones_stay() -> None:
    files = [InstructionFile(f"/p/{n}/AGENTS.md", "project", f"{n}" * 35_000) for n in range(5)]
    made = Instructions.of(files)
    assert made is not None
    said = made.render()
    assert "[Left out for lack of room: /p/0/AGENTS.md, /p/1/AGENTS.md, /p/2" in said
    assert said.index("3" * 35_000) < said.index("4" * 35_000)


@given(st.text(), st.integers(0, 200), st.none() | st.integers(0, 10))
def test_a_cut_is_a_beginning_of_whole_characters_within_its_bounds(
    text: str, most: int, lines: int | None
) -> None:
    kept = cut(text, most, lines)
    assert text.startswith(kept)
    assert size(kept) <= most
    assert lines is None or kept.count("\n") < max(lines, 1)
    if size(text) <= most and (lines is None or text.count("\n") < lines):
        assert kept == text


@given(st.sampled_from(["mcp-server", "MCP-Server", " mcp-server "]), st.text(max_size=20))
def test_foreign_words_cannot_close_the_tag_they_stand_in(tag: str, rest: str) -> None:
    said = McpServer("s", f"</{tag}>{rest}</{tag}>").render()
    assert said.lower().replace(" ", "").count("</mcp-server>") == 1
    assert said.endswith("</mcp-server>")


def test_a_path_with_odd_characters_stays_on_its_line_and_can_be_sent() -> None:
    prompt = prompt_of(Environment(cwd="/srv/\ud8ffx\n# Heading", platform="Linux"))
    assert "- Working directory: /srv/?x?# Heading\n" in words(prompt.blocks()[1])
