"""The step of the NTK through an activation, which all kinds of sketch share."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .columns import Columns, DirectSum, direct_sum
from .linear_maps import Product, product


class Slope(eqx.Module):
    """The drawn product of the NTK's features with those of k', whose constant is exact."""

    product: Product
    narrowed: DirectSum | None

    def step(self, psi: Columns, constant: Float[Array, "*points"], rest: Float[Array, "*points columns"]) -> Columns:
        """Features of Theta k' from those of Theta, the constant of k' and its other columns."""
        if self.narrowed is None:
            return Columns(psi.scaled(constant).all(), self.product(psi.all(), rest))
        psi = self.narrowed(psi, lambda x: [x])
        exact, new = psi.scaled(constant), self.product(psi.all(), rest)
        missing = new.shape[-1] - exact.mixed.shape[-1]
        mixed = jnp.pad(exact.mixed, [(0, 0)] * (new.ndim - 1) + [(0, missing)])
        return Columns(exact.kept, mixed + new)


def slope_step(key: PRNGKeyArray, psi: Columns, rest: int, room: int, grows: bool, rounds: int = 1) -> Slope:
    """Draw the step for `rest` columns of k' beside its constant, and `room` for new ones."""
    key1, key2 = jax.random.split(key)
    if grows:
        return Slope(product(key1, psi.count, rest, room, rounds=2), None)
    narrowed = direct_sum(key2, psi, 1, room, share=0.5)
    after = jax.eval_shape(lambda psi: narrowed(psi, lambda x: [x]), psi)
    return Slope(product(key1, after.count, rest, max(1, room - after.kept.shape[-1]), rounds), narrowed)
