"""Nesting ends at 64 levels, in every shape, and a cycle is called a cycle."""

from __future__ import annotations

from dataclasses import dataclass
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from onward.codec import decode, encode
from onward.errors import Unencodable

if TYPE_CHECKING:
    from collections.abc import Callable


def refusal(value: object, annotation: Any = Any) -> Unencodable:
    with pytest.raises(Unencodable) as caught:
        encode(value, annotation=annotation)
    return caught.value


@dataclass
class Chain:
    next: Chain | None = None


class Loop(TypedDict):
    inner: Loop | None


def deep(levels: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(levels):
        inner = wrap(inner)
    return inner


def hints(levels: int, kind: type, *more: Any, first: tuple[Any, ...] = ()) -> Any:
    return deep(levels, lambda inner: GenericAlias(kind, (*first, inner, *more)), int)


def list_or_text_of(inner: Any) -> Any:
    return GenericAlias(list, (inner,)) | list[str]


def in_a_list(inner: Any) -> Any:
    return [inner]


def in_a_dict(inner: Any) -> Any:
    return {"inner": inner}


def in_a_tuple(inner: Any) -> Any:
    return (inner,)


CASES: list[Any] = [
    pytest.param(in_a_list, 1, lambda _: Any, id="plain list"),
    pytest.param(in_a_dict, 1.0, lambda _: Any, id="plain dict"),
    pytest.param(in_a_list, 1, lambda n: hints(n, list), id="list"),
    pytest.param(in_a_tuple, 1, lambda n: hints(n, tuple, ...), id="tuple"),
    pytest.param(in_a_tuple, 1, lambda n: hints(n, tuple), id="fixed tuple"),
    pytest.param(lambda inner: frozenset({inner}), 1, lambda n: hints(n, frozenset), id="set"),
    pytest.param(in_a_dict, 1, lambda n: hints(n, dict, first=(str,)), id="dict"),
    pytest.param(in_a_dict, None, lambda _: Loop, id="TypedDict"),
    pytest.param(Chain, None, lambda _: Chain, id="dataclass"),
    pytest.param(in_a_list, 1, lambda n: deep(n, list_or_text_of, int), id="union"),
]


@pytest.mark.parametrize(("wrap", "inner", "hint"), CASES)
def test_64_levels_are_taken_and_65_are_not(
    wrap: Callable[[Any], Any], inner: Any, hint: Callable[[int], Any]
) -> None:
    taken = deep(64, wrap, inner)
    refused = refusal(deep(65, wrap, inner), hint(65))

    assert decode(encode(taken, annotation=hint(64)), hint(64)) == taken

    assert "more than 64 levels" in refused.fact
    assert len(refused.path) < 200


@pytest.mark.parametrize(("wrap", "hint"), [(in_a_list, Any), (in_a_dict, Any), (Chain, Chain)])
def test_ten_thousand_levels_are_refused_like_65(wrap: Callable[[Any], Any], hint: Any) -> None:
    refused = refusal(deep(10_000, wrap, None), hint)

    assert "more than 64 levels" in refused.fact
    assert len(refused.path) < 200


def test_a_cycle_is_called_a_cycle() -> None:
    inner: dict[str, Any] = {"leaf": [1.0]}
    inner["self"] = [inner]
    link = Chain()
    link.next = link

    assert refusal({"a": inner}).fact == "contains itself"
    assert refusal(link, Chain).fact == "contains itself"
