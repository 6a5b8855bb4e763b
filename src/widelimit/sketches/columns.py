"""Columns, whose products are covariances, and direct sums of them."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8, PRNGKeyArray

from .linear_maps import Projection, add_pieces, draw_signs, projection


class Columns(eqx.Module):
    """Features in two parts: few `kept` columns, which are carried on as they are, and many `mixed` ones, which may be folded.

    A constant, a bias or a pixel of the input has all its weight in a few columns. Folded, these would meet themselves.
    What a random projection made is spread over all of its columns.
    """

    kept: Float[Array, "*points kept"]
    mixed: Float[Array, "*points mixed"]

    @property
    def count(self) -> int:
        """How many columns there are."""
        return self.kept.shape[-1] + self.mixed.shape[-1]

    def all(self) -> Float[Array, "*points columns"]:
        """One array."""
        parts = [part for part in (self.kept, self.mixed) if part.shape[-1]]
        return jnp.concatenate(parts, -1) if parts else self.kept

    def map(self, fn: Callable[[Array], Array]) -> "Columns":
        """fn of both parts, for what acts on each column by itself."""
        return Columns(fn(self.kept), fn(self.mixed))

    def scaled(self, factor: float | Float[Array, "..."]) -> "Columns":
        """Times a number, or one for every point."""
        factor = jnp.asarray(factor, self.kept.dtype)
        return self.map(lambda x: x * (factor[..., None] if factor.ndim else factor))

    def squared(self) -> Float[Array, "*points"]:
        """The product of every point with itself, in float32 at least."""
        x = self.all()  # one array, because callers that need lengths need it too
        return jnp.sum(x.astype(jnp.promote_types(x.dtype, jnp.float32)) ** 2, -1)


def join(*parts: Columns) -> Columns:
    """The direct sum."""
    return Columns(
        jnp.concatenate([part.kept for part in parts], -1), jnp.concatenate([part.mixed for part in parts], -1)
    )


def kept(x: Float[Array, "*points columns"]) -> Columns:
    """Columns that are all kept."""
    return Columns(x, jnp.zeros((*x.shape[:-1], 0), x.dtype))


class DirectSum(eqx.Module):
    """The direct sum of equally shaped columns, such as those of a patch's pixels.

    Kept columns are put side by side and mixed ones folded. Where the kept ones would be too many, a projection spreads
    them over the mixed ones first.
    """

    spill: Projection | None
    signs: Int8[Array, "parts columns"] | None
    room: int | None = eqx.field(static=True)  # for mixed columns

    def __call__(self, columns: Columns, parts: Callable[[Array], list[Array]]) -> Columns:
        """The direct sum of parts(x), for an array x of columns."""
        if self.spill is not None:
            spread = self.spill(columns.kept) * self.spill.outputs**-0.5
            missing = self.spill.outputs - columns.mixed.shape[-1]
            mixed = jnp.pad(columns.mixed, [(0, 0)] * (spread.ndim - 1) + [(0, missing)])
            columns = Columns(columns.kept[..., :0], spread + mixed)
        side_by_side = jnp.concatenate(parts(columns.kept), -1)
        pieces = parts(columns.mixed)
        if self.signs is None or self.room is None:
            return Columns(side_by_side, jnp.concatenate(pieces, -1))
        signed = [sign.astype(piece.dtype) * piece for sign, piece in zip(self.signs, pieces, strict=True)]
        return Columns(side_by_side, add_pieces(sum(signed[1:], signed[0]), self.room))


def direct_sum(key: PRNGKeyArray, columns: Columns, parts: int, cap: int | None, share: float = 0.25) -> DirectSum:
    """Draw the direct sum of `parts` such columns, of at most `cap` columns, of which at most a `share` is kept."""
    keep, mix = columns.kept.shape[-1], columns.mixed.shape[-1]
    if cap is None or parts * (keep + mix) <= cap:
        return DirectSum(None, None, None)
    key1, key2 = jax.random.split(key)
    spill = None
    if parts * keep > share * cap:
        spill = projection(key1, keep, max(mix, cap))
        keep, mix = 0, max(mix, cap)
    room = max(1, cap - parts * keep)
    if parts * mix <= room:
        return DirectSum(spill, None, None)
    return DirectSum(spill, draw_signs(key2, parts, mix), room)
