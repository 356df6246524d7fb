"""What a compaction tells: listeners, telemetry and hooks."""

from __future__ import annotations

from typing import Literal

from sevenfold.conversation.events import Announcer
from sevenfold.conversation.hooks import PostCompact, PreCompact, SessionStart
from sevenfold.events import Acted, Compacting, Proposed
from sevenfold.events import Compacted as CompactedEvent
from sevenfold.layers.compact.engines import SOURCE
from sevenfold.layers.compact.request import Compacted, Preview, Wish
from sevenfold.layers.compact.scope import Scope
from sevenfold.record.log import Place
from sevenfold.record.usage import Usage


class Teller:
    """Speaks for the compactions of one session."""

    def __init__(self, announcer: Announcer, place: Place, path: str) -> None:
        self._announcer = announcer
        self._place = place
        self._path = path

    def may(self, wish: Wish, divided: Scope, seen: Preview) -> bool:
        """Ask the listeners."""
        return self._announcer.may(
            Proposed(
                layer="compact",
                mechanism=divided.span,
                what=f"summarise {len(divided.hidden)} records and keep {len(divided.kept)}",
                why=wish.trigger,
                items=len(divided.hidden),
                tokens=max(0, seen.tokens_before - seen.tokens_after),
                usd=seen.usd,
                targets=tuple(item.said.uuid for item in divided.hidden),
            )
        )

    def progress(self, stage: str, hook: str = "") -> None:
        """How far it is."""
        self._announcer.tell(Compacting(source=SOURCE, stage=stage, hook=hook))

    def done(self, done: Compacted, failures: int) -> None:
        """What was done, once as any layer says it and once in figures."""
        usage, total, chain = done.usage or Usage(), done.score.total, done.chain
        self._announcer.tell(
            Acted(
                layer="compact",
                mechanism=done.engine,
                what=f"summarised {done.summarised} records, kept {done.kept}",
                why=done.trigger,
                items=done.summarised,
                tokens_before=done.tokens_before,
                tokens_after=done.tokens_after,
                usd=done.usd,
                reference=done.boundary,
            )
        )
        self._announcer.tell(
            CompactedEvent(
                boundary=done.boundary,
                trigger=done.trigger,
                engine=done.engine,
                left=tuple(f"{one.engine}: {one.reason}" for one in done.left),
                tokens_before=done.tokens_before,
                sent_before=done.sent_before,
                tokens_after=done.tokens_after,
                summarised=done.summarised,
                kept=done.kept,
                calls=done.calls,
                input_tokens=usage.input_tokens,
                cache_read_tokens=usage.cache_read_input_tokens,
                cache_write_tokens=usage.cache_creation_input_tokens,
                output_tokens=usage.output_tokens,
                usd=done.usd,
                in_context=total.in_context,
                reachable=total.reachable,
                lost=total.lost,
                invented=len(done.invented),
                cached_share=done.cached_share,
                retries=done.retries,
                restored=done.restored,
                missed=done.cut,
                again=chain.recompaction,
                turns_since=chain.turns_since,
                previous_turn=chain.previous_turn or "",
                query_source=chain.query_source,
                threshold=chain.threshold,
                failures=failures,
                fires_again=done.fires_again,
            )
        )

    def pre_compact(self, wish: Wish) -> PreCompact:
        """What hooks are told before."""
        return PreCompact(**self._common(), trigger=_trigger(wish), custom_instructions=wish.instructions)

    def session_start(self) -> SessionStart:
        """What hooks are told when the conversation begins anew."""
        return SessionStart(**self._common(), source="compact")

    def post_compact(self, wish: Wish, done: Compacted) -> PostCompact:
        """What hooks are told after."""
        return PostCompact(**self._common(), trigger=_trigger(wish), compact_summary=done.summary)

    def _common(self) -> dict[str, str]:
        return {
            "session_id": self._place.session,
            "transcript_path": self._path,
            "cwd": self._place.cwd,
        }


def _trigger(wish: Wish) -> Literal["manual", "auto"]:
    return "manual" if wish.trigger == "manual" else "auto"
