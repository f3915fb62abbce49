"""The arguments of a call are one payload, however the call was spelled."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack

import pytest

from onward.codec import Payload, signature_of
from onward.errors import Undecodable, Unencodable

if TYPE_CHECKING:
    from collections.abc import Callable

    from nowhere import Missing  # type: ignore[import-not-found]

P = ParamSpec("P")
T = TypeVar("T")

NOON = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - naive moments are values like others


@dataclass
class Card:
    number: str
    until: datetime | None = None


class Options(TypedDict, total=False):
    when: datetime


def charge(card: Card, cents: int, *, note: str = "", when: datetime | None = None) -> list[Card]:
    return [card]


def positional(a: int, b: int = 2, /, c: int = 3) -> None: ...


def gather(first: int, *rest: datetime, flag: bool = False, **named: datetime) -> None: ...


def bare(a, b=None):  # type: ignore[no-untyped-def]
    return a


CARD = Card("4242")


def stored(text: str) -> Payload:
    return Payload("json", text.encode())


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"),
    [
        (charge, (CARD, 5), {}),
        (charge, (CARD, 5), {"note": "x", "when": NOON}),
        (charge, (CARD, 5), {"when": None}),
        (positional, (1,), {}),
        (positional, (1, 5, 6), {}),
        (positional, (1,), {"c": 6}),
        (gather, (1,), {}),
        (gather, (1, NOON, NOON), {"flag": True, "other": NOON}),
        (gather, (1,), {"a": NOON}),
        (bare, ({"x": [1]},), {}),
        (bare, (1, 2), {}),
    ],
)
def test_arguments_come_back(fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
    shape = signature_of(fn)

    assert shape.decode(shape.encode(args, kwargs)) == (args, kwargs)


def test_every_spelling_of_a_call_is_stored_alike() -> None:
    shape = signature_of(charge)
    spellings = [
        shape.encode((CARD, 5), {"note": "x"}),
        shape.encode((CARD,), {"note": "x", "cents": 5}),
        shape.encode((), {"note": "x", "cents": 5, "card": CARD}),
    ]

    assert set(spellings) == {
        stored('{"card":{"number":"4242","until":null},"cents":5,"note":"x"}')
    }


def test_defaults_are_not_stored() -> None:
    assert signature_of(bare).encode((1,), {}) == stored('{"a":1}')


def test_an_argument_without_annotation_is_stored_as_it_is() -> None:
    assert signature_of(bare).encode((1, {"b": None}), {}) == stored('{"a":1,"b":{"b":null}}')


def test_an_argument_after_a_gap_comes_back_by_name() -> None:
    def fn(a: int = 1, b: int = 2, c: int = 3) -> None: ...

    shape = signature_of(fn)

    assert shape.decode(shape.encode((), {"c": 5})) == ((), {"c": 5})
    assert shape.decode(shape.encode((9,), {"c": 5})) == ((9,), {"c": 5})


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "message"),
    [
        (charge, (), {}, r"charge\(\) missing a required argument: 'card'"),
        (charge, (1, 2, 3), {}, r"charge\(\) too many positional arguments"),
        (charge, (CARD, 5), {"cents": 5}, r"charge\(\) multiple values for argument 'cents'"),
        (charge, (CARD, 5), {"x": 5}, r"charge\(\) got an unexpected keyword argument 'x'"),
        (positional, (), {"a": 1}, r"positional\(\) .*'a'"),
    ],
)
def test_a_wrong_call_is_a_type_error_at_once(
    fn: Callable[..., Any], args: Any, kwargs: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        signature_of(fn).bind(args, kwargs)

    assert type(caught.value) is TypeError


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "path"),
    [
        (charge, (CARD, "5"), {}, "charge(cents)"),
        (charge, (Card("1", "soon"), 5), {}, "charge(card.until)"),  # type: ignore[arg-type]
        (gather, (1, NOON, "x"), {}, "gather(rest[1])"),
        (gather, (1,), {"other": "x"}, "gather(named.other)"),
        (bare, ([NOON],), {}, "bare(a[0])"),
    ],
)
def test_an_argument_that_would_change_is_refused_with_its_place(
    fn: Callable[..., Any], args: Any, kwargs: Any, path: str
) -> None:
    with pytest.raises(Unencodable) as caught:
        signature_of(fn).bind(args, kwargs)

    assert caught.value.path == path


def test_a_missing_annotation_is_called_missing() -> None:
    with pytest.raises(Unencodable, match=r"is a datetime, but it has no annotation: "):
        signature_of(bare).bind((NOON,), {})


def broken_default(a: Any = "\ud800") -> None: ...


def test_half_a_character_in_a_default_is_no_obstacle() -> None:
    shape = signature_of(broken_default)

    assert shape.fingerprint((), {}) != shape.fingerprint((1,), {})
    with pytest.raises(Unencodable, match="lone surrogate"):
        shape.fingerprint(("\ud800",), {})


def test_half_a_character_is_refused_in_arguments_too() -> None:
    arguments = signature_of(bare).bind((["\ud800"],), {})

    with pytest.raises(Unencodable, match="lone surrogate") as caught:
        arguments.payload()
    assert caught.value.path == "bare(…).a[0]"
    with pytest.raises(Unencodable, match="lone surrogate"):
        arguments.fingerprint()


# --- results ------------------------------------------------------------------------------------


def test_a_result_is_stored_by_the_return_annotation() -> None:
    shape = signature_of(charge)

    assert shape.decode_result(shape.encode_result([CARD])) == [CARD]
    with pytest.raises(Unencodable) as caught:
        shape.encode_result([CARD, "x"])
    assert caught.value.path == "charge()[1]"


def test_a_result_that_no_longer_fits_says_whose_it_is() -> None:
    with pytest.raises(Undecodable, match=r"does not match list\[Card\], the result of charge: "):
        signature_of(charge).decode_result(stored("1"))


def test_a_result_without_annotation_is_plain_data() -> None:
    shape = signature_of(bare)

    assert shape.decode_result(shape.encode_result({"a": [None]})) == {"a": [None]}


async def later() -> datetime:
    return NOON


def test_the_result_of_an_async_function_is_what_it_returns() -> None:
    shape = signature_of(later)

    assert shape.decode_result(shape.encode_result(NOON)) == NOON


# --- old payloads, new code ---------------------------------------------------------------------


def test_a_new_parameter_with_a_default_fits_old_calls() -> None:
    assert signature_of(charge).decode(stored('{"card":{"number":"1"},"cents":5}')) == (
        (Card("1"), 5),
        {},
    )


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ('{"card":{"number":"1"}}', "charge() missing a required argument: 'cents'"),
        ('{"card":{"number":"1"},"cents":5,"tip":1}', "there is no parameter 'tip'"),
        ('{"card":{"number":1},"cents":5}', "card.number is a number, not a str"),
        ("[]", "the stored arguments are not a JSON object"),
        ("", "value is not JSON"),
    ],
)
def test_arguments_that_no_longer_fit_are_undecodable(text: str, fact: str) -> None:
    with pytest.raises(Undecodable) as caught:
        signature_of(charge).decode(stored(text))

    assert caught.value.annotation == "the arguments of charge"
    assert caught.value.fact == fact


def test_a_shape_says_how_it_is_called() -> None:
    def fn(a: int, b: list[str] | None = None, *, c: datetime = NOON) -> None: ...

    text = "fn(a: int, b: list[str] | None = ..., c: datetime = ...)"
    assert signature_of(fn).call_text == text


def test_a_gap_before_starred_arguments_is_never_filled_with_them() -> None:
    def fn(a: int, b: int = 2, *rest: int) -> None: ...

    with pytest.raises(Undecodable, match="has no value for 'b' before"):
        signature_of(fn).decode(stored('{"a":1,"rest":[5]}'))


# --- annotations --------------------------------------------------------------------------------


def test_a_function_defined_inside_another_sees_what_is_around_it() -> None:
    @dataclass
    class Local:
        when: datetime

    def decorate(fn: Callable[..., Any]) -> Any:
        return signature_of(fn)

    @decorate
    def outer(x: Local) -> None: ...

    class Steps:
        @dataclass
        class Inner:
            when: datetime

        @staticmethod
        @decorate
        def inner(x: Inner) -> None: ...

    for shape, value in ((outer, Local(NOON)), (Steps.inner, Steps.Inner(NOON))):
        assert shape.decode(shape.encode((value,), {})) == ((value,), {})


class Unready:
    """A callable whose annotations cannot be looked at yet, as on Python 3.14."""

    ready = False

    def __getattribute__(self, name: str) -> Any:
        if name == "__annotations__" and not self.ready:
            raise NameError
        return super().__getattribute__(name)

    def __call__(self, when: datetime) -> None: ...


def test_annotations_that_are_not_ready_are_left_for_later() -> None:
    unready = Unready()
    vars(unready)["__qualname__"] = "around.<locals>.unready"

    shape = signature_of(unready)
    unready.ready = True

    assert shape.encode((NOON,), {}) == stored('{"when":"2026-03-01T12:00:00"}')


def test_an_annotation_may_name_what_is_defined_later() -> None:
    shape = signature_of(early)

    assert shape.decode(shape.encode((Late(NOON),), {})) == ((Late(NOON),), {})


def early(x: Late) -> None: ...


@dataclass
class Late:
    when: datetime


def unresolved(a: Missing, b: datetime, c: Missing = None) -> None: ...


def test_an_annotation_that_cannot_be_resolved_spoils_only_itself() -> None:
    shape = signature_of(unresolved)

    assert shape.decode(shape.encode(({"x": 1}, NOON), {})) == (({"x": 1}, NOON), {})
    with pytest.raises(Unencodable, match="Missing, cannot be resolved at run time") as caught:
        shape.encode((NOON, NOON), {})
    assert "TYPE_CHECKING" in caught.value.advice


def test_none_as_a_default_allows_none() -> None:
    def fn(when: datetime = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    marked_hint = Annotated[datetime | int, ["no hash"]]

    def marked(when: marked_hint = None) -> None: ...  # type: ignore[assignment]

    for shape in (signature_of(fn), signature_of(marked)):
        assert shape.decode(shape.encode((None,), {})) == ((None,), {})
        assert shape.decode(shape.encode((NOON,), {})) == ((NOON,), {})


class Service(Generic[T]):
    def send(self, when: datetime) -> T: ...  # type: ignore[empty-body]

    def __call__(self, when: datetime) -> None: ...


def test_the_self_of_a_method_is_not_an_argument() -> None:
    for shape in (signature_of(Service.send, method=True), signature_of(Service().send)):
        assert shape.encode((NOON,), {}) == stored('{"when":"2026-03-01T12:00:00"}')


def test_callables_of_every_kind_have_a_signature() -> None:
    @functools.wraps(later)
    async def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    partial = functools.partial(charge, CARD)
    instance: Service[Any] = Service()

    assert signature_of(wrapper).decode_result(stored('"2026-03-01T12:00:00"')) == NOON
    assert signature_of(partial).encode((5,), {}) == stored('{"cents":5}')
    assert signature_of(instance).encode((NOON,), {}) == stored('{"when":"2026-03-01T12:00:00"}')
    assert signature_of(Card).encode(("1",), {}) == stored('{"number":"1"}')


def unpacked(**options: Unpack[Options]) -> None: ...


def passing(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None: ...


def test_keyword_arguments_may_be_a_typed_dict() -> None:
    shape = signature_of(unpacked)

    assert shape.decode(shape.encode((), {"when": NOON})) == ((), {"when": NOON})


def test_parameters_that_are_passed_on_are_plain_data() -> None:
    shape = signature_of(passing)

    with pytest.raises(Unencodable, match="open resources cannot be stored"):
        shape.encode((later,), {})


class Connection:
    pass


def test_nothing_but_what_annotations_mention_is_kept_alive() -> None:
    def make() -> tuple[Any, weakref.ref[Connection]]:
        @dataclass
        class Local:
            x: int

        connection = Connection()

        def fn(x: Local) -> None: ...

        return signature_of(fn), weakref.ref(connection)

    shape, connection = make()

    assert connection() is None
    with pytest.raises(Unencodable, match="is an int, but its annotation is Local"):
        shape.encode((1,), {})
