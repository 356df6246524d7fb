"""Where the context and the money of recorded sessions went.

    files       which files, in which format, and the sum of all sessions
    transcript  reads transcripts of parent-linked messages, ours and converted rollouts among them
    books       what happened in a session, counted as it is read
    context     what was in the window, for how long, and how many tokens it was
    labels      what a report calls a piece of a conversation
    cache       where the prompt cache was lost, and why
    figures     the result: frozen, and the JSON contract

Files are streamed: memory follows what is in the window, not the size of the file. Only rollouts are read whole.
"""
