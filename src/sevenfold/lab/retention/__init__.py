"""What a compaction leaves of a session, measured by code that has no part in making summaries.

cutting    a recorded session as it was before some of its calls
misleading models that summarise badly, each in a way of its own
lies       lies in many styles
honest     honest summaries of made-up sessions
catching   how well the check tells one from the other
trial      one compaction of such a session, and everything that must hold of it
chain      compactions one after the other, with work between them
probing    facts looked for in what is left of a conversation, whoever compacted it
"""
