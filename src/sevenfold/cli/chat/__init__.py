"""`sevenfold chat`: a conversation with an agent in the terminal.

From the outside in: `inline` is the app as most people see it, `plain` the same for terminals that can do nothing,
`printing` a single run without any screen. All three hold a `Chat`, which holds the agent. What they show is made by
pure functions from values to things rich can print (`signs`, `words`, `markdown`, `calls`, `told`, `status`, `window`,
`pages`), so most of it is tested without a terminal.
"""
