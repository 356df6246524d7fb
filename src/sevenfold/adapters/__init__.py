"""The world: providers, stores, telemetry. The only place that touches disk or network for the engine."""
