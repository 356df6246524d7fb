"""Model providers: how to build a request, read an answer and interpret an error."""
