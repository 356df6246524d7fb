"""Layer 1: big tool results go to disk, a preview stays."""
