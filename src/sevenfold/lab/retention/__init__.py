"""What a compaction leaves of a session, measured by code that has no part in making summaries.

cut         a recorded session as it was before some of its calls
trial       one compaction of such a session, and everything that must hold of it
chain       compactions in a row, with work between them
bad_models  models that summarise badly, each in its own way
lies        lies in many styles
honest      honest summaries of made-up sessions
catch_rate  how well the check of summaries tells one from the other
"""
