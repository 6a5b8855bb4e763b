"""Images on the device: whitened, turned into features batch by batch, and into the kernel of what follows these.

Mirror images. Of a kernel that is invariant, K(x, y) = K(mirror x, mirror y), ridge regression on images and their mirror
images is that on the images alone with the kernel (K(x, y) + K(x, mirror y)) / 2, and half the penalty: the solution gives
either image the same coefficient. Features of that kernel are the mean of those of an image and of its mirror image. Random
features are invariant in the limit alone, so those of pixels are put side by side with the mirrored features of the mirror
image, which makes their products invariant.
"""

import time
from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ..network import Network
from ..progress import bar
from ..sketched import FeatureMap

_BLOCK = 4096  # images at a time in float64
_BATCH_BYTES = {"cpu": 2**26}  # of the widest arrays of a batch
_BATCH_BYTES_OF_ACCELERATOR = 2**31
_LARGEST_BATCH = 2048
_BLOCK_ROWS = 16  # of a symmetric matrix, computed from the diagonal on


def whitened(fitted: np.ndarray, x: np.ndarray, regularization: float) -> Array:
    """Images x, float32: each less its mean and of length 1, then whitened by what the images `fitted` have in common.

    As `estimators.ImageNormalizer` and `ZCA(regularization, center=False)`, in float64 on the device. Fit many more images
    than there are numbers in each: directions that few images lack are blown up in all others.
    """
    with jax.enable_x64(True):
        moment = sum(_moment(_normalised(block)) for block in _flat_blocks(fitted)) / len(fitted)
        whitening = _inverse_root(moment, regularization)
        found = jnp.concatenate([_whiten(_normalised(block), whitening) for block in _flat_blocks(x)])
    return found.reshape(x.shape)


def _flat_blocks(x: np.ndarray) -> Iterator[np.ndarray]:
    for i in range(0, len(x), _BLOCK):
        yield x[i : i + _BLOCK].reshape(-1, prod(x.shape[1:]))


@jax.jit
def _normalised(block: Array) -> Array:
    x = block.astype(jnp.float64)
    x = x - x.mean(1, keepdims=True)
    length = jnp.linalg.norm(x, axis=1, keepdims=True)
    return jnp.where(length > 1e-9, x / jnp.where(length > 1e-9, length, 1), 0)  # constant images become zero


def _moment(part: Array) -> Any:
    if jax.default_backend() == "cpu":  # BLAS multiplies an array by itself at half the cost
        x = np.asarray(part)
        return x.T @ x
    return _product(part)


_product = jax.jit(lambda part: part.T @ part)
_whiten = jax.jit(lambda part, whitening: (part @ whitening).astype(jnp.float32))


@jax.jit
def _inverse_root(moment: Array, regularization: float) -> Array:
    values, vectors = jnp.linalg.eigh(moment)
    values = jnp.maximum(values, 0)
    return (vectors / jnp.sqrt(values + regularization * values.mean())) @ vectors.T


class Made(NamedTuple):
    """Features of all images, and the seconds it took to compile and then to compute them."""

    features: Array
    compiling: float
    seconds: float


def features_of(
    phi: FeatureMap, x: Array, flips: bool, kept: str, batch: int | None = None, progress: bool = False
) -> Made:
    """The features of all images, in the dtype `kept`; with `flips`, of a kernel that mirror images share.

    Rows of features, (n, columns), are means over the image and its mirror image. Pixels have theirs side by side, which
    `rows_of_kernel` makes one kernel of; they are scaled so that the exact reading, which divides products by the number of
    channels, sees their products.
    """
    size = min(len(x), default_batch(phi) if batch is None else batch)
    starts = [min(i, len(x) - size) for i in range(0, len(x), size)]  # the last overlaps, and one program serves all
    shape = jax.eval_shape(partial(_batch_of, flips=flips), phi, x[:size]).shape[1:]
    began = time.perf_counter()
    found = jnp.zeros((len(x), *shape), kept)
    found = _filled_in(phi, found, x, 0, size, flips).block_until_ready()
    ready = time.perf_counter()
    with bar("features", progress, len(x)) as advance:
        for start in starts:
            found = _filled_in(phi, found, x, start, size, flips)
            if progress:
                found.block_until_ready()
            advance(size)
    found.block_until_ready()
    return Made(found, ready - began, time.perf_counter() - ready)


