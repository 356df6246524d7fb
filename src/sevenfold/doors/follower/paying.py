"""Whether a summary of ours may be asked for, by prices and sizes that are known before.

A program that compacts by itself pays for a summary of its own at the threshold of its window. Ours takes the place of
that one, so it has to be worth being made earlier, and it must not make the bill much higher if the conversation ends
right behind it. Two rules see to that:

- *It pays*: each request is read more cheaply behind a summary, but the sooner one is made, the fewer tokens it leaves
  out and the sooner the next one is due. What summaries at this size would cost for each request, on and on, has to be
  less than what summaries at the threshold would.
- *It is funded*: what has certainly been saved in this conversation, and an eighth of its bill, pay for it.

Right before the threshold a summary only has to leave no more than the program's own would: it costs about the same.
A program that goes on beyond the threshold needs one whatever it costs. There our calls have a share of the bill.
"""

from __future__ import annotations

from msgspec import Struct

from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.restore import MOST_FILES
from sevenfold.doors.follower.growth import ConversationGrowth
from sevenfold.layers.compact.layer import recent_files
from sevenfold.profiles import Profile
from sevenfold.record.layout import rounds
from sevenfold.record.usage import MILLION

SUMMARY_TOKENS = 4_000
"""About how long a summary is in a window of full size."""
FILE_TOKENS = 5_000
"""How much of a file is restored behind a summary at most."""
MOST_OF_ONE = 1 / 8
"""Share of what a conversation has cost so far that one call of ours may cost: a short one ends before that pays."""
MOST_OF_ALL = 1 / 5
"""Share of what a conversation has cost so far that all our calls for it may cost."""
MOST_UNFUNDED = 1 / 8
"""Share of what a conversation has cost so far that may be spent on the chance that it goes on."""
SHORT_LIFETIME = 300
"""Seconds; a cache for which a program pays more lives longer, and then writing costs more than is counted here."""


def summary_usd(conversation: Conversation, size: int | None = None) -> float | None:
    """About what the call for a summary costs at this size, by default that of now; None if prices are unknown."""
    tokens = conversation.last_size.tokens if size is None else size
    price = conversation.profile.price(tokens)
    if price is None:
        return None
    return (tokens * price.read + SUMMARY_TOKENS * conversation.window.scale * price.output) / MILLION


def may_ask(conversation: Conversation) -> bool:
    """Whether a summary now would be within the share of the bill that our own calls may have."""
    cost = summary_usd(conversation)
    bill = conversation.account.usd
    if cost is None or bill is None:
        return True
    return cost <= MOST_OF_ONE * bill and conversation.own_usd + cost <= MOST_OF_ALL * bill


class SummaryOutlook(Struct, frozen=True):
    """What is known of a conversation before a summary is asked for; all sizes are in tokens."""

    profile: Profile
    size: int
    threshold: int
    """From which size on the program would compact by itself."""
    first: int
    """What no compaction takes out."""
    behind_ours: float
    """How large it would be behind a summary of ours."""
    behind_programs: float
    """How large it would be behind the program's own compaction."""
    usual: float
    """How much an answer and what leads to it usually add."""
    summary: float = SUMMARY_TOKENS

    @property
    def pays(self) -> bool:
        """Whether ours at this size cost less, for each request on and on, than the program's at the threshold."""
        if self.size <= self.behind_ours:
            return False
        if self.threshold <= self.behind_programs:
            return True
        now = self._usd_of_a_request(self.size, self.behind_ours)
        later = self._usd_of_a_request(max(self.size, self.threshold), self.behind_programs)
        return now is None or later is None or now <= later

    @property
    def leaves_less(self) -> bool:
        """Whether ours leaves less than there is, and no more than the program's own compaction."""
        return self.behind_ours < self.size and self.behind_ours <= self.behind_programs

    @property
    def outlay_usd(self) -> float | None:
        """What a summary of ours costs before anything is saved by it; None if prices are unknown."""
        return self._outlay_usd(self.size, self.behind_ours)

    def _usd_of_a_request(self, size: int, behind: float) -> float | None:
        """What compactions at this size, and reading what is in between, cost for each request."""
        outlay = self._outlay_usd(size, behind)
        price = self.profile.price(size)
        if outlay is None or price is None:
            return None
        requests = max((size - behind) / max(self.usual, 1.0), 1.0)
        return outlay / requests + (size + behind) / 2 * price.read / MILLION

    def _outlay_usd(self, size: int, behind: float) -> float | None:
        """What a summary at this size costs, and writing what is new behind it to the provider's cache."""
        price = self.profile.price(size)
        if price is None:
            return None
        new = max(behind - self.first, 0.0)
        asked = size * price.read + self.summary * price.output
        return (asked + new * (price.write(SHORT_LIFETIME) - price.read)) / MILLION


def outlook_of(conversation: Conversation, growth: ConversationGrowth) -> SummaryOutlook:
    """What is known of a conversation now."""
    behind_ours = _behind_ours(conversation, growth)
    return SummaryOutlook(
        conversation.profile,
        conversation.last_size.tokens,
        conversation.window.threshold,
        growth.first,
        behind_ours,
        growth.behind.get("program", behind_ours),
        growth.usual,
        SUMMARY_TOKENS * conversation.window.scale,
    )


def is_funded(outlay_usd: float | None, own_usd: float, saved_usd: float, bill_usd: float | None) -> bool:
    """Whether a summary is paid for by what was certainly saved, but for a share of the bill.

    So the bill stays below that share above the program's own, however soon the conversation ends.
    """
    if outlay_usd is None or bill_usd is None:
        return True
    return own_usd + outlay_usd - saved_usd <= MOST_UNFUNDED * bill_usd


def _behind_ours(conversation: Conversation, growth: ConversationGrowth) -> float:
    """About how large the conversation is behind a summary of ours.

    There it has what no compaction takes out, the summary, the newest round and the files that were read last; and it
    will hardly be smaller than behind the one before.
    """
    items = conversation.transcript.view.items
    newest_round = sum(map(conversation.item_tokens, rounds(items)[-1].items)) if items else 0
    shown_by = {call: item for item in items for call in item.record.answers}
    files = 0
    for file in recent_files(conversation)[:MOST_FILES]:
        item = shown_by.get(file.call)
        files += FILE_TOKENS if item is None else min(conversation.item_tokens(item), FILE_TOKENS)
    expected = growth.first + SUMMARY_TOKENS * conversation.window.scale + newest_round + files
    return max(expected, growth.behind.get("we", 0))
