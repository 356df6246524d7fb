"""Sevenfold lets LLM agents work for weeks in a bounded context window, without silent forgetting."""

__version__ = "0.1.0"
