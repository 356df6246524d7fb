"""Lasting memory: files of facts that outlive a session, every version of them, and where each fact comes from."""
