"""`sevenfold chat`: a conversation with an agent in the terminal.

From the outside in: `command` reads the options; `inline` is the app for most terminals, `plain` the one for terminals
without a cursor, and `print_mode` a single run without a screen. The two apps hold a `Chat`, which holds the agent.
What they show is made by pure functions from values to things rich can print (`lines`, `menu`, `pages`, `status`,
`markdown`), so most of it is tested without a terminal.
"""
