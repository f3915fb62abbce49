"""A built-in exception comes back as itself, with its arguments, attributes, notes and causes."""

from __future__ import annotations

import builtins
import errno
import json
import os
import pickle
import threading
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onward.codec import StepFailed, decode_error, encode_error, read_error

if TYPE_CHECKING:
    from collections.abc import Callable


def back(error: BaseException) -> Any:
    return decode_error(encode_error(error))


def raised_by(work: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any will do
        work()
    return caught.value


KINDS = sorted(
    {
        kind
        for kind in vars(builtins).values()
        if isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, BaseExceptionGroup | UnicodeError)
    },
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("args", [(), ("text",), ("text", 7)])
def test_every_built_in_type_comes_back_with_its_arguments(
    kind: type[Exception], args: tuple[object, ...]
) -> None:
    if issubclass(kind, SyntaxError) and len(args) > 1:
        args = ("invalid syntax", ("shop.py", 1, 3, "a b", 1, 4))
    error = kind(*args)

    revived = back(error)

    assert type(revived) is kind
    assert revived.args == error.args
    assert str(revived) == str(error)


@pytest.mark.parametrize(
    ("work", "names"),
    [
        (lambda: open("/no/such/file"), ["errno", "strerror", "filename"]),  # noqa: SIM115
        (lambda: Path("/no/such/file").unlink(), ["errno", "strerror", "filename"]),
        (lambda: os.rename("/no/a", "/no/b"), ["errno", "filename", "filename2"]),
        (lambda: b"\xff".decode(), ["encoding", "object", "start", "end", "reason"]),
        (lambda: "\u20ac".encode("ascii"), ["encoding", "object", "start", "end", "reason"]),
        (lambda: compile("a b", "shop.py", "exec"), ["msg", "filename", "lineno", "text"]),
        (lambda: getattr(5, "sku"), ["name"]),  # noqa: B009
        (lambda: eval("unknown"), ["name"]),
        (lambda: __import__("no_such_module"), ["name", "path"]),
        (lambda: next(iter(())), ["value"]),
        (lambda: dict[str, int]()["sku"], ["args"]),
        (lambda: 1 / 0, ["args"]),
    ],
)
def test_attributes_come_back(work: Callable[[], object], names: list[str]) -> None:
    error = raised_by(work)

    revived = back(error)

    assert type(revived) is type(error)
    assert str(revived) == str(error)
    assert [getattr(revived, name) for name in names] == [getattr(error, name) for name in names]


def test_an_os_error_is_of_the_type_of_its_number() -> None:
    revived = back(OSError(errno.ENOENT, "no such file", "order.txt"))

    assert type(revived) is FileNotFoundError
    assert (revived.errno, revived.filename) == (errno.ENOENT, "order.txt")


def test_attributes_that_user_code_has_set_come_back_if_they_can_be_stored() -> None:
    error: Any = ValueError("no tea")
    error.price = Decimal("1.50")
    error.lock = threading.Lock()

    revived = back(error)

    assert revived.price == Decimal("1.50")
    assert not hasattr(revived, "lock")


def test_an_argument_that_cannot_be_stored_comes_back_as_its_text() -> None:
    revived = back(ValueError(Path("order.txt")))

    assert type(revived) is ValueError
    assert revived.args == ("order.txt",)


def test_notes_and_causes_come_back() -> None:
    error = ValueError("no tea")
    error.add_note("order 7")
    error.__cause__ = KeyError("tea")
    error.__cause__.__context__ = ZeroDivisionError()

    revived = back(error)

    assert revived.__notes__ == ["order 7"]
    assert repr(revived.__cause__) == "KeyError('tea')"
    assert repr(revived.__cause__.__context__) == "ZeroDivisionError()"


def test_a_built_in_error_that_is_too_large_is_a_step_failed_of_that_type() -> None:
    revived = back(ValueError("x" * 100_000))

    assert isinstance(revived, StepFailed)
    assert isinstance(revived, ValueError)


# --- types that derive from a built-in one --------------------------------------------------------


class OutOfStock(LookupError):
    pass


class SoldOut(OutOfStock):
    pass


def test_a_type_that_derives_from_a_built_in_one_is_caught_by_that() -> None:
    with pytest.raises(LookupError) as caught:
        raise back(SoldOut("tea"))

    failed = caught.value
    assert isinstance(failed, StepFailed)
    assert failed.type == f"{__name__}.SoldOut"
    assert (str(failed), failed.message) == (f"{__name__}.SoldOut: tea", "tea")
    assert not isinstance(failed, KeyError | ValueError)


@pytest.mark.parametrize(
    "kind", [each for each in KINDS if each not in (StopIteration, MemoryError)]
)
def test_a_type_that_derives_from_any_built_in_one_is_caught_by_that(kind: type[Exception]) -> None:
    derived = type("Derived", (kind,), {"__module__": __name__})

    error = derived("text")
    failed = back(error)

    assert isinstance(failed, StepFailed)
    assert isinstance(failed, kind)
    assert failed.message == str(error)
    assert str(failed) == f"{__name__}.Derived: {error}"
    assert pickle.loads(pickle.dumps(failed)).message == str(error)


def test_types_of_the_standard_library_are_caught_by_their_built_in_base() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        raise back(raised_by(lambda: json.loads("no json")))


def test_a_step_failed_knows_its_type_by_name() -> None:
    failed = back(SoldOut("tea"))

    for name in ("SoldOut", f"{__name__}.SoldOut", "OutOfStock", "LookupError"):
        assert failed.is_a(name)
    for name in ("Out", "dOut", "KeyError", "Exception", "shop.SoldOut", ""):
        assert not failed.is_a(name)


def test_a_step_failed_that_is_stored_again_stays_caught_by_its_base() -> None:
    again = back(back(SoldOut("tea")))

    assert isinstance(again, StepFailed)
    assert isinstance(again, LookupError)
    assert again.is_a("OutOfStock")


def test_a_step_failed_crosses_processes() -> None:
    failed = back(SoldOut("tea"))

    copy = pickle.loads(pickle.dumps(failed))

    assert type(copy) is type(failed)
    assert (copy.type, copy.message, copy.bases) == (failed.type, failed.message, failed.bases)


class Stop(StopIteration):
    pass


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, Stop])
def test_a_type_that_would_stop_its_worker_does_not_come_back(kind: type[BaseException]) -> None:
    failed = back(kind("x"))

    assert type(failed) is StepFailed
    assert failed.is_a(kind.__name__)


# --- as text --------------------------------------------------------------------------------------


def test_the_text_of_a_group_is_that_of_its_first_causes() -> None:
    group = ExceptionGroup(
        "unhandled errors in a TaskGroup",
        [ExceptionGroup("inner", [ValueError("no tea")]), *(KeyError(n) for n in range(4))],
    )

    text = read_error(encode_error(group)).text

    assert text == "ValueError: no tea; KeyError: 0; KeyError: 1; and 2 more"


def test_a_failure_names_the_line_that_raised_it() -> None:
    place = read_error(encode_error(raised_by(lambda: 1 / 0))).place

    assert place is not None
    assert place.where.startswith(f"{__file__}:")
    assert place.where.endswith(" in <lambda>")
    assert "1 / 0" in place.source
