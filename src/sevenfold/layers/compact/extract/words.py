"""Whose words are these? The user's own, told from everything else that is sent in the user's role.

Records flagged as put there by a program, summaries, tool results and attachments are never the user's
words, but for a prompt that waited in a queue. Other tools also wrap what is not the user's (output of
their commands, what an editor shows) in tags inside a plain user message, and write a command the user
typed as several tags; the former is left out, the latter turned back into what was typed. In records of our
own such tags are what the user typed, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sevenfold.layers.compact.extract.facts import Permission, Quote, Words
from sevenfold.record import blocks
from sevenfold.record.blocks import THINKING, ToolUse
from sevenfold.record.entries import USERS_WORDS
from sevenfold.record.layout import Item

_NOT_THE_USERS = (
    "system-reminder|task-notification|local-command-stdout|local-command-stderr"
    "|local-command-caveat|command-message|command-contents|ide_selection|ide_opened_file|ide_diagnostics"
    "|bash-stdout|bash-stderr|user-prompt-submit-hook|session-start-hook|persisted-output"
)
_IN_FRONT = re.compile(rf"\A\s*<({_NOT_THE_USERS})\b[^<>]*>.*?</\1>\s*", re.DOTALL)
_OPENED = re.compile(rf"<({_NOT_THE_USERS})\b[^<>]*>")
_CLOSED = re.compile(rf"</({_NOT_THE_USERS})>\s*\Z")
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_SHELL_LINE = re.compile(r"\A\s*<bash-input>(.*?)</bash-input>\s*\Z", re.DOTALL)
_INTERRUPTED = re.compile(r"\A\s*\[Request interrupted by user[^\]]*\]\s*\Z")
_ABOUT_THE_SESSION = frozenset(
    [
        "/clear",
        "/compact",
        "/config",
        "/context",
        "/cost",
        "/exit",
        "/help",
        "/ide",
        "/login",
        "/logout",
        "/mcp",
        "/model",
        "/quit",
        "/resume",
        "/status",
        "/usage",
    ]
)
"""Commands to a program, not about the work; those with something behind them are kept."""

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？])|\n+")
_CORRECTS = re.compile(
    r"\b(?:don['’]?t|do not|doesn['’]?t|never|stop|instead|rather|wrong|incorrect|mistake|actually|prefer|always"
    r"|must|make sure|avoid|revert|undo|roll back|should ?n['’]?t|should not|should (?:only|always|be)|not what"
    r"|let['’]?s not|keep|leave|only (?:use|do|if|when|change|the)|without|no longer|remember|forget|hold on"
    r"|wait)\b|\A\W*(?:no|nope)\b",
    re.IGNORECASE,
)
_OUTPUT = re.compile(r"[\w./\\-]+:\d+|[-=+|#>$]{2,}|\[?\d{2,4}[-:/]\d\d|(?:at|File) \S+[(:]")
"""How a line of a program's output begins, which users paste."""
LONGEST_SENTENCE = 400
_ALLOWS = re.compile(
    r"\byou (?:can|may|are (?:free|allowed) to|have my)\b(?! (?:see|find|tell|also|imagine|want))"
    r"|\bfeel free\b|\bgo ahead\b"
    r"|\bno need to ask\b|\bgo for it\b|\bit(?:['’]?s| is) (?:ok|okay|fine|all right) (?:to|if)\b|\bi(?:['’]m| am) "
    r"(?:ok|okay|fine) with\b",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"(?:\A|[,;:–—(-]\s*|\b(?:please|but|and|so|also|then|just|no)\s+)(?:don['’]?t|do not|never)\b"
    r"|\byou (?:must ?n[o'’]?t|may not|can['’]?t|cannot|should(?:n['’]?t| not| never)|are not allowed)\b"
    r"|\bhands off\b|\bstay away from\b|\bis not allowed\b",
    re.IGNORECASE,
)
_ASSENTS = re.compile(
    r"\W*(?:yes|yeah|yep|yup|y|sure|ok(?:ay)?|agreed|approved|go ahead|go for it|do it|do that|please do|sounds good"
    r"|lgtm|perfect|correct|exactly|proceed)\b|\W*👍",
    re.IGNORECASE,
)
_DISSENTS = re.compile(r"\W*(?:no|nope|not yet|don['’]?t|do not|stop|wait|hold on)\b", re.IGNORECASE)
_SHORT = 20
"""Words up to which a message is taken to answer the question before it."""
_LOOKED_BACK = 1_500


