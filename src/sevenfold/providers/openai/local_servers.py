"""What local servers say about the window a model runs with, each in its own words.

Their OpenAI-compatible listings leave it out, or give the size a model was trained with, which is not the size it was
loaded with. So the servers are asked at their own addresses: `/api/ps` and `/api/show` (Ollama), `/props` (llama.cpp),
`/api/v0/models` (LM Studio). vLLM has `max_model_len` in its listing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from sevenfold.providers.sdk import Fetch

_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)", re.M)


def running_window(model: str, fetch: Fetch) -> int | None:
    """The window a model runs with at a local server; None if the server does not say."""
    for ask in (_ollama, _llama_cpp, _lm_studio):
        try:
            if (found := ask(model, fetch)) is not None:
                return found
        except Exception:  # noqa: BLE001 (another server answers in another way: none of it may reach the session)
            continue
    return None


def _ollama(model: str, fetch: Fetch) -> int | None:
    """The window of the loaded model, else the one in its file: what an unloaded model will get is not known."""
    wanted = model if ":" in model else f"{model}:latest"
    for one in _decoded(fetch("/api/ps", None)).get("models") or ():
        if wanted in (one.get("name"), one.get("model")) and _positive(one.get("context_length")):
            return int(one["context_length"])
    shown = _decoded(fetch("/api/show", {"model": model}))
    written = _NUM_CTX.search(str(shown.get("parameters") or ""))
    return int(written[1]) if written else None


def _llama_cpp(model: str, fetch: Fetch) -> int | None:
    # A router loads any model that a request names, unless the request says not to.
    props = _decoded(fetch(f"/props?model={quote(model, safe='')}&autoload=false", None))
    size = (props.get("default_generation_settings") or {}).get("n_ctx")
    return size if type(size) is int and size > 0 else None


def _lm_studio(model: str, fetch: Fetch) -> int | None:
    for one in _decoded(fetch("/api/v0/models", None)).get("data") or ():
        if one.get("id") == model and _positive(one.get("loaded_context_length")):
            return int(one["loaded_context_length"])
    return None


def _decoded(raw: bytes) -> dict[str, Any]:
    return msgspec.json.decode(raw, type=dict[str, Any])


def _positive(value: object) -> bool:
    return type(value) is int and value > 0
