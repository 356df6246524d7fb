"""Sessions as files: one JSON record a line, results and notes in folders next to them."""
