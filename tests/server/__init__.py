"""The server for sessions, over real HTTP."""
