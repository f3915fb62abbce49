"""The shape of pydantic models, which know better than we do how they are written and read.

A model is dumped to JSON by its own serialisers and rebuilt by its own validators, so custom ones
work, also to read what older code wrote. Nothing tells in advance whether the two are each other's
inverse; a masked secret, an excluded field or a validator that changes its input are not. So this
is the one shape that reads back what it wrote before it accepts it.

Pydantic is never imported here: a model brings everything along. It takes pydantic 2.11 or newer.
"""

from __future__ import annotations

from typing import Any, Final

from onward.codec import document
from onward.codec.shapes.plain import Anything
from onward.codec.shapes.refusal import (
    NO_SECRETS,
    Misfit,
    ValueRefused,
    key_step,
    not_of_class,
    with_article,
)
from onward.codec.shapes.shape import ALL_KINDS, Kind, Shape
from onward.telemetry.interrupts import raise_interrupt

_PLAIN: Final = Anything()


def is_model(kind: Any) -> bool:
    """Return whether a class is a pydantic model."""
    return hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_validate_json")


class Model(Shape):
    """A pydantic model."""

    __slots__ = ("_kind",)

    def __init__(self, name: str, kind: Any) -> None:
        decorators = kind.__pydantic_decorators__
        free = kind.__pydantic_root_model__ or decorators.model_serializers
        kinds = ALL_KINDS if free else frozenset({Kind.OBJECT})
        super().__init__(name, kinds, frozenset({kind}))
        self._kind = kind

    def lower(self, value: Any, depth: int) -> Any:
        """Return what the model writes, once it has read it back as an equal one."""
        if type(value) is not self._kind:
            raise not_of_class(value, self._kind, self.name)
        try:
            tree = _dump(value)
            # Checked as plain data first: a big int or deep nesting has a path to report.
            _PLAIN.lower(tree, depth)
            same = bool(self._validate(tree) == value)
        except ValueRefused:
            raise
        except UnicodeEncodeError:
            raise document.surrogate(tree) from None
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            raise_interrupt(error)
            raise self._not_inverse(f" ({type(error).__name__})") from None
        if not same:
            raise self._not_inverse("")
        return tree

    def _not_inverse(self, reason: str) -> ValueRefused:
        secrets = [
            name
            for name, field in self._kind.model_fields.items()
            if hasattr(field.annotation, "get_secret_value")
        ]
        hidden = (
            f"Pydantic writes the secret {secrets[0]!r} as asterisks. {NO_SECRETS}"
            if secrets
            else ""
        )
        return ValueRefused(
            f"is {with_article(self.name)}, a pydantic model that does not read back "
            f"what it writes{reason}",
            hidden or "Make model_validate_json(model_dump_json()) return an equal model.",
        )

    def lift(self, data: Any) -> Any:
        """Return the model that was written."""
        try:
            return self._validate(data)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            raise_interrupt(error)
            raise self._refused_by_model(error) from None

    def _refused_by_model(self, error: BaseException) -> Misfit:
        listed = getattr(error, "errors", None)
        if listed is None:
            return Misfit(f"was refused by {self.name} ({type(error).__name__})")
        first = listed(include_input=False, include_url=False, include_context=False)[0]
        wrong = Misfit(f"was refused by {self.name} ({first['type']})")
        for part in reversed(first["loc"]):
            wrong.under(f"[{part}]" if type(part) is int else key_step(part, 0))
        return wrong

    def _validate(self, tree: Any) -> Any:
        # JSON and not Python data, because a strict model takes text for a datetime only there.
        written = document.write(tree)
        return self._kind.model_validate_json(written, by_alias=False, by_name=True)


def _dump(model: Any) -> Any:
    # By field name: the aliases for writing and for reading may differ.
    options = {"round_trip": True, "by_alias": False, "warnings": False}
    tree = model.model_dump(mode="json", **options)
    _sort_sets(model.model_dump(mode="python", **options), tree)
    return tree


def _sort_sets(python: Any, tree: Any) -> None:
    """Put the items of sets, which are lists in the tree by now, into one fixed order."""
    if type(tree) is list and isinstance(python, list | tuple | set | frozenset):
        for one, other in zip(python, tree, strict=False):
            _sort_sets(one, other)
        if isinstance(python, set | frozenset):
            tree.sort(key=document.write_sorted)
    elif type(tree) is dict and isinstance(python, dict):
        for one, other in zip(python.values(), tree.values(), strict=False):
            _sort_sets(one, other)
