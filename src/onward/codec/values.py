"""Values to payloads and back.

With an annotation, what is encoded decodes to an equal value of the same type, or is refused at
once with the path to the field. Without one, or with `Any`, only plain data is taken: None, bool,
int, float, str, and lists and string-keyed dicts of them, which come back as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from onward.codec import document
from onward.codec.payload import JSON, MAX_PAYLOAD, Payload, unknown_tag
from onward.codec.shapes.compiler import shape_of
from onward.codec.shapes.refusal import Misfit, ValueRefused
from onward.codec.shapes.shape import KIND_OF
from onward.errors import PayloadTooLarge, Undecodable, Unencodable

if TYPE_CHECKING:
    from onward.codec.shapes.shape import Kind, Shape

T = TypeVar("T")


def encode(
    value: object, *, path: str = "value", annotation: Any = Any, limit: int = MAX_PAYLOAD
) -> Payload:
    """Return a value as bytes.

    Args:
        value: What to encode.
        path: What errors call the value; the path to a field starts with it.
        annotation: What `decode` will be given to read it back.
        limit: The maximum size of the encoded value, in bytes.

    Raises:
        Unencodable: the value would not come back equal and of the same type.
        PayloadTooLarge: the encoded value has more bytes than `limit`.
    """
    return pack(lower(shape_of(annotation), value, path), path, limit)


@overload
def decode(payload: Payload, annotation: type[T]) -> T: ...


@overload
def decode(payload: Payload, annotation: Any = Any) -> Any: ...


def decode(payload: Payload, annotation: Any = Any) -> Any:
    """Return the value that was encoded.

    With `Any` that is the stored JSON as plain data: a datetime is text, a tuple a list, a
    dataclass a dict.

    Raises:
        Undecodable: the bytes do not fit the annotation, or their tag cannot be read here.
    """
    shape = shape_of(annotation)
    return lift(shape, unpack(payload, shape.name), shape.name)


def lower(shape: Shape, value: object, path: str) -> Any:
    """Return a value as plain data, or say where it cannot be."""
    try:
        return shape.lower(value, 0)
    except ValueRefused as refused:
        raise Unencodable(refused.place(path), refused.fact, refused.advice) from None


def encode_as(shape: Shape, value: object, path: str, limit: int) -> Payload:
    """Return a value as a payload; one call for `lower` and `pack`, as each step has a result."""
    try:
        data = document.write(shape.lower(value, 0))
    except (ValueRefused, UnicodeEncodeError):
        return pack(lower(shape, value, path), path, limit)  # says what is wrong, and where
    if len(data) > limit:
        raise PayloadTooLarge(path, len(data), limit)
    return Payload(JSON, data)


def lift(shape: Shape, tree: Any, name: str, path: str = "value") -> Any:
    """Return the value in plain data, or say where it does not fit."""
    try:
        return shape.lift(tree)
    except Misfit as wrong:
        raise Undecodable(name, f"{wrong.place(path)} {wrong.fact}") from None
    except RecursionError:
        raise Undecodable(name, f"{path} is nested too deeply") from None


def decode_as(shape: Shape, payload: Payload, name: str) -> Any:
    """Return the value in a payload; one call for `unpack` and `lift`, as each step needs it."""
    try:
        if payload.tag == JSON:
            return shape.lift(document.read(payload.data))
    except (Misfit, RecursionError):
        pass  # below it is said what is wrong, and where
    return lift(shape, unpack(payload, name), name)


def pack(tree: Any, path: str, limit: int) -> Payload:
    """Return plain data as a payload."""
    try:
        data = document.write(tree)
    except UnicodeEncodeError:
        broken = document.surrogate(tree)
        raise Unencodable(broken.place(path), broken.fact, broken.advice) from None
    if len(data) > limit:
        raise PayloadTooLarge(path, len(data), limit)
    return Payload(JSON, data)


def unpack(payload: Payload, name: str) -> Any:
    """Return the plain data in a payload."""
    if payload.tag != JSON:
        raise unknown_tag(payload.tag, name)
    try:
        return document.read(payload.data)
    except Misfit as wrong:
        raise Undecodable(name, f"value {wrong.fact}") from None


def json_kind(payload: Payload) -> Kind:
    """Return what an encoded value is in JSON.

    Raises:
        Undecodable: the payload cannot be read here.
    """
    return KIND_OF[type(unpack(payload, "Any"))]
