"""Layer 5: lasting facts from a session are stored in memory, and fitting memory entries are recalled."""
