"""A registered exception type comes back as itself, or not at all."""

from __future__ import annotations

import errno
import threading
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Self
from uuid import UUID

import attrs
import pytest

from onward.codec import (
    StepFailed,
    decode_error,
    encode_error,
    read_error,
    register_error,
)
from onward.codec.failures import registry
from onward.errors import BadInput

NOON = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - naive moments are values like others


@pytest.fixture(autouse=True)
def _a_registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [each for each in registry._by_type.values() if each.name.startswith("builtins.")]
    monkeypatch.setattr(registry, "_by_type", {each.kind: each for each in own})
    monkeypatch.setattr(registry, "_by_name", {each.name: each for each in own})


def back(error: BaseException) -> Any:
    return decode_error(encode_error(error))


class CardDeclined(Exception):
    pass


class Rejected(Exception):
    def __init__(self, code: int, *, when: datetime) -> None:
        super().__init__(f"rejected with {code}")
        self.code = code
        self.when = when


@dataclass
class OutOfStock(Exception):
    sku: str
    lines: list[Decimal]

    def __str__(self) -> str:
        return f"{self.sku}: {self.lines}"


@attrs.define(eq=False)
class Late(Exception):
    by: int

    def __str__(self) -> str:
        return f"late by {self.by}"


class Slotted(Exception):
    __slots__ = "place"
    place: UUID


