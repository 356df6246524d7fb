"""The world, made: an HTTP server that speaks the wire formats of the providers and enforces their rules."""
