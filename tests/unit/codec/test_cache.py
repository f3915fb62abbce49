"""Shapes are built once, and those of classes made at run time do not pile up."""

from __future__ import annotations

from dataclasses import make_dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from onward.codec.shapes import compiler
from onward.codec.shapes.compiler import shape_of

if TYPE_CHECKING:
    import pytest


def test_an_annotation_has_one_shape() -> None:
    assert shape_of(dict[str, list[datetime]]) is shape_of(dict[str, list[datetime]])


def test_the_number_of_shapes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "MAX_SHAPES", 10)
    monkeypatch.setattr(compiler, "_shapes", {})

    for n in range(35):
        shape_of(make_dataclass(f"Made{n}", ["x"]))

    assert len(compiler._shapes) == 5
