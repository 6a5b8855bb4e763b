"""What a layer is given and gives: one of something, or several branches of it.

A `Shape` is that of one input or output. `Branches` holds what FanOut makes and a fan-in joins: shapes, states, features or
arrays, whichever reading it is; branches may hold branches.
"""

from collections.abc import Iterator
from typing import Generic, TypeAlias, TypeVar

import equinox as eqx

T = TypeVar("T")


class Shape(tuple[int | None, ...]):
    """A shape without the batch: the spatial axes, then the channels, which are None where no width was said."""

    __slots__ = ()

    @property
    def spatial(self) -> tuple[int, ...]:
        """The sizes of the spatial axes."""
        return tuple(size for size in self[:-1] if size is not None)  # they are always known

    @property
    def channels(self) -> int | None:
        """The number of channels."""
        return self[-1]


class Branches(eqx.Module, Generic[T]):
    """Several branches, side by side."""

    items: tuple["T | Branches[T]", ...]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator["T | Branches[T]"]:
        return iter(self.items)

    def __getitem__(self, place: int) -> "T | Branches[T]":
        return self.items[place]


OneOrMore: TypeAlias = T | Branches[T]
Sizes: TypeAlias = tuple[int | None, ...]  # a shape as arrays have it


def as_shape(shape: Sizes | Branches[Shape]) -> OneOrMore[Shape]:
    """A shape as a `Shape`: those of arrays, and of layers from elsewhere, are plain tuples."""
    return shape if isinstance(shape, Branches | Shape) else Shape(shape)
