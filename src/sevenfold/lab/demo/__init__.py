"""The demonstration: an agent at work for hundreds of turns, offline, with everything real but the model."""
