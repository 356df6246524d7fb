"""What removes or masks stored content: results that nobody needs, whole sessions, leaked secrets."""
