"""Sub-agents and how they work together: definitions, the roster, messages, tasks."""
