"""The Messages API through the official SDK."""
