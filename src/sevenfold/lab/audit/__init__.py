"""What the compactions of a recorded session kept, left within reach, or lost.

    folding  a transcript read to the moments before and after each compaction
    report   the facts of each compaction looked for in what the model saw next, and by recall

Works on any transcript in the shared format, whoever wrote it; nothing is written.
"""
