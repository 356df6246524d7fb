"""Telling the model, in the conversation, that its system prompt or its tools have changed."""

from __future__ import annotations

from sevenfold.conversation.epoch import AMENDED, amend, in_force
from sevenfold.conversation.transcript import Transcript
from sevenfold.profiles import Profile
from sevenfold.record.decisions import MicrocompactMetadata
from sevenfold.request.frame import Frame


def tell_changes(
    transcript: Transcript, stored: Frame, wanted: Frame, profile: Profile, *, cold: bool
) -> bool:
    """Append what system and tools are now, if the model does not know it from what is in view.

    False: they must be sent whole instead, because the model takes no such additions, or because that costs nothing.
    """
    view = transcript.view
    if in_force(view, stored) == (wanted.system, wanted.tools):
        return True
    amendment = amend(view, stored, wanted, profile)
    thinks = profile.thinking.bound and view.weight.thoughts > 0
    if amendment is None or (cold and not thinks):
        return False
    attached = [item for item in view.items if item.said.attachment == AMENDED]
    if not attached or attached[-1].shown != amendment.blocks:
        # The same words may be there already: cut off between the two records, the second was not written.
        transcript.attach(AMENDED, {}, amendment.blocks, role=amendment.role)
    transcript.decide(amendment.record)
    return True


def withdraw_changes(transcript: Transcript) -> None:
    """System and tools are sent whole now, so what was said about changes to the old ones is void."""
    items = transcript.view.items
    void = [item.said.uuid for item in items if item.said.attachment == AMENDED and item.shown]
    if void:
        transcript.clear(MicrocompactMetadata(cleared_attachment_uuids=void))
