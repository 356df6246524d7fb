"""Lasting memory: files of facts that outlive a session, all their versions, and the origin of each fact."""
