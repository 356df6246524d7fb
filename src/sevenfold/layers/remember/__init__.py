"""Layer 5: lasting facts of a session become memory, and memory comes back where it fits."""
