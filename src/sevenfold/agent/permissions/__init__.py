"""What a tool call may do: rules, modes and the borders of the workspace."""
