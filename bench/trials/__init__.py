"""What a compaction leaves of a session, measured by code that takes no part in making summaries.

cut         a recorded session as it was before some of its calls
bad_models  models that summarise badly, each in its own way
trial       one compaction of such a session, with everything that must be true afterwards
chain       compactions in a row, with work between them
"""
