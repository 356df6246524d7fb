"""The conversation: the log, the view folded from it, and the code that advances both."""
