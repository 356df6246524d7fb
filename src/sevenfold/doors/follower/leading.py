"""The conversation in which our layers work for another program's: what precedes its messages, and how it is led."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from sevenfold.conversation import turn
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.epoch import frame_of
from sevenfold.conversation.flow import Flow
from sevenfold.conversation.transcript import Transcript
from sevenfold.doors.follower.recording import Preceding
from sevenfold.events import Listener
from sevenfold.layers.compact.compaction import OUTPUT_CAP
from sevenfold.ports import Clock
from sevenfold.profiles import find
from sevenfold.record.blocks import encode_json
from sevenfold.record.window import Window
from sevenfold.request.frame import Frame
from sevenfold.session import factory
from sevenfold.settings import Settings
from sevenfold.wire.client_request import Api, tool_name
from sevenfold.wire.openai import from_function

SUMMARY_SHARE = 0.75
"""Share of the threshold from which on a summary is made beside the conversation: the program compacts at the threshold
itself, and a summary that is made earlier is more often of no use, as the conversation ends before it is needed."""
KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("Read", "read", "read_file", "NotebookRead", "view"), "read"),
        **dict.fromkeys(("Bash", "bash", "shell", "exec_command", "local_shell", "execute"), "shell"),
        **dict.fromkeys(("Grep", "Glob", "LS", "grep", "glob", "ls", "search", "list_dir"), "search"),
        **dict.fromkeys(("WebFetch", "WebSearch", "web_fetch", "web_search"), "web"),
        **dict.fromkeys(("Edit", "MultiEdit", "NotebookEdit", "edit_file", "apply_patch"), "edit"),
        **dict.fromkeys(("Write", "write_file"), "write"),
    }
)
"""What the tools of well-known programs do; results of any other tool are never cleared."""
_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_OF_ONE_REQUEST = frozenset({*_OUTPUT_LIMITS, "stream_options", "diagnostics", "previous_response_id"})
"""Settings of a program's request that our own calls do not repeat."""


def led(
    transcript: Transcript,
    parts: factory.SessionParts,
    preceding: Preceding,
    api: Api,
    listeners: Sequence[Listener],
    clock: Clock,
) -> Conversation:
    """The conversation on which our layers work, on the records of a program's."""
    epoch = transcript.view.epoch
    assert epoch is not None
    names = (tool_name(raw) for raw in preceding.tools)
    conversation = factory.conversation(
        replace(parts, settings=_settings(parts.settings.current())),
        preceding.model,
        {"source": "sdk", "listen": list(listeners), "clock": clock},
        find(preceding.model),
        frame_of(epoch),
        transcript=transcript,
        kinds={name: KINDS[name] for name in names if name in KINDS},
    )
    frame = own_frame(preceding, conversation.profile.max_output, api)
    conversation.set_epoch(conversation.epoch.sending(frame))
    return conversation


def _settings(settings: Settings) -> Settings:
    """The settings for a program's conversation: it gets no calls of ours that it could do without."""
    return replace(
        settings,
        notes=False,
        idle_compaction=False,
        # Below a summary that is made beside the conversation, clearing at a price never pays for itself.
        size_clearing=False,
        keep_warm=False,
        background_share=max(settings.background_share, SUMMARY_SHARE),
        # The provider's own compaction needs beta features, which are the program's to choose.
        compact_engines=("fork", "plain"),
    )


def room_made(conversation: Conversation) -> Flow[None]:
    """Use a summary that is ready, and let the layers act; none of them asks a model."""
    conversation.begin_pass()
    for layer in conversation.ladder.settles:
        if layer.on(conversation.settings):
            yield from layer.settle(conversation)
    with conversation.asking_nobody():
        yield from turn.make_room(conversation)


def most_tokens(conversation: Conversation) -> int:
    """How many tokens a request of the program's own may have; a setting may keep what we send far below that."""
    window = conversation.window.effective
    profile = conversation.profile
    return max(window, Window.of(profile).effective) if profile.known else window


def own_frame(preceding: Preceding, most: int, api: Api) -> Frame:
    """What precedes the messages in our own calls: the program's system prompt, tools and settings."""
    if api != "messages":
        # Our calls are written in the shape of the Messages API and converted to the others.
        tools = (encode_json(from_function(msgspec.json.decode(raw))) for raw in preceding.tools)
        return Frame(preceding.model, most, preceding.system, tuple(tools))
    # A program's limit may be too low for a summary; it is not part of what is cached.
    limits = (preceding.settings[name] for name in _OUTPUT_LIMITS if name in preceding.settings)
    asked = max([OUTPUT_CAP, *(int(raw) for raw in map(bytes, limits) if raw.isdigit())])
    settings = tuple(
        (name, bytes(raw))
        for name, raw in sorted(preceding.settings.items())
        if name not in _OF_ONE_REQUEST
    )
    return Frame(
        preceding.model, min(asked, most), preceding.system, preceding.tools, settings, preceding.betas
    )
