"""Layer 3: running session notes, which later serve as a summary at no cost."""
