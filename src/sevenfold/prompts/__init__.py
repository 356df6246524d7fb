"""All prompts: one class for each text that is put before the model, the words themselves as Markdown in ``texts/``.

The classes for an agent's own texts are in `sevenfold.agent.texts`.
"""