@pytest.mark.parametrize(
    "error",
    [
        CardDeclined(),
        CardDeclined("no funds", 5, 1.5, None, True),
        CardDeclined(NOON, UUID(int=1), Decimal("1.10"), b"x", (1, 2), {1}, [1], {"a": 1}),
        Rejected(5, when=NOON),
        OutOfStock("a", [Decimal("1.10")]),
        OutOfStock(sku="a", lines=[]),
        Late(5),
        KeyError("x"),
        KeyError(UUID(int=1)),
        ValueError("x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        FileNotFoundError(errno.ENOENT, "gone", "a.txt"),
        OSError(errno.EXDEV, "no", "a", None, "b"),
        OSError("plain"),
        StopIteration(5),
        KeyboardInterrupt("x"),
    ],
    ids=repr,
)
def test_a_registered_exception_comes_back_as_itself(error: BaseException) -> None:
    register_error(type(error))

    revived = back(error)

    assert type(revived) is type(error)
    assert revived.args == error.args
    assert str(revived) == str(error)
    assert vars(revived) == vars(error)


def test_attributes_come_back_in_slots_and_by_annotation() -> None:
    register_error(Slotted)
    register_error(Late)
    error = Slotted("x")
    error.place = UUID(int=5)

    assert back(error).place == UUID(int=5)
    assert not hasattr(back(Slotted("x")), "place")
    assert back(Late(5)).by == 5


def test_notes_and_chain_of_a_registered_exception_come_back() -> None:
    register_error(CardDeclined)
    error = CardDeclined("x")
    error.add_note("note")
    error.__cause__ = CardDeclined("y")
    error.__cause__.__context__ = ValueError("z")

    revived = back(error)

    assert revived.__notes__ == ["note"]
    assert type(revived.__cause__) is CardDeclined
    assert type(revived.__cause__.__context__) is ValueError


def test_members_of_a_group_come_back_as_themselves() -> None:
    register_error(CardDeclined)

    revived = back(ExceptionGroup("g", [CardDeclined("x"), ValueError("y")]))

    assert [type(member) for member in revived.exceptions] == [CardDeclined, ValueError]


def test_a_group_of_base_exceptions_comes_back_as_one() -> None:
    register_error(KeyboardInterrupt)

    revived = back(BaseExceptionGroup("g", [KeyboardInterrupt()]))

    assert type(revived) is BaseExceptionGroup


def test_a_subclass_of_a_registered_type_is_not_registered() -> None:
    class Worse(CardDeclined):
        pass

    register_error(CardDeclined)

    assert type(back(Worse("x"))) is StepFailed


class Remote(Exception):
    def __init__(self, response: Any) -> None:
        self.response = response

    def __str__(self) -> str:
        return f"status {self.response}"


class Numbered(Exception):
    made = 0

    def __str__(self) -> str:
        Numbered.made += 1
        return f"number {Numbered.made}"


class Particular(Exception):
    def __new__(cls, only: Any) -> Self:
        return super().__new__(cls, only)

    def __init__(self, only: Any) -> None:
        super().__init__(only, "and more")


@pytest.mark.parametrize(
    "error",
    [
        Remote(threading.Lock()),
        CardDeclined(threading.Lock()),
        CardDeclined("x" * 70_000),
        CardDeclined("\ud800"),
        Numbered(),
        Particular(1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_that_cannot_be_rebuilt_is_a_step_failed(error: BaseException) -> None:
    register_error(type(error))

    assert type(back(error)) is StepFailed


def test_a_type_may_say_how_it_is_stored() -> None:
    register_error(
        Remote, to_data=lambda error: {"status": 404}, from_data=lambda data: Remote(data["status"])
    )

    revived = back(Remote(threading.Lock()))

    assert type(revived) is Remote
    assert revived.response == 404


@pytest.mark.parametrize(
    ("to_data", "from_data"),
    [
        (lambda _: NOON, lambda _: CardDeclined()),
        (lambda error: error.nothing, lambda _: CardDeclined()),
        (lambda _: 1, lambda data: data.nothing),
        (lambda _: 1, lambda _: ValueError()),
        (lambda _: 1, lambda _: 1),
    ],
)
def test_a_way_to_store_that_does_not_work_gives_a_step_failed(
    to_data: Any, from_data: Any
) -> None:
    register_error(CardDeclined, to_data=to_data, from_data=from_data)

    failed = back(CardDeclined("x"))

    assert type(failed) is StepFailed
    assert failed.message == "x"


def test_a_type_that_is_no_longer_registered_is_a_step_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register_error(CardDeclined)
    payload = encode_error(CardDeclined("x"))
    monkeypatch.setattr(registry, "_by_name", {})

    failed = decode_error(payload)

    assert type(failed) is StepFailed
    assert str(failed) == f"{__name__}.CardDeclined: x"


def test_a_type_that_has_changed_is_a_step_failed() -> None:
    register_error(CardDeclined)
    payload = encode_error(CardDeclined("x"))
    register_error(CardDeclined, to_data=lambda _: 1, from_data=lambda data: CardDeclined(data + 1))

    assert type(decode_error(payload)) is StepFailed


# --- registering --------------------------------------------------------------------------------


def test_it_is_a_decorator_with_and_without_options() -> None:
    @register_error
    class One(Exception):
        pass

    @register_error(name="second")
    class Two(Exception):
        pass

    assert read_error(encode_error(One())).name == "One"
    assert read_error(encode_error(Two())).name == "second"
    assert type(back(Two())) is Two


def test_a_name_belongs_to_one_type() -> None:
    register_error(CardDeclined)

    with pytest.raises(BadInput, match="'CardDeclined' is taken by another type"):
        register_error(Rejected, name="CardDeclined")


def test_a_type_may_be_registered_again_under_another_name() -> None:
    register_error(CardDeclined)
    register_error(CardDeclined)
    register_error(CardDeclined, name="declined")

    assert read_error(encode_error(CardDeclined())).name == "declined"
    register_error(Rejected, name="CardDeclined")


def test_a_module_may_be_loaded_again() -> None:
    def load() -> type[Exception]:
        class Made(Exception):
            pass

        return register_error(Made)

    load()
    second = load()

    assert type(back(second())) is second


def test_what_is_no_exception_type_is_refused() -> None:
    wrong: Any
    for wrong in (int, CardDeclined(), "CardDeclined"):
        with pytest.raises(BadInput, match="was not given an exception type"):
            register_error(wrong)


def test_a_name_must_be_an_id() -> None:
    with pytest.raises(BadInput, match="the name of an error is empty"):
        register_error(CardDeclined, name="")


def test_both_functions_or_none() -> None:
    with pytest.raises(BadInput, match="one of to_data and from_data"):
        register_error(CardDeclined, to_data=str)
