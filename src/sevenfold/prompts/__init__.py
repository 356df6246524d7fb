"""What we ever say: one class per injected text, the words themselves as Markdown in ``texts/``."""
