"""Hooks: the user's own commands and functions, run at events of a session.

`settings` reads hooks from files, `registry` fires them, and `answers` reads what they answer. The events themselves
are in `sevenfold.conversation.hooks`.
"""
