"""Columns that are written out as arrays read back as they were."""

from __future__ import annotations

import asyncpg

from onward.store.postgres.batch import numbers, texts

AWKWARD: list[str | None] = [
    "",
    " ",
    "NULL",
    "null",
    "{a}",
    "a,b",
    'a "b"',
    "a\\b",
    '\\"',
    "a\nb\t",
    "é 漢",
    "'",
    "$1",
]


TEXTS: list[list[str | None]] = [
    [],
    ["a", "b"],
    *[[each] for each in AWKWARD],
    [*AWKWARD],
    [None],
    ["a", None, 'b"'],
    [None, ""],
]
NUMBERS: list[list[int | None]] = [[], [1, -2, 2**63 - 1], [None], [0, None, 3]]


async def test_columns_read_back_as_they_were(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        for text in TEXTS:
            assert await connection.fetchval("SELECT $1::text::text[]", texts(text)) == text
        for number in NUMBERS:
            assert await connection.fetchval("SELECT $1::text::bigint[]", numbers(number)) == number
    finally:
        await connection.close()
