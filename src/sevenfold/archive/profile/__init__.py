"""Profiles recorded sessions: what filled their context and what they cost.

    files       which files, in which format, and the sum of all sessions
    transcript  reads transcripts of parent-linked messages, including ours and converted rollouts
    books       counts what happened in a session as it is read
    context     what was in the window, for how many calls, and its size in tokens
    labels      names for the pieces of a conversation in a report
    cache       where prompt cache reads were lost, and why
    figures     the result: frozen data, and the JSON contract

Files are streamed: memory depends on the size of the window, not of the file. Only rollouts are read whole.
"""
