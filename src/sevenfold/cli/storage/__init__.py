"""Finding secrets in stored files, and rewriting the files without them."""
