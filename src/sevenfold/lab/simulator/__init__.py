"""A simulated provider: an HTTP server that speaks the providers' wire formats and enforces their rules."""
