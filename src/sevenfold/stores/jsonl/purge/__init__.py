"""The one permitted rewrite: removing a session, or masking one leaked secret wherever it was stored."""
