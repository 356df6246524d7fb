"""Our agent in editors that speak the Agent Client Protocol.

updates  what an agent does, in the protocol's words
session  one conversation: its agent, its permissions, and whether it was cancelled
server   the requests of an editor
"""
