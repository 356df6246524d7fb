"""Jobs in PostgreSQL, for programs on several machines; procrastinate is the queue."""
