"""Layer 4: the conversation is summarised, checked, and goes on from the summary.

`layer` says when, `scope` what is summarised and what is kept, `engines` get a summary, `check` marks and completes it
with what code knows (`extract`, `summary`), `compactor` puts these in order, and `writer` forecasts and makes the one
write that counts as a whole or not at all.
"""
