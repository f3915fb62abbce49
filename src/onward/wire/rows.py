"""Rows of the model as messages, and back, by the names and types of their fields.

A row and its message have the same fields. An optional field of the row is one with presence in
the message, so None and an empty value stay apart. A test compares all of them in both directions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Any,
    NamedTuple,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from onward.errors import BadInput, Undecodable
from onward.model.records import NewRecord
from onward.model.runs import RunOwner

Convert: TypeAlias = Callable[[Any], Any]

USE_COMPATIBLE_VERSIONS = "Use compatible versions of client and server"

OMITTED: Mapping[type, Mapping[str, Any]] = {NewRecord: {"run": ""}, RunOwner: {"worker": ""}}
"""Fields that are not sent, because the receiver knows them, and what stands there instead."""


class FieldCodec(NamedTuple):
    """How one field of a row is converted; None: as it is."""

    name: str
    encode: Convert | None
    decode: Convert | None
    has_presence: bool = False
    is_required: bool = False
    """Whether it must be there: a message that the row has no other value for."""


class RowCodec:
    """Converts rows of one type to messages of one type, and back."""

    def __init__(self, row: Any, message: Any) -> None:
        omitted = OMITTED.get(row, {})
        hints = get_type_hints(row)
        descriptor = message.DESCRIPTOR
        names = [name for name in field_names(row) if name not in omitted]
        self.fields = [field_of(hints[name], descriptor.fields_by_name[name]) for name in names]
        self._message = message
        self._given = tuple(omitted[name] for name in field_names(row) if name in omitted)
        self._names = names
        self._encoders = [(field.name, field.encode) for field in self.fields if field.encode]
        self._read = attrgetter(*names) if len(names) > 1 else None
        self._required = [field for field in self.fields if field.is_required]
        placed = list(enumerate(self.fields, len(self._given)))
        self._present = [(place, field.name) for place, field in placed if field.has_presence]
        self._decoders = [(place, field.decode) for place, field in placed if field.decode]
        self._is_tuple = issubclass(row, tuple)
        self._make = row._make if self._is_tuple else lambda values: row(*values)

    def to_fields(self, row: Any) -> dict[str, Any]:
        """Return the fields of the message of a row, without those that are None."""
        pairs = zip(self._names, self._values(row), strict=True)
        given = {name: value for name, value in pairs if value is not None}
        for name, encode in self._encoders:
            if name in given:
                given[name] = encode(given[name])
        return given

    def to_message(self, row: Any) -> Any:
        """Return the message of a row."""
        if self._encoders:
            return self._message(**self.to_fields(row))
        message = self._message()
        self.fill(message, row)
        return message

    def fill(self, message: Any, row: Any) -> None:
        """Fill an empty message, none of whose fields has to be converted, with those of a row.

        It takes half as long as the constructor of the message.
        """
        for name, value in zip(self._names, self._values(row), strict=True):
            if value is not None:
                setattr(message, name, value)

    def _values(self, row: Any) -> Iterable[Any]:
        if self._is_tuple:
            return cast("Iterable[Any]", row[len(self._given) :])
        return [getattr(row, name) for name in self._names]

    def to_row(self, message: Any, given: tuple[Any, ...] | None = None) -> Any:
        """Return the row of a message.

        Args:
            message: The message.
            given: The first fields of the row, which are not sent.

        Raises:
            BadInput: a field is missing.
            Undecodable: a field has a value that this version does not know.
        """
        values = [*(self._given if given is None else given)]
        if self._read is None:
            values.append(getattr(message, self._names[0]))
        else:
            values += self._read(message)
        has = message.HasField
        for field in self._required:
            if not has(field.name):
                check_absent(field)
        for place, name in self._present:
            if not has(name):
                values[place] = None
        for place, decode in self._decoders:
            if values[place] is not None:
                values[place] = decode(values[place])
        return self._make(values)


@cache
def codec(row: type, message: Any) -> RowCodec:
    """Return the codec for rows of a type."""
    return RowCodec(row, message)


def field_names(row: type) -> tuple[str, ...]:
    """Return the names of the fields of a row, in order."""
    if dataclasses.is_dataclass(row):
        return tuple(field.name for field in dataclasses.fields(row))
    names: tuple[str, ...] = vars(row)["_fields"]
    return names


def is_row(hint: Any) -> bool:
    """Return whether a type is one of rows: a named tuple or a dataclass."""
    return isinstance(hint, type) and (hasattr(hint, "_fields") or dataclasses.is_dataclass(hint))


def field_of(hint: Any, field: Any) -> FieldCodec:
    """Return how a field of this type is converted to a field of a message."""
    hint, is_optional = without_none(hint)
    if is_optional and not field.has_presence:
        raise TypeError(f"{field.full_name} cannot be absent, but {hint} can be None")
    if issubclass(get_origin(hint) or object, Mapping):
        return FieldCodec(field.name, *_mapping(get_args(hint), field))
    if field.is_repeated:
        encode, decode = _element(get_args(hint)[0], field)
        is_tuple = get_origin(hint) is tuple
        return FieldCodec(field.name, *_list(encode, decode, tuple if is_tuple else list))
    encode, decode = _element(hint, field)
    is_message = field.message_type is not None
    return FieldCodec(
        field.name, encode, decode, is_optional or is_message, is_message and not is_optional
    )


def check_absent(field: FieldCodec) -> None:
    """Refuse a message without a field that it must have.

    Raises:
        BadInput: it is such a field.
    """
    if field.is_required:
        raise BadInput(f"field {field.name}", "is missing from a message", USE_COMPATIBLE_VERSIONS)


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether that was one of its alternatives."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    left = [each for each in get_args(hint) if each is not NoneType]
    if len(left) != 1:
        raise TypeError(f"{hint} has more than one alternative")
    return left[0], True


def _element(hint: Any, field: Any) -> tuple[Convert | None, Convert | None]:
    if field.message_type is not None:
        row = codec(hint, _class_of(field.message_type))
        return row.to_message, row.to_row
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return None, _word(hint)
    if hint is bool and field.cpp_type != field.CPPTYPE_BOOL:
        return int, bool
    return None, None


def _list(
    encode: Convert | None, decode: Convert | None, made: Callable[[Any], Any]
) -> tuple[Convert | None, Convert]:
    def to_list(values: Collection[Any]) -> Any:
        return values if encode is None else list(map(encode, values))

    def from_list(values: Any) -> Any:
        return made(values if decode is None else map(decode, values))

    return to_list, from_list


def _mapping(hints: tuple[Any, ...], field: Any) -> tuple[Convert | None, Convert]:
    key, value = hints
    entry = field.message_type
    if not entry.GetOptions().map_entry:  # a list of pairs: its keys are rows
        pair = _class_of(entry)
        first, second = map(field_of, hints, entry.fields)

        def to_pairs(values: Mapping[Any, Any]) -> list[Any]:
            assert first.encode is not None
            assert second.encode is not None
            return [
                pair(**{first.name: first.encode(k), second.name: second.encode(v)})
                for k, v in values.items()
            ]

        def from_pairs(values: Any) -> dict[Any, Any]:
            assert first.decode is not None
            assert second.decode is not None
            return {
                first.decode(getattr(each, first.name)): second.decode(getattr(each, second.name))
                for each in values
            }

        return to_pairs, from_pairs
    if is_row(key) or is_row(value):
        raise TypeError(f"{field.full_name} cannot hold {value}")
    return dict, dict


def _word(words: type[StrEnum]) -> Convert:
    def decode(text: str) -> StrEnum:
        try:
            return words(text)
        except ValueError:
            fact = f"{text!r} is not one of its values"
            raise Undecodable(words.__name__, fact, advice=USE_COMPATIBLE_VERSIONS) from None

    return decode


def _class_of(descriptor: Any) -> Any:
    from onward.wire.messages import messages

    return getattr(messages, descriptor.name)
