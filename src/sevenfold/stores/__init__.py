"""Stores: where sessions are kept."""
