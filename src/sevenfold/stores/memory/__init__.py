"""Sessions in memory."""
