"""What a kind of sketch is, and the step of the NTK that all share."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..activations import Activation
from ..storage.module import ReprAsCode
from .columns import Columns, DirectSum, Features, direct_sum
from .linear_maps import Product, product


class Sketch(ReprAsCode):
    """How features go through an activation."""

    def folds(self) -> bool:
        """Whether direct sums, as over the patch of a convolution, are folded where they grow too wide."""
        return True

    def takes_whole_patches(self) -> bool:
        """Whether the patch of a convolution is better left as it is where a dense matrix of it is affordable."""
        return False

    @abstractmethod
    def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> Any:
        """The random numbers for such features, which are those of a few random inputs."""

    @abstractmethod
    def step(self, drawn: Any, act: Activation, features: Features) -> Features:
        """The columns of k(x, y), and of Theta(x, y) k'(x, y) where those of Theta are given."""


class Slope(eqx.Module):
    """Draws for the product of the NTK's features with those of k', of which the constant is exact."""

    product: Product
    narrowed: DirectSum | None

    def step(self, psi: Columns, constant: Array, rest: Array) -> Columns:
        """Features of Theta k' from those of Theta, the constant of k' and its other columns."""
        if self.narrowed is None:
            return Columns(psi.scaled(constant).all(), self.product(psi.all(), rest))
        psi = self.narrowed(psi, lambda x: [x])
        exact, new = psi.scaled(constant), self.product(psi.all(), rest)
        missing = new.shape[-1] - exact.mixed.shape[-1]
        mixed = jnp.pad(exact.mixed, [(0, 0)] * (new.ndim - 1) + [(0, missing)])
        return Columns(exact.kept, mixed + new)


def slope_step(key: PRNGKeyArray, psi: Columns, rest: int, room: int, grows: bool, rounds: int = 1) -> Slope:
    """Draw one, for so many columns of k' beside its constant, and `room` for new ones."""
    key1, key2 = jax.random.split(key)
    if grows:
        return Slope(product(key1, psi.count, rest, room, rounds=2), None)
    narrowed = direct_sum(key2, psi, 1, room, share=0.5)
    after = jax.eval_shape(lambda psi: narrowed(psi, lambda x: [x]), psi)
    return Slope(product(key1, after.count, rest, max(1, room - after.kept.shape[-1]), rounds), narrowed)
