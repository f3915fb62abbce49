"""The types of the state and the data of handlers, taken from their annotations."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, TypeVar, get_args, get_origin

from onward.codec.shapes.hints import (
    NONE_GIVEN,
    Unresolved,
    arguments_of_base,
    globals_of,
    resolve,
)
from onward.runtime.pipelines.values import Prepared
from onward.sdk.pipelines.consumer import Consumer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Stored(NamedTuple):
    """The annotations of what a handler stores."""

    state: Any
    data: Any = Any


def stored_by_producer(fn: Callable[..., Any], around: Mapping[str, Any]) -> Stored:
    """Return the annotation of the state, the second parameter of a producer."""
    return Stored(_second_parameter(fn, globals_of(fn), around))


def stored_by_consumer(kind: type, prepare: Any, around: Mapping[str, Any]) -> Stored:
    """Return the annotations of the state and the data of a consumer.

    They are those of `Consumer[State, Data]`, or else of its method `prepare`. The data may also be
    None, as `Prepared()` has none.
    """
    known = globals_of(prepare)
    if issubclass(kind, Consumer):
        given = arguments_of_base(kind, Consumer)
        if not any(isinstance(argument, TypeVar) for argument in given):
            state, base_data = (resolve(argument, known, around) for argument in given)
            return Stored(state, _or_none(base_data))
    returned = _resolved(inspect.signature(prepare).return_annotation, known, around)
    data: Any = Any
    if isinstance(returned, Unresolved):
        data = returned
    elif get_origin(returned) is Prepared:
        (data,) = get_args(returned)
    return Stored(_second_parameter(prepare, known, around), _or_none(data))


def _or_none(annotation: Any) -> Any:
    if annotation is Any or isinstance(annotation, Unresolved):
        return annotation
    return Optional[annotation]  # noqa: UP045 - an annotation known only at run time


def _second_parameter(
    fn: Callable[..., Any], known: Mapping[str, Any], around: Mapping[str, Any]
) -> Any:
    parameters = list(inspect.signature(fn).parameters.values())
    has_two = len(parameters) > 1 and parameters[1].kind in _BY_POSITION
    return _resolved(parameters[1].annotation, known, around) if has_two else Any


def _resolved(raw: Any, known: Mapping[str, Any], around: Mapping[str, Any]) -> Any:
    return Any if raw is NONE_GIVEN else resolve(raw, known, around)
