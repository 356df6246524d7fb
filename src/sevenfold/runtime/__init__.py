"""Who drives: the transcript and what moves it forward."""
