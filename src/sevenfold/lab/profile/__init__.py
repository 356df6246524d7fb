"""Where the context and the money of recorded sessions went.

    gather      which files, and profiling them side by side
    formats     what kind of transcript a file is, and the reader for it
    transcript  reads transcripts made of parent-linked messages (ours are of that shape)
    rollout     reads rollouts made of timestamped payloads
    books       what happened in a session, counted as it is read
    context     what was in the window, for how long, and how many tokens it was
    caching     where the prompt cache was lost, and why
    money       what it cost, and what it might have cost
    figures     the result: frozen, and the JSON contract

Files are streamed: memory follows what is in the window, not the size of the file.
"""
