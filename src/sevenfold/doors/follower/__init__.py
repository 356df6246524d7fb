"""Follows the conversations of other people's programs from the requests they send, and records them as sessions.

identity    which conversation a request belongs to, and what it is for
alignment   what a request has in common with what is recorded, and what is new
recording   one conversation, written as a session
follower    the conversations of all programs
"""
