"""Follows the conversations of other people's programs from the requests they send, and records them as sessions.

identity    which conversation a request belongs to, and what it is for
alignment   what a request has in common with what is recorded, and what is new
recording   one conversation, written as a session
follower    the conversations of all programs
keeper      the same for doors that act, and what to send in place of a request
keeping     one conversation that our layers keep within its window
judging     what changed requests cost beside the program's own, by the usage that the provider reports
kept_figures   what was done, saved and spent
consent     what a person has agreed to, and what was done
leading     the conversation in which the layers work, and what precedes the messages in our own calls
program_view, deciding, rewriting   what the program still sends, what we decided about each block, the bytes of it

Whoever passes requests on calls `ConversationFollower.sent` once a request has gone out and `ended` with what became of
it; both are called from one thread, in the order in which requests went out. In between, a `FollowedCall` holds the
conversation, what the request is for and how it relates to what is on record (`Alignment`: new, grown, gone back,
compacted, or another conversation). Nothing here changes a byte, and nothing raises for what a program sends but
`MalformedRequest`, for a body that cannot be read.

Three rules hold whatever a program does to its past. Each block is on record once, in the form in which it was first
sent. What left the program's context stays on record: a compaction adds a boundary, going back adds a decision. And a
request that only looks like a conversation (a title, a summary) is billed beside it; the results that a request for a
summary is the first to show are part of the conversation all the same.
"""
