"""Where ports meet adapters: the only place that knows both, and the public face of the engine."""

from __future__ import annotations

from sevenfold.wiring.clients import async_client_for, client_for, offline_script

__all__ = ["async_client_for", "client_for", "offline_script"]
