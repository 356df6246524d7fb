"""Layer 4: the conversation is summarised, the summary is checked, and the conversation continues from it.

`layer` decides when; `scope` decides what is summarised and what is kept; `engines` get a summary; `check` marks
unsupported claims in it and adds the facts that code extracts (`extract`, `summary`); `compactor` runs these steps in
order; `writer` predicts the result and makes the one atomic write.
"""
