"""What a compaction leaves of a session, measured by code that has no part in making summaries.

cut         a recorded session as it was before some of its calls
bad_models  models that summarise badly, each in a way of its own
trial       one compaction of such a session, and everything that must hold of it
chain       compactions one after the other, with work between them
"""
