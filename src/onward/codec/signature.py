"""The shape of a callable: its arguments as one payload, and its result as another.

Arguments are stored as one object by parameter name, in the order of the signature, so it does not
matter how a call was spelled. What the caller left to defaults is not stored: the code that runs
decides about it, and a new parameter with a default fits old calls.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from inspect import Parameter
from types import GenericAlias
from typing import TYPE_CHECKING, Any, NamedTuple, Union, Unpack, get_args, get_origin

from onward.codec import document
from onward.codec.fingerprint import fingerprint_of_json
from onward.codec.parameters import Parameters
from onward.codec.payload import MAX_PAYLOAD, Payload
from onward.codec.shapes.compiler import shape_of
from onward.codec.shapes.hints import (
    NONE_GIVEN,
    Unresolved,
    globals_of,
    namespace_around,
    resolve,
    without_metadata,
)
from onward.codec.shapes.refusal import ValueRefused, key_step
from onward.codec.values import decode_as, encode_as, lift, pack, unpack
from onward.core.value import Struct
from onward.errors import Undecodable, Unencodable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onward.codec.shapes.shape import Shape


_BY_POSITION = frozenset({Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD})


def signature_of(fn: Callable[..., Any], *, method: bool = False) -> CallShape:
    """Return the shape of a callable's arguments and result.

    Annotations are resolved when they are first needed, so they may name what is defined later.
    Call it while the function is being decorated: names that are local to the function around it
    can be seen only then.

    Args:
        fn: The callable.
        method: Leave out the first parameter, which is `self`.
    """
    return CallShape(fn, method=method)


class Arguments(Struct):
    """The arguments of one call, checked and ready to be stored or compared.

    It holds what the caller gave and copies nothing, so ask it before the caller goes on.
    """

    path: str
    tree: dict[str, Any]
    defaults: dict[str, Any]
    is_sorted: bool

    def payload(self, *, limit: int = MAX_PAYLOAD) -> Payload:
        """Return them as bytes.

        Raises:
            PayloadTooLarge: there are more bytes than `limit`.
            Unencodable: some text has a lone surrogate.
        """
        return pack(self.tree, self.path, limit)

    def fingerprint(self) -> str:
        """Return a hash that is equal for equal arguments; see `canonical`."""
        return fingerprint_of_json(self.canonical())

    def canonical(self) -> bytes:
        """Return JSON that is equal for equal arguments, however the call was spelled.

        An argument that equals its default counts as left out, so that a new parameter with a
        default changes nothing.

        Raises:
            Unencodable: some text has a lone surrogate.
        """
        try:
            return document.write_sorted(self._given() if self.defaults else self.tree)
        except UnicodeEncodeError:
            broken = document.surrogate(self.tree)
            raise Unencodable(broken.place(self.path), broken.fact, broken.advice) from None

    def in_order(self, canonical: bytes) -> bytes:
        """Return the JSON of `canonical` with the arguments in the order of the signature."""
        return canonical if self.is_sorted else document.write(self._given())

    def _given(self) -> dict[str, Any]:
        """Return the arguments without those that equal their defaults."""
        defaults = self.defaults
        return {
            name: item
            for name, item in self.tree.items()
            if name not in defaults or not _same(item, defaults[name])
        }


class CallShape:
    """How the arguments and the result of one callable are stored; made by `signature_of`."""

    def __init__(self, fn: Callable[..., Any], *, method: bool = False) -> None:
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self._fn = fn
        self._arguments_path = f"{self.name}(…)"
        self._result_path = f"{self.name}()"
        self._method = method
        self._around = namespace_around(fn)
        self._known: _Resolved | None = None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Return the arguments of a call, checked.

        Raises:
            TypeError: the callable cannot be called like this.
            Unencodable: an argument would not come back equal and of the same type.
        """
        resolved = self._known or self._resolved()
        tree: dict[str, Any] = {}
        name = ""
        try:
            if not kwargs and len(args) == resolved.positional:  # as most calls are spelled
                for (name, shape), value in zip(resolved.shapes.items(), args, strict=True):
                    tree[name] = shape.lower(value, 0)
            else:
                given = resolved.parameters.assign(args, kwargs)
                for name, shape in resolved.shapes.items():
                    if name in given:
                        tree[name] = shape.lower(given[name], 0)
        except ValueRefused as refused:
            path = f"{self.name}({refused.place(name)})"
            raise Unencodable(path, refused.fact, refused.advice) from None
        return Arguments(
            self._arguments_path, tree, resolved.defaults, is_sorted=resolved.is_sorted
        )

    def encode(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, limit: int = MAX_PAYLOAD
    ) -> Payload:
        """Return the arguments of a call as bytes; see `bind` and `Arguments.payload`."""
        return self.bind(args, kwargs).payload(limit=limit)

    def fingerprint(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the fingerprint of the arguments of a call; see `Arguments.fingerprint`."""
        return self.bind(args, kwargs).fingerprint()

    def decode(self, payload: Payload) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that were encoded, as `(args, kwargs)`.

        Raises:
            Undecodable: they do not fit the signature as it is now.
        """
        where = f"the arguments of {self.name}"
        tree = unpack(payload, where)
        if type(tree) is not dict:
            advice = "Start the run again, with its arguments as a JSON object"
            raise Undecodable(where, "the stored arguments are not a JSON object", advice=advice)
        values = {name: self._lift(name, item, where) for name, item in tree.items()}
        try:
            return self._resolved().parameters.spread(values)
        except TypeError as error:
            advice = "Give each new parameter a default value"
            raise Undecodable(where, str(error), advice=advice) from None

    def encode_result(self, value: object, *, limit: int = MAX_PAYLOAD) -> Payload:
        """Return a result as bytes, by the return annotation.

        Raises:
            Unencodable: it would not come back equal and of the same type.
            PayloadTooLarge: there are more bytes than `limit`.
        """
        resolved = self._known or self._resolved()
        return encode_as(resolved.result, value, self._result_path, limit)

    def decode_result(self, payload: Payload) -> Any:
        """Return the result that was encoded.

        Raises:
            Undecodable: it does not fit the return annotation as it is now.
        """
        resolved = self._known or self._resolved()
        return decode_as(resolved.result, payload, resolved.result_name)

    @cached_property
    def returns(self) -> str:
        """The name of the return annotation, and what its values are in JSON: `Charge: object`."""
        result = self._resolved().result
        return f"{result.name}: {' '.join(sorted(result.kinds))}"

    @property
    def call_text(self) -> str:
        """How the callable is called: `order(item: str, count: int = ...)`."""
        resolved = self._resolved()
        parameters = (
            f"{each.name}: {resolved.shapes[each.name].name}"
            + ("" if each.default is Parameter.empty else " = ...")
            for each in resolved.parameters
        )
        return f"{self.name}({', '.join(parameters)})"

    def _lift(self, name: str, item: Any, where: str) -> Any:
        shape = self._resolved().shapes.get(name)
        if shape is None:
            step = key_step(name, 0)
            shown = repr(name) if step.startswith(".") else step
            advice = "Keep the parameter while runs that were started with it are open"
            raise Undecodable(where, f"there is no parameter {shown}", advice=advice)
        return lift(shape, item, where, name)

    def _resolved(self) -> _Resolved:
        # No cached_property: every step asks three times, and that takes five times as long.
        if self._known is None:
            self._known = self._resolve()
        return self._known

    def _resolve(self) -> _Resolved:
        signature = inspect.signature(self._fn)
        if self._method:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        parameters = signature.parameters.values()
        shapes = {parameter.name: self._parameter_shape(parameter) for parameter in parameters}
        result = shape_of(self._hint(signature.return_annotation))
        return _Resolved(
            Parameters(self.name, signature),
            len(shapes) if all(each.kind in _BY_POSITION for each in parameters) else -1,
            shapes,
            result,
            f"{result.name}, the result of {self.name}",
            _defaults(parameters, shapes),
            list(shapes) == sorted(shapes),
        )

    def _parameter_shape(self, parameter: Parameter) -> Shape:
        hint = self._hint(parameter.annotation)
        if get_origin(hint) is Unpack:
            return shape_of(get_args(hint)[0])
        if parameter.kind is Parameter.VAR_POSITIONAL:
            return shape_of(GenericAlias(tuple, (hint, ...)))
        if parameter.kind is Parameter.VAR_KEYWORD:
            return shape_of(GenericAlias(dict, (str, hint)))
        if parameter.default is None and not isinstance(hint, Unresolved):
            # What `name: str = None` means.
            return shape_of(Union[without_metadata(hint), None])  # noqa: UP007 - a variable
        return shape_of(hint)

    def _hint(self, raw: Any) -> Any:
        if raw is NONE_GIVEN:
            return raw
        return resolve(raw, globals_of(self._fn), self._around)


class _Resolved(NamedTuple):
    """What is known of a callable once its annotations are resolved."""

    parameters: Parameters
    positional: int
    """How many parameters there are; -1 if not all of them can be given by position."""
    shapes: dict[str, Shape]
    result: Shape
    result_name: str
    defaults: dict[str, Any]
    is_sorted: bool
    """Whether the parameters are in alphabetical order."""


def _defaults(parameters: Any, shapes: dict[str, Shape]) -> dict[str, Any]:
    """Return the lowered defaults, of those parameters whose default could be stored at all."""
    trees: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.default is not Parameter.empty:
            try:
                tree = shapes[parameter.name].lower(parameter.default, 0)
                # A copy, because the function may change a default that is a list.
                trees[parameter.name] = document.read(document.write(tree))
            except (ValueRefused, UnicodeEncodeError):
                continue
    return trees


def _same(tree: Any, other: Any) -> bool:
    # Python calls 1, 1.0 and True equal; their JSON differs.
    return bool(tree == other) and document.write_sorted(tree) == document.write_sorted(other)
