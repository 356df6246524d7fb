"""Plugins for Claude Code and Codex: hooks that bring back what compactions lose, and what a message will cost.

hook         what the program calls: reads the event, answers in time or not at all
bring_back   what left the context, prepared before a compaction and handed over after it
cold         what a message to a conversation with an expired cache will cost
status_line  context, cache and cost in one line
tail         the newest answer of a transcript, read from its end
window       which session runs in which window
folder       the folder where hooks keep what they hand to one another
shared       what the plugins have in common
claude_code  the plugin's files for Claude Code, and where they go
codex        the same for Codex
entries      an entry in a settings file of the user
changes      what is installed: shown first, written, and undone to the byte

Hooks run on every event of somebody else's program, so `hook`, `tail`, `window` and `folder` load the standard library
alone, and everything else only when an event needs it.
"""
