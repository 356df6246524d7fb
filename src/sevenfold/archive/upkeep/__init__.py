"""What removes or masks stored content: unused results, whole sessions, leaked secrets."""
