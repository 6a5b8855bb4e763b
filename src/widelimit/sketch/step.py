"""What a kind of sketch is, and the step of the NTK that all share."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray

from ..activations import Activation
from ..described import Described
from .columns import Columns, Features, Widths
from .linear_maps import Product, draw_signs, fold, product


class Sketch(Described):
    """How features go through an activation."""

    def folds(self) -> bool:
        """Whether direct sums, as over the patch of a convolution, are folded where they grow too wide."""
        return True

    @abstractmethod
    def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> Any:
        """The random numbers for such features, which are those of a few random inputs."""

    @abstractmethod
    def step(self, drawn: Any, act: Activation, features: Features) -> Features:
        """The columns of k(x, y), and of Theta(x, y) k'(x, y) where those of Theta are given."""


class Slope(eqx.Module):
    """Draws for the product of the NTK's features with those of k', of which the constant is exact."""

    product: Product
    signs: Array | None

    def step(self, psi: Columns, constant: Array, rest: Array) -> Columns:
        """Features of Theta k' from those of Theta, the constant of k' and its other columns."""
        if self.signs is None:
            return Columns(psi.scaled(constant).all(), self.product(psi.all(), rest))
        psi = Columns(psi.kept, fold(self.signs, psi.mixed, self.product.first.outputs))
        exact = psi.scaled(constant)
        return Columns(exact.kept, exact.mixed + self.product(psi.all(), rest))


def slope_step(key: PRNGKeyArray, psi: Columns, rest: int, widths: Widths, rounds: int = 1) -> Slope:
    """Draw one, for so many columns of k' beside its constant."""
    key1, key2 = jax.random.split(key)
    if widths.grows:
        return Slope(product(key1, psi.count, rest, widths.random, rounds=2), None)
    keep = psi.kept.shape[-1]
    room = max(1, widths.random - keep)
    return Slope(product(key1, keep + room, rest, room, rounds), draw_signs(key2, psi.mixed.shape[-1]))
