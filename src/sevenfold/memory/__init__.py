"""What outlives the context: finding again what was said, and later what lasts beyond a session."""
