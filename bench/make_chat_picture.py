"""Draws docs/chat.svg: a short session in `sevenfold chat` with a scripted model and real tool calls."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from sevenfold.agent.agent import Agent
from sevenfold.cli.chat import slash_commands as commands
from sevenfold.cli.chat import start as opening
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.menu import Menu, MenuAnswer, MenuState
from sevenfold.cli.chat.screen import UNICODE, draw_menu
from sevenfold.cli.chat.start import ChatOptions
from sevenfold.cli.chat.status import draw_status
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.providers.offline import OfflineClient, Script

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.make_picture import FRAME

WIDTH = 96
PICTURE = Path(__file__).parent.parent / "docs" / "chat.svg"
PROGRAM = "def total(prices):\n    result = 0\n    for price in prices:\n        result = price\n    return result\n"
TEST = "from shop import total\n\nassert total([1, 2, 3]) == 6, total([1, 2, 3])\nprint('1 passed')\n"


def call(name: str, **given: Any) -> Mapping[str, Any]:
    return {"type": "tool_use", "name": name, "input": given}


STEPS: Sequence[str | Sequence[Mapping[str, Any]]] = [
    [call("Read", path="shop.py"), call("Shell", command="python3 test_shop.py")],
    [
        {"type": "text", "text": "`total` keeps the **last** price instead of adding them up:"},
        call("Edit", path="shop.py", old="        result = price", new="        result += price"),
    ],
    [call("Shell", command="python3 test_shop.py")],
    "Fixed, and the test passes:\n\n- the loop now *adds* each price\n- nothing else had to change",
]


class Drawing:
    """A screen that records a picture; every question is answered with the first option."""

    signs = UNICODE
    width = WIDTH
    redraws = False

    def __init__(self) -> None:
        self.console = Console(
            record=True,
            width=WIDTH,
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
            highlight=False,
        )

    def show(self, *shown: RenderableType) -> None:
        for one in shown:
            self.console.print(one)

    def page(self, *shown: RenderableType) -> None:
        """Print, without paging."""
        self.show(*shown)

    def notify(self, words: str, how: str) -> None:
        """Do nothing: a picture cannot notify anyone."""

    def ask(self, question: Menu) -> MenuAnswer | None:
        if not any(item.about.startswith("Shell(python3") for item in question.items):
            self.show(draw_menu(MenuState.open(question), UNICODE, WIDTH))
        return MenuAnswer((0,))

    def changed(self) -> None:
        return

    def suggest(self, words: str) -> None:
        return


def draw() -> str:
    """Return the picture as SVG."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        os.environ["SEVENFOLD_HOME"] = str(root / "home")
        folder = root / "shop"
        folder.mkdir()
        (folder / "shop.py").write_text(PROGRAM, encoding="utf-8")
        (folder / "test_shop.py").write_text(TEST, encoding="utf-8")
        screen = Drawing()
        _act(screen, ChatOptions(folder=folder, name="picture", model="claude-sonnet-4-5"))
        text = screen.console.export_svg(title="sevenfold chat", code_format=FRAME, unique_id="chat")
        return text.replace(str(folder), "~/shop")


def _act(screen: Drawing, start: ChatOptions) -> None:
    client = OfflineClient(Script(STEPS, jobs={"compact": summarise, "session_memory": take_notes}))

    def opens(options: ChatOptions, chat: Chat) -> Agent:
        made = opening.agent_options(options)
        made["client"], made["consent"], made["listen"] = client, chat.consent, (chat.listen,)
        return Agent(options.model, **made)

    chat = Chat(screen, opens, start)
    try:
        said = "the test fails, please fix it"
        screen.show(Text(f"{UNICODE.prompt} {said}", style="bold"), Text())
        chat.turn(said)
        for command in ("/compact", "/context"):
            screen.show(Text(f"{UNICODE.prompt} {command}", style="bold"))
            commands.run(chat, command)
        screen.show(
            Text(),
            Text(UNICODE.prompt, style="bold cyan"),
            draw_status(chat.status, UNICODE, WIDTH),
        )
    finally:
        chat.close()


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
