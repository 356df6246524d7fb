"""Writes the list of errors in docs/troubleshooting.md from the code that raises them.

The page is split at a mark: the text before it is written by hand, the text after it is generated here.
`tests/test_pages.py` fails if the generated part is out of date.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from pathlib import Path

from sevenfold import errors

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "troubleshooting.md"
MARK = "<!-- Made by bench/make_troubleshooting.py: do not edit below. -->\n"
HOLE = "…"
ADVICE = {
    "SettingError": "Change the value where the message says it is set; `sevenfold config` lists all of them.",
    "InputError": "Change what was given as the message says; nothing was stored.",
    "ContextFull": "Compact, remove something, or choose a model with a larger window.",
    "Refused": "Do first what the message names, then repeat it.",
    "JobFailed": "Look at the reason; submit the work again under another key once it is put right.",
    "Stalled": "Try again; if it happens often, look at the provider's status or raise `content_seconds`.",
    "TranscriptError": "Check the path and the permissions; the file itself was not changed.",
    "TranscriptMissing": "Check the path or the name; `sevenfold sessions --all` lists what there is.",
    "TranscriptForeign": "Give the file of a session: `sevenfold sessions --all` lists them.",
    "TranscriptDenied": "Give yourself access to the file or folder, or choose another.",
    "TranscriptLocked": "Close the other program that has the session open, then try again.",
    "TranscriptOvertaken": "Open the session again; the other process goes on from where this one stopped.",
    "TranscriptLost": "Open the session again to continue from what is there; look why the database lost records.",
    "TranscriptTooNew": "Update Sevenfold, or only read the session.",
    "TranscriptFull": "Make room on the disk and repeat it; nothing that was there is damaged.",
    "ResultMissing": "Ask for a result that is stored; one that `sevenfold gc` or a purge removed is gone.",
    "ModelError": "Read what the provider says; ask again if it may pass.",
    "PromptTooLong": "Sevenfold shortens the prompt and asks again; where it cannot, compact or use a larger window.",
    "BodyTooLarge": "Leave out images and documents.",
    "RateLimited": "Wait; Sevenfold does so by itself a few times first.",
    "Overloaded": "Ask again later; Sevenfold does so by itself a few times first.",
    "ProviderFailed": "Ask again; if it goes on, look at the provider's status page.",
    "BoundThinking": "Nothing to do: the reasoning is left out and the request made again.",
    "RequestRefused": "Change the request as the provider says: a parameter, a tool's schema, a message.",
    "ThreadLost": "Nothing to do: the whole conversation is sent instead.",
    "NotAuthenticated": "Set the key: ANTHROPIC_API_KEY or OPENAI_API_KEY.",
    "NotPermitted": "The key is right. Look at what its account and workspace may use, and at its balance.",
    "ModelNotServed": "Check the model's name; in the chat, `/model` lists what is served.",
    "Unreachable": "Check the address and that the server runs.",
    "Aborted": "Nothing to do: you stopped it.",
    "UserError": "Do what the message says.",
}
"""What to do about an error of each class, beyond what its message says."""


def classes() -> dict[str, type]:
    """Return the error classes by name, in their order in the module."""
    return {
        name: each
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.SevenfoldError)
    }


def messages() -> dict[str, set[str]]:
    """Return the messages that each class is raised with."""
    known, found = classes(), defaultdict(set)
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and node.args
                and _name(node.func) in known
                and (text := _text(node.args[0]))
            ):
                found[_name(node.func)].add(text)
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str:
    """Return a message with holes for its variable parts, or an empty string if hardly any fixed text remains."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        said = node.value
    elif isinstance(node, ast.JoinedStr):
        said = "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    else:
        return ""
    said = " ".join(said.split())
    return said if len(re.sub(r"\W|…", "", said)) >= 12 else ""


def made() -> str:
    """Return the generated part of the page."""
    found, lines = messages(), []
    for name, each in classes().items():
        if name in ADVICE:
            lines += [f"## {name}", "", f"{(each.__doc__ or '').strip()} **{ADVICE[name]}**", ""]
            lines += [f"- {text.replace('<', '&lt;')}" for text in sorted(found.get(name, ()))]
            lines += [""] if found.get(name) else []
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    by_hand = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(by_hand + MARK + "\n" + made(), encoding="utf-8")
