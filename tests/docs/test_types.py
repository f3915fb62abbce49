"""The tables on types match the code: what is accepted, how it is stored, what is refused."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Any

import pytest

from onward import App, Signal, step, workflow
from onward.codec import MAX_PAYLOAD, decode, encode, signature_of
from onward.errors import PayloadTooLarge, Undecodable, Unencodable
from tests.docs.pages import ROOT, fences

PAGE = ROOT / "docs" / "guides" / "types.md"
CODE = re.compile(r"`([^`]+)`")


def rows(head: str) -> list[list[str]]:
    """Return the rows of the table that begins with this line."""
    _, found, rest = PAGE.read_text().partition(head + "\n")
    assert found, f"no table {head}"
    lines = rest.partition("\n\n")[0].splitlines()[1:]
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
    ]


def code_in(cell: str) -> list[str]:
    return CODE.findall(cell)


@cache
def names() -> dict[str, Any]:
    """Return the types that the page defines for its tables."""
    [block] = [fence for fence in fences(PAGE) if "class Folder" in fence.text]
    defined: dict[str, Any] = {"__name__": __name__}
    exec(compile(block.text, str(PAGE), "exec", dont_inherit=True), defined)
    return defined


def value_of(code: str) -> Any:
    return eval(code, names())


ACCEPTED = rows("| annotation | a value | stored as |")
REFUSED = rows("| annotation | refused | why | pass instead |")


@pytest.mark.parametrize(("annotation", "value", "stored"), ACCEPTED)
def test_an_accepted_value_is_stored_as_the_page_says_and_comes_back(
    annotation: str, value: str, stored: str
) -> None:
    hint, given = value_of(code_in(annotation)[0]), value_of(code_in(value)[0])

    payload = encode(given, annotation=hint)
    back = decode(payload, hint)

    assert [payload.data.decode()] == code_in(stored)
    assert back == given
    assert type(back) is type(given)


@pytest.mark.parametrize(("annotation", "value"), [row[:2] for row in REFUSED])
def test_a_value_that_the_page_says_is_refused_is_refused(annotation: str, value: str) -> None:
    with pytest.raises(Unencodable):
        encode(value_of(code_in(value)[0]), annotation=value_of(code_in(annotation)[0]))


@pytest.mark.parametrize(
    ("annotation", "value", "instead"),
    [(annotation, value, way) for annotation, value, _, way in REFUSED if "`" in way],
)
def test_the_way_out_of_a_refusal_works(annotation: str, value: str, instead: str) -> None:
    ways = code_in(instead)
    as_other = re.search(r"` as `([^`]+)`", instead)
    hint = value_of(as_other[1] if as_other else code_in(annotation)[0])

    encode(value_of(ways[0]), annotation=hint)

    wider = re.search(r"annotate with `([^`]+)`", instead)
    if wider:
        encode(value_of(code_in(value)[0]), annotation=value_of(wider[1]))


def test_the_table_covers_every_family_of_types() -> None:
    listed = " ".join(row[0] for row in ACCEPTED)
    for word in ("datetime", "Decimal", "bytes", "UUID", "dataclass", "attrs", "msgspec"):
        assert word in listed


# --- changing types -------------------------------------------------------------------------------


def reads(before: Any, value: Any, after: Any) -> Any:
    """Return what `after` makes of arguments that were written for `before`."""
    return signature_of(after).decode(signature_of(before).encode((value,), {}))


def takes_int(n: int) -> None: ...
def takes_optional(n: int | None) -> None: ...
def takes_text(n: str) -> None: ...
def takes_more(n: int, more: int = 3) -> None: ...
def needs_more(n: int, more: int) -> None: ...
def takes_nothing() -> None: ...


@pytest.mark.parametrize("after", [takes_optional, takes_more])
def test_a_wider_signature_reads_older_arguments(after: Any) -> None:
    assert reads(takes_int, 7, after) == ((7,), {})


@pytest.mark.parametrize("after", [takes_text, needs_more, takes_nothing])
def test_arguments_that_do_not_fit_are_not_guessed(after: Any) -> None:
    with pytest.raises(Undecodable):
        reads(takes_int, 7, after)


def test_a_wider_union_reads_what_was_stored_before() -> None:
    point, box = names()["Point"], names()["Box"]
    assert decode(encode(point(1), annotation=point), point | box) == point(1)


def test_an_argument_stored_in_another_form_counts_as_changed() -> None:
    def before(at: str) -> None: ...
    def after(at: str | bytes) -> None: ...

    assert signature_of(before).fingerprint(("x",), {}) != signature_of(after).fingerprint(
        ("x",), {}
    )


# --- limits ---------------------------------------------------------------------------------------

note = Signal("note", str)


@step
async def write_too_much() -> str:
    tries.append(1)
    return "x" * MAX_PAYLOAD


@workflow
async def too_much(text: str = "") -> str:
    return text or await write_too_much()


tries: list[int] = []


async def test_a_value_beyond_the_limit_is_refused_where_it_is_passed() -> None:
    app = App(":memory:")
    async with app:
        with pytest.raises(PayloadTooLarge):
            await app.start(too_much, "x" * MAX_PAYLOAD)
        run = await app.start(too_much)
        with pytest.raises(PayloadTooLarge):
            await run.signal(note, "x" * MAX_PAYLOAD)
        async with app.worker(workflows=[too_much]):
            with pytest.raises(Exception, match="the limit is 2,097,152"):
                async with asyncio.timeout(30):
                    await run.result()
    assert tries == [1]
