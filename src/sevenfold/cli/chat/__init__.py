"""`sevenfold chat`: a conversation with an agent in the terminal.

From the outside in: `command` reads the options; `inline` is the app for most terminals, `plain` the one for terminals
without a cursor, and `print_mode` is a single run without a screen. Both apps hold a `Chat`, which holds the agent.
Pure functions (`lines`, `menu`, `pages`, `status`, `markdown`) turn values into rich renderables, so most of what the
apps show is tested without a terminal.
"""
