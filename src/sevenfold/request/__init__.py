"""What is sent: sections, assembly, cache plan, cache watch."""