def default_batch(phi: FeatureMap) -> int:
    """As many images as have wide arrays of some megabytes on a CPU, and of some gigabytes on an accelerator."""
    row = prod(phi.input_shape[:-1]) * phi.columns * jnp.dtype(phi.dtype or "float32").itemsize
    fit = _BATCH_BYTES.get(jax.default_backend(), _BATCH_BYTES_OF_ACCELERATOR) // row
    return 1 << (min(max(fit, 1), _LARGEST_BATCH).bit_length() - 1)


@partial(jax.jit, static_argnames=("size", "flips"), donate_argnames="found")
def _filled_in(phi: FeatureMap, found: Array, x: Array, start: int, size: int, flips: bool) -> Array:
    """The features so far, with those of another batch."""
    part = _batch_of(phi, lax.dynamic_slice_in_dim(x, start, size), flips)
    return lax.dynamic_update_slice_in_dim(found, part.astype(found.dtype), start, 0)


def _batch_of(phi: FeatureMap, x: Array, flips: bool) -> Array:
    own = phi(x)
    other = phi(mirrored(x)) if flips else None
    if own.ndim == 2:
        return own if other is None else (own.astype(jnp.float32) + other.astype(jnp.float32)) / 2
    # side by side, columns are twice as many and products half the sum: the same factor
    return phi.columns**0.5 * (own if other is None else jnp.concatenate([own, mirrored(other)], axis=-1))


def mirrored(x: Array) -> Array:
    """Left and right exchanged."""
    return jnp.flip(x, axis=2)


def of_mirror_image(both: Array) -> Array:
    """The features that the mirror images of such as have `both` side by side have, without computing any."""
    half = both.shape[-1] // 2
    return mirrored(jnp.concatenate([both[..., half:], both[..., :half]], axis=-1))


def rows_of_kernel(
    tail: Network, features: Array, columns: int, flips: bool, progress: bool = False, block_rows: int = _BLOCK_ROWS
) -> np.ndarray:
    """The NNGP of `tail` on features of pixels: of all images with the first `columns`, float32.

    With `flips` it is (K(x, y) + K(x, mirror y)) / 2, the second part of which is symmetric too.
    """
    first, rest = features[:columns], features[columns:]
    found = np.empty((len(features), columns), np.float32)
    tail.kernel(first, get="nngp", progress=progress, out=found[:columns])
    tail.kernel(rest, first, get="nngp", progress=progress, out=found[columns:])
    if not flips:
        return found
    height = -(-columns // block_rows)
    with bar("mirror images", progress, len(features)) as advance:
        for i in range(0, columns, height):
            j = min(i + height, columns)
            other = np.empty((j - i, columns - i), np.float32)
            tail.kernel(of_mirror_image(first[i:j]), first[i:], get="nngp", out=other)
            found[i:j, i:] = (found[i:j, i:] + other) / 2
            found[j:columns, i:j] = found[i:j, j:].T
            advance(j - i)
        for i in range(columns, len(features), height):
            part = found[i : i + height]
            other = np.empty_like(part)
            tail.kernel(of_mirror_image(features[i : i + height]), first, get="nngp", out=other)
            part[:] = (part + other) / 2
            advance(len(part))
    return found


def seconds_since(began: float, *arrays: Any) -> float:
    """Wall time, once the arrays are computed."""
    jax.block_until_ready(arrays)
    return time.perf_counter() - began
