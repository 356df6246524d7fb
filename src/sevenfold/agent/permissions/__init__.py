"""Permissions of tool calls: rules, modes and workspace boundaries."""
