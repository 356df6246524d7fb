"""Session and AsyncSession: the engine as a program uses it."""
