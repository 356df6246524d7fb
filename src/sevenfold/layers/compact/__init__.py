"""Layer 4: the conversation is summarised, checked, and goes on from the summary.

`wish` says what is asked for, `engines` are the ways to a summary, `restore` brings back what the work needs at
hand, `flow` puts them in order: all model and hook work first, then one write that counts as a whole or not at all.
"""
