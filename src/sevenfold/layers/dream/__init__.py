"""Layer 6: memory is consolidated in the background, across sessions."""
