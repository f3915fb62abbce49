"""Values: what facts and decisions are made of.

The instances of a subclass of `Value` have the annotated fields and no others, cannot be changed,
and are equal if type and fields are. Those of a subclass of `Struct` may be changed, and are equal
only to themselves. Both are structs of msgspec: a dataclass or a `NamedTuple` takes several times
as long to define, which counts when `import onward` defines a hundred, and to create, which counts
when each step creates ten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, dataclass_transform

__all__ = ["Struct", "Value", "changed"]

if TYPE_CHECKING:
    from dataclasses import replace as changed  # type checkers know the fields by it

    @dataclass_transform(frozen_default=True)
    class Value:
        """A frozen value with the fields that its class annotates.

        Defaults must be immutable. `__post_init__` may check the fields.

        Example:
            >>> class Point(Value):
            ...     x: int
            ...     y: int = 0
            >>> Point(1)
            Point(x=1, y=0)
        """

        def __eq__(self, other: object) -> bool: ...

        def __hash__(self) -> int: ...

    @dataclass_transform(eq_default=False)
    class Struct:
        """An object with the fields that its class annotates, which may be changed."""

else:
    import msgspec
    from msgspec.structs import replace as changed

    class Value(msgspec.Struct, frozen=True):
        pass

    class Struct(msgspec.Struct, eq=False):
        pass
