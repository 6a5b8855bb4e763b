"""Random linear maps of columns: projections with orthogonal rows, and folds. Each is drawn once, as a pytree."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8, PRNGKeyArray
from scipy import special

from ..numerics import product_precision
from ..numerics.padding import power_of_two
from .hadamard import hadamard

T = TypeVar("T")

_LANES = 128
_DENSE = 64  # inputs below this take dense orthogonal matrices: the rows of a padded Hadamard matrix repeat there


class Projection(eqx.Module):
    """y = R x with E[y_i y'_i] = x . x' for every i, the rows of R orthogonal in blocks as long as x.

    Few inputs: random orthogonal matrices. Many: the subsampled randomised Hadamard transform, R = H D with random signs D
    (Ailon and Chazelle, 2009), and with `rounds` above 1 further transforms before it. `radii`, where the rows must look
    Gaussian, give each the length of a Gaussian vector. `dense` ones of many inputs are plain normal matrices in bfloat16,
    which GPUs multiply by faster than they move numbers about.
    """

    matrix: Float[Array, "inputs padded"] | None  # with zeros at its end where outputs are fewer
    signs: Int8[Array, "blocks rounds padded_inputs"] | None
    radii: Float[Array, "outputs"] | None
    inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "*points inputs"], dtype: np.dtype | None = None
    ) -> Float[Array, "*points outputs"]:
        """The last axis projected; `dtype` is that of the result, where it is not that of x."""
        dtype = x.dtype if dtype is None else dtype
        if self.signs is None:
            matrix, precision = jnp.asarray(self.matrix, x.dtype), product_precision(x.dtype)
            y = jnp.matmul(x, matrix, precision=precision, preferred_element_type=dtype)[..., : self.outputs]
        else:
            size = self.signs.shape[-1]
            y = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, size - self.inputs)])[..., None, :]
            for i in range(self.signs.shape[1]):
                y = hadamard(y * self.signs[:, i].astype(x.dtype)) * (1 if i == 0 else size**-0.5)
            y = y.reshape(*x.shape[:-1], -1)[..., : self.outputs]
        return y.astype(dtype) if self.radii is None else y.astype(dtype) * self.radii.astype(dtype)

    @property
    def padded(self) -> bool:
        """Whether it is a matrix with room for further outputs."""
        return self.matrix is not None and self.matrix.shape[-1] > self.outputs

    def with_output(self, row: Array) -> "Projection":
        """With one more output, row . x, where there is room for it."""
        assert self.matrix is not None
        matrix = self.matrix.at[:, self.outputs].set(row.astype(self.matrix.dtype))
        return Projection(matrix, None, None, self.inputs, self.outputs + 1)

    def first(self, outputs: int) -> "Projection":
        """The first of its outputs alone."""
        matrix = None if self.matrix is None else self.matrix[:, :outputs]
        signs = None if self.signs is None else self.signs[: -(-outputs // self.signs.shape[-1])]
        radii = None if self.radii is None else self.radii[:outputs]
        return Projection(matrix, signs, radii, self.inputs, outputs)


def projection(
    key: PRNGKeyArray, inputs: int, outputs: int, rounds: int = 1, gaussian: bool = False, dense: bool = False
) -> Projection:
    """Draw one; with `gaussian`, its rows have the lengths of Gaussian vectors, with `dense` it is a matrix."""
    directions, lengths = jax.random.split(key)
    if dense and inputs >= _DENSE:
        matrix = jax.random.normal(directions, (inputs, outputs), jnp.float32).astype(jnp.bfloat16)
        room = 2 + -(outputs + 2) % _LANES  # for another output and more, up to a size that matrix units take as it is
        matrix = jnp.pad(matrix, [(0, 0), (0, room)])
        return Projection(matrix, None, None, inputs, outputs)
    size = inputs if inputs < _DENSE else power_of_two(inputs)
    blocks = -(-outputs // size)
    radii = jax.random.permutation(lengths, _radii(size, outputs)) if gaussian else None
    if inputs >= _DENSE:
        signs = jax.random.rademacher(directions, (blocks, rounds, size), jnp.int8)
        return Projection(None, signs, radii, inputs, outputs)
    q = _orthogonal(jax.random.normal(directions, (blocks, size, size)))
    matrix = size**0.5 * jnp.moveaxis(q, 0, 1).reshape(size, -1)[:, :outputs]
    return Projection(matrix, None, radii, inputs, outputs)


def _radii(size: int, count: int) -> np.ndarray:
    """The lengths of `count` Gaussian vectors of `size` numbers over sqrt(size), evenly spread over their distribution."""
    squares = 2 * special.gammaincinv(size / 2, (np.arange(count) + 0.5) / count)
    return np.sqrt(squares / squares.mean()).astype(np.float32)


def _orthogonal(normals: Array) -> Array:
    """Orthogonal matrices from normal ones, uniform among all, by Gram and Schmidt's process, twice for its rounding.

    In place of `jnp.linalg.qr`, several of which in one compiled program wait for each other for ever on two cores.
    """

    def step(q: Array, i: Array) -> tuple[Array, None]:
        v = jnp.take(normals, i, axis=-1)
        for _ in range(2):
            v = v - jnp.einsum(
                "bij,bj->bi", q, jnp.einsum("bij,bi->bj", q, v, precision="highest"), precision="highest"
            )
        return q.at[..., i].set(v / jnp.linalg.norm(v, axis=-1, keepdims=True)), None

    return jax.lax.scan(step, jnp.zeros_like(normals), jnp.arange(normals.shape[-1]))[0]


class Product(eqx.Module):
    """Columns whose products are those of the tensor product of two vectors, in the mean: (R1 u) (R2 v) / sqrt(m).

    With the Hadamard transform inside, the TensorSRHT of Ahle et al. (2020).
    """

    first: Projection
    second: Projection

    def __call__(self, u: Array, v: Array) -> Array:
        """The sketch of u (x) v."""
        return self.first(u) * self.second(v) * self.first.outputs**-0.5


def product(key: PRNGKeyArray, first: int, second: int, outputs: int, rounds: int = 1) -> Product:
    """Draw one for vectors of `first` and `second` numbers.

    Where both vectors have their weight in a few leading places, the rows of one Hadamard transform repeat there, and with
    them the products: two `rounds` for the second vector mend it.
    """
    key1, key2 = jax.random.split(key)
    return Product(projection(key1, first, outputs), projection(key2, second, outputs, rounds))


def several(draw: Callable[[PRNGKeyArray], T], key: PRNGKeyArray, count: int) -> list[T]:
    """`count` independent draws, in one go: a program of many small draws takes long to compile."""
    drawn = jax.vmap(draw)(jax.random.split(key, count))
    return [jax.tree.map(partial(lambda i, leaf: leaf[i], i), drawn) for i in range(count)]


def draw_signs(key: PRNGKeyArray, *shape: int) -> Int8[Array, "..."]:
    """Random signs, for `fold`."""
    return jax.random.rademacher(key, shape, jnp.int8)


def fold(
    signs: Int8[Array, " inputs"], x: Float[Array, "*points inputs"], columns: int
) -> Float[Array, "*points columns"]:
    """The last axis of x cut into pieces of `columns`, added with random signs: a CountSketch of a direct sum.

    The products of the results have those of x as their mean, and an error like that of a projection.
    """
    return add_pieces(x * signs.astype(x.dtype), columns)


def add_pieces(x: Array, columns: int) -> Array:
    """The pieces of `columns` of the last axis, added: the part of `fold` after the signs."""
    pieces = [x[..., start : start + columns] for start in range(0, max(x.shape[-1], 1), columns)]
    missing = len(pieces) * columns - x.shape[-1]
    pieces[-1] = jnp.pad(pieces[-1], [(0, 0)] * (x.ndim - 1) + [(0, missing)])
    return sum(pieces[1:], pieces[0])
