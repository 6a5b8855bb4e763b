"""The drawn features of one kernel: how they are drawn, what they give, and how they go into a file."""

from functools import lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..layers import Layer, Nonlinearity
from ..sketches import SKETCHES, Auto, Cosine, Exact, Sketch, Widths
from ..storage.module import decode_module, encode_module
from .cosine import OfCosine, of_cosine
from .plan import LEAST, apply, column_count, draw, draw_at_once, outline, outline_and_count, plan_widths

_POLYNOMIAL_ERROR = 0.1  # at most, times the root of the columns
_BY_CLASS = {kind.__name__: kind for kind in SKETCHES.values()}


@partial(jax.jit, static_argnames=("get", "sketch", "widths"))
def _run(net: Layer, drawn: Any, x: Array, get: str, sketch: Sketch, widths: Widths) -> Array:
    return apply(net, drawn, x, get, sketch, widths)


class Part(eqx.Module):
    """The drawn features of one kernel."""

    drawn: Any
    mixed: Array | None  # random signs that make few columns of more, where fewer were asked for than the network has
    whole: OfCosine | None  # what the network is as one polynomial, where it is drawn as such
    get: str = eqx.field(static=True)
    sketch: Sketch = eqx.field(static=True)
    widths: Widths = eqx.field(static=True)

    def features(self, net: Any, x: Array | np.ndarray) -> Array:
        """The columns of x."""
        if self.whole is None:
            columns = _run(net, self.drawn, x, self.get, self.sketch, self.widths)
        else:
            columns = _run(Nonlinearity(self.whole), self.drawn, x, "nngp", self.sketch, self.widths)
        return columns if self.mixed is None else columns @ self.mixed.astype(columns.dtype)

    def encode(self) -> dict[str, Any]:
        """All but the arrays, as JSON."""
        whole = None
        if self.whole is not None:
            whole = [float(v) for v in (self.whole.power, self.whole.error, *self.whole.coefficients)]
        return {
            "get": self.get,
            "widths": list(self.widths),
            "sketch": encode_module(self.sketch),
            "whole": whole,
            "mixed": None if self.mixed is None else list(self.mixed.shape),
        }

    def arrays(self) -> list[np.ndarray]:
        """The arrays, as NumPy's files hold them: bfloat16, which they do not know, as its bits."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((self.drawn, self.mixed))]
        return [leaf.view(np.uint16) if leaf.dtype == jnp.bfloat16 else leaf for leaf in leaves]


def decode_sketch(data: Any) -> Sketch:
    """The sketch of its JSON."""
    sketch = decode_module(data, _BY_CLASS)
    hash(sketch)  # an error where a parameter is no plain value
    return sketch


def decode_part(
    data: dict[str, Any], arrays: list[np.ndarray], net: Layer, shape: tuple[int, ...], columns: int
) -> tuple[Part, list[np.ndarray]]:
    """The part of its JSON and the first of the arrays, and the arrays that are left."""
    get, sketch, widths, whole = data["get"], decode_sketch(data["sketch"]), _decode_widths(data["widths"]), None
    if get not in ("nngp", "ntk"):
        raise ValueError(f"its features are of {get!r}")
    if widths.random > max(columns, LEAST + 1):
        raise ValueError("its features are more than they can be")
    layer, kernel = net, get
    if data["whole"] is not None:
        power, error, *coefficients = map(float, data["whole"])
        if not np.all(np.isfinite([power, error, *coefficients])) or min(coefficients) < 0:
            raise ValueError("its polynomial has coefficients below 0, NaN or infinity")
        whole = OfCosine(power, tuple(coefficients), error)
        layer, kernel = Nonlinearity(whole), "nngp"
    signs = None if data["mixed"] is None else jax.ShapeDtypeStruct(tuple(data["mixed"]), jnp.float32)
    drawn, made = outline_and_count(layer, shape, kernel, sketch, widths)
    made = 0 if isinstance(sketch, Exact) else made  # which has as many columns as rows
    if made > columns if signs is None else signs.shape != (made, columns):
        raise ValueError(f"its layers make {made} columns, and {columns} do not fit them")
    leaves, structure = jax.tree.flatten((drawn, signs))
    own = [_as_dtype(*pair) for pair in zip(arrays, leaves, strict=False)]
    if [(a.shape, a.dtype) for a in own] != [(leaf.shape, leaf.dtype) for leaf in leaves]:
        raise ValueError("its arrays do not fit its network")
    if not all(np.all(np.isfinite(a)) for a in own):
        raise ValueError("its arrays hold NaN or infinity")
    drawn, mixed = jax.tree.unflatten(structure, [jnp.asarray(a) for a in own])
    return Part(drawn, mixed, whole, get, sketch, widths), arrays[len(leaves) :]


def _decode_widths(data: list[Any]) -> Widths:
    widths = Widths(*data)
    counts = [count for count in (widths.random, widths.pixels, widths.least) if count is not None]
    if not isinstance(widths.grows, bool) or any(type(count) is not int or count < 1 for count in counts):
        raise ValueError(f"its layers have {data!r} columns")
    return widths


def _as_dtype(array: np.ndarray, outline: Any) -> np.ndarray:
    return array.view(jnp.bfloat16) if outline.dtype == jnp.bfloat16 and array.dtype == np.uint16 else array


def draw_part(net: Layer, key: PRNGKeyArray, shape: tuple[int, ...], features: int, get: str, sketch: Sketch) -> Part:
    """Draw the features of one kernel."""
    if isinstance(sketch, Exact):  # nothing is random
        widths = Widths(1, True)
        return Part(outline(net, shape, get, sketch, widths), None, None, get, sketch, widths)
    draw_now = draw if is_traced(key) else draw_at_once
    key, for_signs = jax.random.split(key)
    polynomial = _polynomial(net, shape, features, get, sketch)
    if polynomial is not None:
        kind = sketch if isinstance(sketch, Cosine) else Cosine()
        layer = Nonlinearity(polynomial)
        widths = plan_widths(layer, shape, features, "nngp", kind)
        columns = column_count(layer, shape, "nngp", kind, widths)
        if columns <= features or isinstance(sketch, Cosine):
            drawn = draw_now(layer, key, shape, "nngp", kind, widths)
            return Part(drawn, _draw_signs(for_signs, columns, features), polynomial, get, kind, widths)
    widths = plan_widths(net, shape, features, get, sketch)
    mixed = _draw_signs(for_signs, column_count(net, shape, get, sketch, widths), features)
    return Part(draw_now(net, key, shape, get, sketch, widths), mixed, None, get, sketch, widths)


def _draw_signs(key: PRNGKeyArray, columns: int, features: int) -> Array | None:
    """Signs S with the mean of S S^T the identity: (phi S) . (phi' S) is phi . phi' on average."""
    if columns <= features:
        return None
    signs = jax.random.rademacher(key, (columns, features), jnp.float32)
    return signs * features**-0.5


def is_traced(x: Any) -> bool:
    """Whether JAX traces an array or a key."""
    if isinstance(x, np.ndarray):
        return False
    try:
        bool(jnp.any(jax.random.key_data(x) == 0 if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x[:1] == 0))
    except jax.errors.TracerBoolConversionError:
        return True
    return False


@lru_cache(maxsize=64)
def _polynomial(net: Layer, shape: tuple[int, ...], features: int, get: str, sketch: Sketch) -> OfCosine | None:
    """The network's kernel as one polynomial of the cosine, where that is asked for, or best.

    The polynomial's own error does not fall with the number of columns: it must be well below theirs.
    """
    polynomial = None
    if isinstance(sketch, Cosine | Auto) and len(shape) == 1:
        with jax.ensure_compile_time_eval():  # keys may be traced, the network is not
            polynomial = of_cosine(net, shape[0], get, sketch.degree if isinstance(sketch, Cosine) else Cosine().degree)
    if isinstance(sketch, Cosine):
        if polynomial is None:
            raise ValueError(
                "Cosine takes rows, and networks whose kernel is a power of their lengths times a function of their "
                "cosine: without biases, and with activations such as ReLU. This one is none. Use sketch='auto'."
            )
        return polynomial
    accurate = polynomial is not None and polynomial.error < _POLYNOMIAL_ERROR * features**-0.5
    return polynomial if accurate else None
