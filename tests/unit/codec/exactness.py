"""Equality that also sees types, at every depth: `1` is not `True`, a list is not a tuple."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec


def exact(value: Any) -> Any:
    """Return something that is equal for two values only if they are the same in every part."""
    kind = type(value)
    if isinstance(value, float):
        return kind, value.hex()
    if isinstance(value, Decimal):
        return kind, value.as_tuple()
    if isinstance(value, datetime):  # where a fold means something, it is in the offset
        return kind, value.isoformat(), str(value.tzinfo), type(value.tzinfo)
    if isinstance(value, dict):
        return kind, [(exact(key), exact(item)) for key, item in value.items()]
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(_hashable, value))
    if isinstance(value, list | tuple):
        return kind, [exact(item) for item in value]
    return kind, _fields(value)


def _fields(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return [exact(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return [exact(getattr(value, name)) for name in value.__struct_fields__]
    if hasattr(value, "__attrs_attrs__"):
        return [exact(getattr(value, field.name)) for field in value.__attrs_attrs__]
    if hasattr(value, "model_fields_set"):
        return exact(dict(value))
    return value


def _hashable(value: Any) -> Any:
    return repr(exact(value))
