"""Sessions as files: one JSON record per line, with results and notes in folders next to the transcript."""
