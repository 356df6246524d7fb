"""What we ever say: one class per injected text, the words themselves as Markdown in ``texts/``.

The classes of an agent's own texts are in `sevenfold.agent.texts`.
"""
