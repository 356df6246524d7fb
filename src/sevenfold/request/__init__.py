"""What is sent: system prompt sections, request assembly, cache markers, cache watch."""
