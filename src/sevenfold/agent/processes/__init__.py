"""Commands as real processes."""
