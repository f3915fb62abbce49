"""Whatever is wrong with an exception, it is stored within bounds and comes back the same way."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import Any

import pytest

from onward.codec import Payload, StepFailed, UnknownTag, decode_error, encode_error, read_error
from onward.errors import OnwardError, Undecodable
from onward.telemetry.interrupts import traceable_interrupts


def raised(error: BaseException) -> BaseException:
    """Return the exception with a traceback."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - any will do
        raise error
    return caught.value


def back(error: BaseException) -> Any:
    return decode_error(encode_error(error))


class CardDeclined(Exception):
    pass


# --- an ordinary exception ----------------------------------------------------------------------


def test_an_unregistered_exception_is_a_step_failed() -> None:
    failed = back(raised(CardDeclined("no funds")))

    assert type(failed) is StepFailed
    assert isinstance(failed, OnwardError)
    assert failed.type == f"{__name__}.CardDeclined"
    assert failed.message == "no funds"
    assert str(failed) == f"{__name__}.CardDeclined: no funds"
    assert repr(failed) == f"StepFailed('{__name__}.CardDeclined', 'no funds')"


def test_an_exception_without_a_message_shows_its_type() -> None:
    assert str(back(CardDeclined())) == f"{__name__}.CardDeclined"


def test_the_traceback_tells_where_it_was_raised() -> None:
    text = back(raised(CardDeclined("x"))).traceback

    assert "in raised" in text
    assert "raise error" in text
    assert __file__ in text


def test_an_exception_that_was_never_raised_has_no_traceback() -> None:
    assert back(CardDeclined("x")).traceback == ""


def test_notes_come_back_and_are_printed() -> None:
    error = CardDeclined("x")
    error.add_note("order 5")
    error.add_note("second")

    failed = back(error)

    assert failed.notes == ("order 5", "second")
    assert failed.__notes__ == ["order 5", "second"]
    assert back(CardDeclined()).notes == ()


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), GeneratorExit()]
)
def test_what_is_no_ordinary_exception_is_an_ordinary_failure(error: BaseException) -> None:
    failed = back(error)

    assert type(failed) is StepFailed
    assert failed.type.endswith(type(error).__name__)


def test_a_failure_that_is_stored_again_stays_the_same() -> None:
    error = raised(CardDeclined("no funds"))
    error.add_note("a note")
    error.__cause__ = raised(OSError("down"))
    once = encode_error(error)

    again = encode_error(decode_error(once))

    assert read_error(again) == read_error(once)


@pytest.mark.parametrize("kind", [CardDeclined, ValueError])
def test_a_failure_that_is_raised_again_keeps_the_frames_of_both_times(
    kind: type[Exception],
) -> None:
    first = read_error(encode_error(raised(kind("no funds")))).traceback

    again = read_error(encode_error(raised(back(raised(kind("no funds")))))).traceback

    assert again == first + first


# --- chains and groups --------------------------------------------------------------------------


def test_the_cause_comes_back() -> None:
    error = CardDeclined("x")
    error.__cause__ = KeyError("y")

    failed = back(error)

    assert failed.cause is failed.__cause__
    assert repr(failed.cause) == "KeyError('y')"
    assert failed.__suppress_context__


def test_the_context_comes_back_unless_it_is_hidden() -> None:
    error = CardDeclined("x")
    error.__context__ = KeyError("y")

    failed = back(error)
    assert failed.cause is None
    assert repr(failed.__context__) == "KeyError('y')"

    error.__suppress_context__ = True
    assert back(error).__context__ is None


def chain_length(error: BaseException | None) -> int:
    return 0 if error is None else 1 + chain_length(error.__cause__)


def test_a_long_chain_is_cut() -> None:
    error = ValueError(0)
    for n in range(1, 1000):
        following = ValueError(n)
        following.__cause__ = error
        error = following

    assert chain_length(back(error)) == 10


def test_a_chain_that_bites_its_tail_is_cut() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one

    assert chain_length(back(one)) == 2


def test_a_group_comes_back_as_a_group() -> None:
    group = raised(ExceptionGroup("two", [ValueError("a"), ExceptionGroup("one", [KeyError("b")])]))
    group.add_note("note")

    revived = back(group)

    assert type(revived) is ExceptionGroup
    assert revived.message == "two"
    assert revived.__notes__ == ["note"]
    assert [type(member) for member in revived.exceptions] == [ValueError, ExceptionGroup]
    assert type(innermost(revived.exceptions[1])) is KeyError
    assert read_error(encode_error(group)).type == "ExceptionGroup"


def test_a_large_group_is_cut_and_says_so() -> None:
    revived = back(ExceptionGroup("many", [ValueError(n) for n in range(1000)]))

    assert len(revived.exceptions) == 49
    assert revived.__notes__ == ["951 more exceptions of this group were left out"]


def innermost(error: Any) -> Any:
    return innermost(error.exceptions[0]) if type(error) is ExceptionGroup else error


def test_a_group_nested_too_deep_ends_in_a_failure() -> None:
    inner: Any = ExceptionGroup("inner", [ValueError()])
    for _ in range(20):
        inner = ExceptionGroup("outer", [inner])

    deepest = innermost(back(inner))

    assert type(deepest) is StepFailed
    assert deepest.type == "ExceptionGroup"


# --- exceptions at their worst ------------------------------------------------------------------


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


class Quitter(Exception):
    def __str__(self) -> str:
        raise SystemExit


