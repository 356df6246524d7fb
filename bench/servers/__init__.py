"""Real servers for tests and measurements, started without installing anything."""
