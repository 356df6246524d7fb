"""Hooks: the user's own commands and functions, run at events of a session.

`settings` reads hooks from files, `registry` fires them, and `answers` interprets their answers. The events are defined
in `sevenfold.conversation.hooks`.
"""
