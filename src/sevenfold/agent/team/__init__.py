"""Agents that work together: definitions, the roster, messages, tasks."""