def users_words(item: Item) -> str:
    """What the user said in this record; empty when nothing in it is the user's."""
    said = item.said
    ours = said.meta or said.summary or said.synthetic or bool(item.hidden_by)
    if said.role != "user" or ours or said.attachment not in ("", USERS_WORDS):
        return ""
    read = _as_typed if said.own else _words_in
    return "\n".join(filter(None, map(read, said.blocks)))


def models_words(item: Item) -> str:
    """What the model said in this record, reasoning aside."""
    if item.said.role != "assistant" or item.said.synthetic or item.hidden_by:
        return ""
    texts = (blocks.words_of(block).strip() for block in item.said.blocks if block.kind == "text")
    return "\n".join(filter(None, texts))


def whole_text(item: Item) -> str:
    """Everything said in a record, whoever said it; a call's input counts as said."""
    parts = (
        bytes(body.input).decode(errors="replace").replace('\\"', '"').replace("\\n", " ")
        if isinstance(body := block.body(), ToolUse)
        else blocks.words_of(block)
        for block in item.said.blocks
        if block.kind not in THINKING
    )
    return "\n".join(filter(None, parts))


def messages(items: Iterable[Item]) -> Iterator[Words]:
    """Every message of the user, as it was said."""
    for item in items:
        if words := users_words(item):
            yield Words(item.said.uuid, words)


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without the space around them."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def one_line(text: str, most: int) -> str:
    """A text as one line of at most so many characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def permissions(items: Iterable[Item]) -> Iterator[Permission]:
    """Sentences in which the user allows or refuses something, and short answers to what the model proposed."""
    before = Quote("", "")
    for item in items:
        if words := models_words(item):
            before = Quote(words, item.said.uuid)
        elif words := users_words(item):
            answer = _ASSENTS.match(words) or _DISSENTS.match(words)
            asked = [one for one in sentences(before.text[-_LOOKED_BACK:]) if one.endswith("?")]
            if answer and asked and len(words.split()) <= _SHORT:
                proposal = one_line(asked[-1], LONGEST_SENTENCE)
                yield Permission(
                    bool(_ASSENTS.match(words)), words, item.said.uuid, proposal, before.record
                )
            else:
                yield from _permissions(words, item.said.uuid)


def _permissions(words: str, record: str) -> Iterator[Permission]:
    for sentence in sentences(words):
        if not _pasted(sentence) and not sentence.endswith("?"):
            if _REFUSES.search(sentence):
                yield Permission(False, sentence, record)
            elif _ALLOWS.search(sentence):
                yield Permission(True, sentence, record)


def _pasted(sentence: str) -> bool:
    return len(sentence) > LONGEST_SENTENCE or bool(_OUTPUT.match(sentence))


def corrections(said: Iterable[Words]) -> Iterator[Quote]:
    """Sentences in which the user negates, redirects or states a preference."""
    for words in said:
        for sentence in sentences(words.head):
            if not _pasted(sentence) and _CORRECTS.search(sentence):
                yield Quote(sentence, words.record)


def _as_typed(block: blocks.Block) -> str:
    if block.kind in ("image", "document"):
        return f"[{block.kind}]"
    words = blocks.words_of(block) if block.kind == "text" else ""
    return words if words.strip() else ""


def _words_in(block: blocks.Block) -> str:
    words = _as_typed(block)
    return _unwrapped(words) if "<" in words[:200] or words.endswith((">", "]", ">\n")) else words


def _unwrapped(words: str) -> str:
    typed = _COMMAND.search(words) if words.lstrip().startswith("<command-") else None
    if typed:
        return _typed(typed[1].strip(), _ARGUMENTS.search(words))
    if shell := _SHELL_LINE.match(words):
        return f"! {shell[1].strip()}"
    bare = words
    while found := _IN_FRONT.match(bare):
        bare = bare[found.end() :]
    bare = _without_envelopes_behind(bare)
    return "" if not bare.strip() or _INTERRUPTED.match(bare) else bare


def _without_envelopes_behind(words: str) -> str:
    opened = list(_OPENED.finditer(words)) if _CLOSED.search(words[-100:]) else []
    while closed := _CLOSED.search(words):
        inner = next(
            (one for one in reversed(opened) if one[1] == closed[1] and one.end() <= closed.start()), None
        )
        if inner is None:
            return words
        words = words[: inner.start()].rstrip()
        opened = opened[: opened.index(inner)]
    return words


def _typed(name: str, arguments: re.Match[str] | None) -> str:
    given = arguments[1].strip() if arguments else ""
    if not given and name in _ABOUT_THE_SESSION:
        return ""
    return f"{name} {given}".strip()
