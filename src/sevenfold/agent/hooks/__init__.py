"""Hooks: the user's own commands and functions, run at named moments of a session.

`inputs` says which moments there are and what a hook is told; `matching` which hooks are meant; `settings`
reads them from files; `answers` understands what one hook said, `outcomes` what all of them said together.
These are pure but for the reading of files. `run` fires them, and is handed whoever can start a process.
"""
