"""What happened: blocks, entries, the log, the view folded from it, rounds, tokens."""
