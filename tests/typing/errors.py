"""What the type checker must see of the errors. `make check` reads this; nothing runs it."""

from typing import assert_type

from onward.errors import BadInput, LeaseLost, NotFound, OnwardError, PayloadTooLarge, UserError


def an_error_has_typed_fields(error: PayloadTooLarge) -> None:
    assert_type(error.what, str)
    assert_type(error.size_bytes, int)
    assert_type(error.code, str)


def an_error_is_told_by_who_must_act(error: UserError | LeaseLost) -> None:
    if isinstance(error, UserError):
        assert_type(error, UserError)
    else:
        assert_type(error.run, str)


def an_error_is_also_the_builtin_one_that_people_expect(bad: BadInput, absent: NotFound) -> None:
    value_error: ValueError = bad
    lookup_error: LookupError = absent
    assert_type((value_error, lookup_error), tuple[ValueError, LookupError])


def an_error_is_made_of_all_its_fields() -> OnwardError:
    LeaseLost()  # type: ignore[call-arg]  # the run is missing
    LeaseLost(run=1)  # type: ignore[arg-type]  # a run is named by text
    return LeaseLost(run="hello-ada")
