"""The `Tool` interface and the standard tools.

To run a call, you need only a `Toolbox` of tools and a `Context`.
"""
