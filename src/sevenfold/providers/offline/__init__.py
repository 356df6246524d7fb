"""The offline model: no network, the same answers every time."""
