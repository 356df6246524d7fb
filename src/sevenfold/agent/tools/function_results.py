"""What a function gives back, as a model can read it.

Text is shown as it is, everything else as JSON: dataclasses, models, dates, paths, sets and the like by what they hold.
What can only be shown as an address in memory is an error that names its type, for a model would make something up.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Set
from numbers import Number
from os import PathLike, fspath
from typing import Any

import msgspec

from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.read import MOST_IMAGE_BYTES, picture

_BYTES = (bytes, bytearray, memoryview)


def shown(came: Any) -> ToolOutput:
    """The result of a call."""
    if isinstance(came, ToolOutput):
        return came
    if isinstance(came, _BYTES) and (image := _image(bytes(came))):
        return ToolOutput([image])
    try:
        return ToolOutput(words(came))
    except RecursionError:
        return failed(
            f"It gave back a {_named(came)} that holds itself, or is nested too deeply to be shown."
        )
    except (TypeError, ValueError, OverflowError) as error:
        return failed(f"It gave back a {_named(came)} that cannot be shown: {error}")


def words(came: Any) -> str:
    """A value as text."""
    if isinstance(came, str):
        return str.__str__(came)
    tree = _plain(msgspec.to_builtins(came, builtin_types=_BYTES, enc_hook=_plainer))
    return tree if isinstance(tree, str) else json.dumps(tree, ensure_ascii=False, separators=(",", ":"))


def _plainer(one: Any) -> Any:
    """What an object that JSON has no form for holds; asked again until everything is plain."""
    match one:
        case PathLike():
            return fspath(one)
        case Mapping():
            return dict(one)
        case Set() | range():
            return list(one)
        case BaseException():
            return f"{type(one).__name__}: {one}"
        case Number():
            return one.tolist() if hasattr(one, "tolist") else str(one)
    for method, options in (("model_dump", {"mode": "json"}), ("to_dict", {}), ("tolist", {})):
        if not isinstance(one, type) and callable(dump := getattr(one, method, None)):
            return dump(**options)
    if getattr(type(one), "__str__", None) is not getattr(object, "__str__", None):
        return str(one)
    raise TypeError(f"a {_named(one)} has no form in JSON; give back text, or what it holds")


def _plain(tree: Any) -> Any:
    """A tree as JSON holds it, without bending what it has no form for into something else."""
    match tree:
        case dict():
            return {_key(key): _plain(value) for key, value in tree.items()}
        case list() | tuple():
            return [_plain(one) for one in tree]
        case bytes() | bytearray() | memoryview():
            return _text(bytes(tree))
        case float() if not math.isfinite(tree):
            return str(tree)
        case _:
            return tree


def _key(key: Any) -> str:
    return key if isinstance(key, str) else words(key)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"[{len(raw):,} bytes that are no text]"


def _image(raw: bytes) -> dict[str, Any] | None:
    kind = picture(raw)
    if not kind or len(raw) > MOST_IMAGE_BYTES:
        return None
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(raw).decode()}
    return {"type": "image", "source": source}


def _named(one: Any) -> str:
    return type(one).__qualname__.rpartition(".")[2]


def lines(pieces: Iterable[str]) -> str:
    """Pieces as text, each on a line of its own."""
    return "\n".join(piece.removesuffix("\n") for piece in pieces)
