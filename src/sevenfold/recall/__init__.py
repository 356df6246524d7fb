"""Recall: search for content that has left the context."""
