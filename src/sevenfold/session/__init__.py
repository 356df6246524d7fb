"""Session and AsyncSession: the engine's public API."""
