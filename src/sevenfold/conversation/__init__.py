"""The conversation: the log, the view folded from it, and what moves it forward."""
