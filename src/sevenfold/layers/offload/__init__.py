"""Layer 1: big tool results are moved to disk, and a preview stays."""
