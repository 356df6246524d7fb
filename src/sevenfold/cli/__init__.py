"""Who looks: the command line and what it shows."""
