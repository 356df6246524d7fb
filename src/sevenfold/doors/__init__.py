"""Entrances for other people's agents: what we know about a session, where its user already works.

plugins  hooks and a status line inside the programs themselves
"""
