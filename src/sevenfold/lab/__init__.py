"""What it is worth: profiles of real transcripts and benchmarks of the engine."""
