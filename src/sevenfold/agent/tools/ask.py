"""AskUser: questions only the user can answer, with answers to choose from."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from sevenfold.agent.tools.context import Context, Option, Question
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import Refused


class Choice(Struct, forbid_unknown_fields=True):
    """One answer to choose."""

    label: Annotated[str, Meta(min_length=1, max_length=200, description="The answer in a few words.")]
    description: Annotated[str, Meta(max_length=1_000, description="What it would mean.")] = ""


class Asked(Struct, forbid_unknown_fields=True):
    """One question."""

    question: Annotated[
        str, Meta(min_length=1, max_length=2_000, description="The question, complete in itself.")
    ]
    options: Annotated[
        list[Choice],
        Meta(max_length=8, description="Answers to choose from; the user may also say something else."),
    ] = []
    several: Annotated[bool, Meta(description="More than one may be chosen.")] = False


class AskInput(Struct, forbid_unknown_fields=True):
    """What to ask."""

    questions: Annotated[list[Asked], Meta(min_length=1, max_length=4)]


class AskUserTool(StandardTool[AskInput]):
    """Asks the user."""

    name = "AskUser"
    input = AskInput

    def act(self, given: AskInput, context: Context) -> ToolOutput:
        """Ask, and wait for the answers."""
        if context.ask is None:
            raise Refused(
                "There is nobody to ask in this session; decide yourself, and say what you assumed."
            )
        questions = [
            Question(one.question, tuple(Option(o.label, o.description) for o in one.options), one.several)
            for one in given.questions
        ]
        answers = context.ask(questions, context.abort)
        if answers is None:
            return failed("The user did not answer. Go on without, or stop and say what you need to know.")
        pairs = zip(questions, answers, strict=True)
        return ToolOutput("\n\n".join(f"{one.question}\n> {answer}" for one, answer in pairs))