class Interrupted(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Signalled(Exception):
    def __str__(self) -> str:
        signal.raise_signal(signal.SIGINT)
        return "never"


class Odd(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise RuntimeError


class Strange(Exception):
    def __str__(self) -> str:
        return Odd("strange")


def fail(_: object) -> Any:
    raise RuntimeError


Secretive: Any = type(
    "Secretive",
    (Exception,),
    {
        "__cause__": property(fail),
        "__context__": property(lambda _: "not an exception"),
        "__suppress_context__": False,
        "__notes__": property(fail),
        "__traceback__": property(fail),
    },
)


@pytest.mark.parametrize("kind", [Mute, Quitter, Interrupted])
def test_an_exception_that_cannot_speak_is_stored(kind: type[Exception]) -> None:
    failed = back(raised(kind("x")))

    assert failed.type.endswith(kind.__name__)
    assert failed.message == "<no message: __str__ failed>"


def test_an_interrupt_is_not_swallowed() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with traceable_interrupts(), pytest.raises(KeyboardInterrupt):
            encode_error(Signalled())
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_message_of_a_strange_type_is_text() -> None:
    assert back(Strange()).message == "strange"


def test_an_exception_whose_parts_all_fail_is_stored() -> None:
    failed = back(Secretive("x"))

    assert failed.message == "x"
    assert failed.cause is None
    assert failed.__context__ is None
    assert failed.notes == ()
    assert failed.traceback == ""


class Unhashable(type):
    __hash__ = None  # type: ignore[assignment]


class Unreadable(Exception, metaclass=Unhashable):
    pass


def test_an_exception_that_cannot_even_be_looked_at_is_stored() -> None:
    assert str(back(Unreadable("x"))) == "an exception: <unreadable>"


def test_texts_of_a_strange_type_are_text() -> None:
    assert back(ExceptionGroup(Odd("strange"), [ValueError()])).message == "strange"
    assert back(StepFailed(Odd("strange"), Odd("m"))).type == "strange"


def test_notes_that_are_no_notes_are_left_out() -> None:
    error = CardDeclined("x")
    error.__notes__ = ["a", 5, Odd("b"), None]  # type: ignore[list-item]

    assert back(error).notes == ("a", "b")


def test_a_message_of_50_megabytes_keeps_both_ends() -> None:
    payload = encode_error(raised(ValueError("begin" + "x" * 50_000_000 + "end")))
    message = read_error(payload).message

    assert len(payload.data) < 20_000
    assert message.startswith("begin")
    assert message.endswith("end")
    assert "49,991,816 characters left out" in message


def deeper(n: int) -> None:
    deeper(n + 1)


def test_a_recursion_error_is_stored() -> None:
    with pytest.raises(RecursionError) as caught:
        deeper(0)

    text = read_error(encode_error(caught.value)).traceback

    assert type(back(caught.value)) is RecursionError
    assert "in deeper" in text
    assert len(text) < 17_000


def test_a_traceback_of_many_different_frames_is_cut() -> None:
    lines = [f"def f{n}(): f{n + 1}()" for n in range(900)]
    names: dict[str, Any] = {}
    code = compile("\n".join(lines) + "\ndef f900(): raise ValueError", "<many>", "exec")
    exec(code, names)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 2000)
    try:
        with pytest.raises(ValueError, match=r"^$") as caught:
            names["f0"]()
    finally:
        sys.setrecursionlimit(limit)

    text = read_error(encode_error(caught.value)).traceback

    assert "in f900" in text
    assert "in f450" not in text
    assert len(text) < 17_000


def test_arguments_that_are_no_data_do_no_harm() -> None:
    assert type(back(ValueError(threading.Lock(), lambda: None))) is ValueError


def test_half_characters_are_spelled_out() -> None:
    error = CardDeclined("a\ud800b")
    error.add_note("\udfff")

    failed = back(error)

    assert failed.message == "a\\ud800b"
    assert failed.notes == ("\\udfff",)


def test_an_error_is_never_large() -> None:
    def nasty(n: int) -> ValueError:
        error = ValueError("\0" * 1_000_000)
        for _ in range(100):
            error.add_note("\0" * 10_000)
        return error

    group = ExceptionGroup("\0" * 1_000_000, [nasty(n) for n in range(60)])
    group.__cause__ = nasty(0)
    payload = encode_error(group)

    assert len(payload.data) < 512 * 1024
    assert read_error(payload).type == "ExceptionGroup"


# --- payloads that are no errors ----------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"type": 1, "message": ""}', b'"\xff"', b'{"cause":' * 100_000]
)
def test_bytes_that_are_no_error_are_undecodable(data: bytes) -> None:
    with pytest.raises(Undecodable, match="value is not a stored error"):
        decode_error(Payload("json", data))


def test_an_error_has_a_tag_like_any_payload() -> None:
    assert encode_error(ValueError()).tag == "json"
    with pytest.raises(UnknownTag, match="zstd"):
        decode_error(Payload("json+zstd", b""))


def test_a_stored_chain_without_end_is_cut() -> None:
    data = b'{"type":"E","message":"","cause":' * 300 + b"null" + b"}" * 300

    assert chain_length(decode_error(Payload("json", data))) == 10


def test_fields_of_a_newer_onward_are_ignored() -> None:
    data = b'{"type":"E","message":"m","colour":"red"}'

    assert str(decode_error(Payload("json", data))) == "E: m"
