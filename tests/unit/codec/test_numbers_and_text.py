"""Numbers, text and moments that would come back as something else are refused."""

# ruff: noqa: DTZ001

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import IntFlag
from typing import Any
from zoneinfo import ZoneInfo

import pydantic
import pytest

from onward.codec import encode
from onward.errors import Unencodable


class Wide(IntFlag):
    LAST = 2**70


class Model(pydantic.BaseModel):
    x: int


@dataclass
class Order:
    when: Any
    lines: list[Any]


NOON = datetime(2026, 3, 1, 12)


def refusal(value: object, annotation: Any = Any) -> Unencodable:
    with pytest.raises(Unencodable) as caught:
        encode(value, annotation=annotation)
    return caught.value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("annotation", [Any, dict[str, list[float]], dict[str, Any]])
def test_a_number_that_json_does_not_have_is_refused(number: float, annotation: Any) -> None:
    refused = refusal({"rates": [1.0, number]}, annotation)

    assert refused.path == "value.rates[1]"
    assert "NaN or infinite" in refused.fact


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
@pytest.mark.parametrize("annotation", [Any, int, float])
def test_an_int_beyond_64_bits_is_refused(number: int, annotation: Any) -> None:
    assert "does not fit in 64 bits" in refusal(number, annotation).fact


def test_a_flag_beyond_64_bits_is_refused() -> None:
    assert "beyond 64 bits" in refusal(Wide.LAST, Wide).fact


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_no_number_is_refused(number: str) -> None:
    assert "NaN or infinite" in refusal(Decimal(number), Decimal).fact


@pytest.mark.parametrize(
    ("value", "annotation", "path"),
    [
        ("\ud800", Any, "value"),
        ({"a": [1, "x", "\udfffx"]}, Any, "value.a[2]"),
        ({"a": {"\ud800": 1}}, Any, "value.a"),
        ({"\ud800": 1}, dict[str, int], "value"),
        ({("\ud800",): 1}, dict[tuple[str], int], "value{key}[0]"),
        ({"\ud800"}, set[str], "value[0]"),
        ([{"\ud800"}], list[set[str]], "value[0][0]"),
        (Order("\ud800", []), Order, "value.when"),
        (Model.model_construct(x="\ud800"), Model, "value.x"),
    ],
)
def test_half_a_character_is_refused(value: Any, annotation: Any, path: str) -> None:
    refused = refusal(value, annotation)

    assert refused.path == path
    assert "lone surrogate" in refused.fact


class Elsewhere(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "elsewhere"


def unnamed_zone() -> ZoneInfo:
    # The smallest file that is a time zone: version 1, one type, UTC.
    counts = b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 0, 1, 4))
    return ZoneInfo.from_file(
        io.BytesIO(b"TZif" + b"\0" * 16 + counts + b"\0\0\0\0\0\0" + b"UTC\0")
    )


@pytest.mark.parametrize("zone", [Elsewhere(), unnamed_zone()])
def test_a_zone_that_has_no_name_is_refused(zone: tzinfo) -> None:
    assert "has a time zone of type" in refusal(NOON.replace(tzinfo=zone), datetime).fact


def test_a_time_in_a_zone_is_refused() -> None:
    assert "depends on the date" in refusal(time(1, tzinfo=ZoneInfo("UTC")), time).fact


@pytest.mark.parametrize("value", [NOON.replace(fold=1), time(1, fold=1)])
def test_a_fold_without_a_zone_is_refused(value: Any) -> None:
    assert "fold=1" in refusal(value, type(value)).fact
