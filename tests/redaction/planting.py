"""A secret in every text of a type: what it is made of is looked up, so a field that is added is planted too."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Iterator
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect as types

from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.log import Answer
from sevenfold.record.redact import MODELS_BLOCKS

PLAIN: dict[type, Any] = {
    types.IntType: 1,
    types.FloatType: 1.0,
    types.BoolType: True,
    types.NoneType: None,
    types.BytesType: b"",
    types.AnyType: None,
}


def planted(kind: Any, secret: str) -> Any:
    """A value of a type that holds the secret wherever it can hold a text."""
    return _planted(types.type_info(kind), secret)


def _planted(info: types.Type, secret: str) -> Any:
    match info:
        case types.Metadata(type=inner):
            return _planted(inner, secret)
        case types.StrType() | types.AnyType() | types.CustomType():
            return f"see {secret} there"
        case types.RawType():
            return msgspec.Raw(json.dumps({"said": [f"see {secret} there"], secret: 1}).encode())
        case types.LiteralType(values=values):
            return values[0]
        case types.ListType(item_type=item) | types.VarTupleType(item_type=item):
            found = [_planted(item, secret)]
            return found if isinstance(info, types.ListType) else tuple(found)
        case types.TupleType(item_types=items):
            return tuple(_planted(item, secret) for item in items)
        case types.DictType(value_type=value):
            return {f"see {secret} there": _planted(value, secret)}
        case types.UnionType(types=options):
            return _planted(max(options, key=_worth), secret)
        case types.StructType(cls=made, fields=fields):
            return made(**{field.name: _planted(field.type, secret) for field in fields})
        case _:
            return PLAIN[type(info)]


def _worth(info: types.Type) -> int:
    """Which of several types is planted: what holds most."""
    order = (
        types.NoneType,
        types.BoolType,
        types.IntType,
        types.FloatType,
        types.LiteralType,
        types.StrType,
    )
    return order.index(type(info)) if type(info) in order else len(order)


def planted_blocks(secret: str) -> list[Block]:
    """A block of every kind that a user or a tool can give."""
    text = f"see {secret} there"
    given = [planted(kind, secret) for kind in _user_kinds()]
    found = [blocks.read(msgspec.json.encode(one)) for one in given]
    sources = [
        {"type": "text", "media_type": "text/plain", "data": text},
        {"type": "content", "content": [{"type": "text", "text": text}]},
        {"type": "url", "url": f"https://host/{secret}/x"},
        {"type": "file", "file_id": text},
    ]
    others: list[dict[str, Any]] = [
        {"type": kind, "source": source, "title": text, "context": text, "citations": {"enabled": True}}
        for kind in ("document", "image")
        for source in sources
    ]
    others += [
        {
            "type": "search_result",
            "source": text,
            "title": text,
            "content": [{"type": "text", "text": text}],
        },
        {"type": "of a kind that is not known", "words": [text, {text: text}]},
    ]
    found += [blocks.read(json.dumps(one).encode()) for one in others]
    inner = [json.loads(block.raw) for block in found if block.kind != "tool_result"]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": inner}
    return [*found, blocks.read(json.dumps(result).encode())]


def _user_kinds() -> Iterator[Any]:
    for kind in blocks.Known.__args__:
        if kind.__struct_config__.tag not in MODELS_BLOCKS:
            yield kind


def written_by(writer: Any, secret: str) -> Any:
    """What a function that writes a record makes of arguments that hold the secret."""
    hints = get_type_hints(writer, vars(inspect.getmodule(writer)))
    given: dict[str, Any] = {}
    for name in inspect.signature(writer).parameters:
        if name == "kind" and writer.__name__ == "labelled":
            given[name] = "custom-title"
        elif name == "role":
            given[name] = "user"
        elif "Block" in str(hints[name]):
            given[name] = planted_blocks(secret)
        elif hints[name] is Answer:
            given[name] = Answer("m-1", "a-model", tuple(_said(secret)))
        else:
            given[name] = planted(hints[name], secret)
    return writer(**given)


def _said(secret: str) -> Iterator[Block]:
    """What a model says."""
    said: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": f"see {secret}", "signature": secret},
        {"type": "text", "text": f"see {secret}"},
        {"type": "tool_use", "id": "t1", "name": "Shell", "input": {"command": f"echo {secret}"}},
    ]
    return (blocks.read(json.dumps(one).encode()) for one in said)


def places(value: Any, secret: str, name: str = "") -> Iterator[str]:
    """The names of the fields that hold the secret."""
    match value:
        case str() if secret in value:
            yield name
        case dict():
            for key, inner in value.items():
                if secret in key:
                    yield f"{name} (a name)"
                yield from places(inner, secret, key)
        case list():
            for inner in value:
                yield from places(inner, secret, name)


def plain_calls(value: Any, names: Collection[str]) -> Any:
    """The same with plain ids of calls, in the fields with these names."""
    match value:
        case dict():
            return {
                key: "t1" if key in names else plain_calls(inner, names) for key, inner in value.items()
            }
        case list():
            return [plain_calls(inner, names) for inner in value]
        case _:
            return value
