"""Converts what other tools record into records of the shared format, one module for each tool."""
