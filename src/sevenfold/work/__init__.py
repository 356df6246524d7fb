"""Carrying out jobs: with threads of this process, or with workers on several machines."""
