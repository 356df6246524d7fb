"""Finding again what left the context."""
