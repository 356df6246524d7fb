"""What a tool is, and the tools there are.

A `Toolbox` of tools and a `Context` are all it takes to run a call.
"""
