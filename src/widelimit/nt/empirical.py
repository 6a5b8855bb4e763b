"""neural-tangents' finite networks: kernels of any function f(params, x), their averages over draws, and linearisation."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..numerics.checks import check_int
from ..numerics.precision import in_input_precision
from .choosing import names_of, select

_READINGS = ("nngp", "ntk")


def _axes(axes: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Output axes as numbers from 1 on. Axis 0 is the batch, and is refused."""
    several = (axes,) if isinstance(axes, int) else tuple(axes)
    counted = tuple(axis % rank if -rank <= axis < rank else -1 for axis in several)
    if any(axis < 1 for axis in counted):
        raise ValueError(
            f"trace_axes and diagonal_axes name axes of an output of {rank} axes other than the batch, not {axes}."
        )
    return counted


def _check_axes(trace: tuple[int, ...], diagonal: tuple[int, ...]) -> None:
    if set(trace) & set(diagonal):
        raise ValueError(f"trace_axes and diagonal_axes have {set(trace) & set(diagonal)} in common. Give each to one.")


def _contract(y1: Array, y2: Array, trace: tuple[int, ...], diagonal: tuple[int, ...]) -> Array:
    """sum over the last axis of y1 y2, the mean over `trace` axes, the diagonal over `diagonal` ones, the others in pairs."""
    _check_axes(trace, diagonal)
    rank = y1.ndim - 1
    shared, own = range(rank), range(rank, 2 * rank)
    second = [shared[i] if i in trace + diagonal else own[i] for i in range(rank)]
    last = 2 * rank
    kept = [axis for i in range(rank) if i not in trace for axis in ([i] if i in diagonal else [shared[i], own[i]])]
    total = jnp.einsum(y1, [*shared, last], y2, [*second, last], kept, precision="highest")
    return total / prod(y1.shape[i] for i in trace)


def empirical_nngp_fn(
    f: Callable[..., Any], trace_axes: int | Sequence[int] = (-1,), diagonal_axes: int | Sequence[int] = ()
) -> Callable[..., Any]:
    """nngp_fn(x1, x2, params): the products of outputs, averaged over `trace_axes`."""

    def nngp_fn(x1: Any, x2: Any, params: Any, **kwargs: Any) -> Any:
        def run(x1: Any, x2: Any) -> Array:
            y1, y2 = _both(lambda x, **own: jnp.asarray(f(params, x, **own)), x1, x2, kwargs)
            trace, diagonal = _axes(trace_axes, y1.ndim), _axes(diagonal_axes, y1.ndim)
            return _contract(y1[..., None], y2[..., None], trace, diagonal)

        return _in_numpy_precision(run, x1, x2)

    return nngp_fn


def empirical_ntk_fn(
    f: Callable[..., Any],
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: Any = None,
    implementation: Any = None,
) -> Callable[..., Any]:
    """ntk_fn(x1, x2, params): the products of Jacobians, averaged over `trace_axes`.

    `vmap_axes` and `implementation` are accepted for compatibility and ignored. Jacobians are always formed.
    """

    def ntk_fn(x1: Any, x2: Any, params: Any, **kwargs: Any) -> Any:
        def jacobians(x: Any, **own: Any) -> Array:
            outputs = jax.eval_shape(lambda p: f(p, x, **own), params)
            if not hasattr(outputs, "shape"):
                raise TypeError(
                    f"f gives one array of outputs here, and gave {type(outputs).__name__}. Pick one of them."
                )
            shape = outputs.shape
            leaves = jax.tree.leaves(jax.jacrev(lambda p: f(p, x, **own))(params))
            return jnp.concatenate([leaf.reshape(*shape, -1) for leaf in leaves], axis=-1)

        def run(x1: Any, x2: Any) -> Array:
            j1, j2 = _both(jacobians, x1, x2, kwargs)
            rank = j1.ndim - 1
            return _contract(j1, j2, _axes(trace_axes, rank), _axes(diagonal_axes, rank))

        return _in_numpy_precision(run, x1, x2)

    return ntk_fn


def _in_numpy_precision(run: Callable[..., Any], x1: Any, x2: Any) -> Any:
    """run(x1, x2), with NumPy's floats computed in their own precision. Parameters keep the precision that they have."""
    arrays = [x for x in (x1, x2) if x is not None]
    if not all(isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64) for x in arrays):
        return run(x1, x2)
    dtype = np.result_type(*arrays)
    return in_input_precision(run, *(None if x is None else x.astype(dtype, copy=False) for x in (x1, x2)))


def _both(fn: Callable[..., Any], x1: Any, x2: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """fn of both inputs. A random key is split, so that two different inputs have different masks."""
    kwargs = dict(kwargs)
    key = kwargs.pop("rng", None)
    if key is None:
        first = fn(x1, **kwargs)
        return first, first if x2 is None else fn(x2, **kwargs)
    keys = (key, key) if x2 is None else jax.random.split(key)
    return fn(x1, rng=keys[0], **kwargs), fn(x1 if x2 is None else x2, rng=keys[1], **kwargs)


def empirical_kernel_fn(
    f: Callable[..., Any],
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    **options: Any,
) -> Callable[..., Any]:
    """kernel_fn(x1, x2, get, params): both kernels, or those named, of a finite network."""
    functions = {
        "nngp": empirical_nngp_fn(f, trace_axes, diagonal_axes),
        "ntk": empirical_ntk_fn(f, trace_axes, diagonal_axes, **options),
    }

    def kernel_fn(x1: Any, x2: Any, get: Any, params: Any, **kwargs: Any) -> Any:
        return select(get, names_of(get, _READINGS), lambda name: functions[name](x1, x2, params, **kwargs))

    return kernel_fn


def monte_carlo_kernel_fn(
    init_fn: Callable[..., Any],
    apply_fn: Callable[..., Any],
    key: Array,
    n_samples: int | Iterable[int],
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: Any = None,
    implementation: Any = None,
) -> Callable[..., Any]:
    """kernel_fn(x1, x2, get): the mean kernel of `n_samples` random networks.

    For several numbers it yields the means over that many, from the lowest to the highest. Every network has random numbers of
    its own, for its weights and, where `apply_fn` takes `rng`, for its masks. The parameters about batches, devices and
    implementations are accepted for compatibility and ignored.
    """
    finite = empirical_kernel_fn(apply_fn, trace_axes, diagonal_axes)
    single = not isinstance(n_samples, Iterable)
    several = n_samples if isinstance(n_samples, Iterable) else [n_samples]
    counts = sorted({check_int("n_samples", count, least=1) for count in several})
    if not counts:
        raise ValueError("n_samples is a number of networks, or several such numbers, and holds none.")
    known = inspect.signature(apply_fn).parameters
    takes_rng = "rng" in known or any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())

    def kernel_fn(x1: Any, x2: Any = None, get: Any = None, **kwargs: Any) -> Any:
        kwargs.pop("rng", None)  # every network has its own

        @jax.jit
        def draw(i: Array, x1: Array, x2: Array | None) -> Any:
            weights, masks = jax.random.split(jax.random.fold_in(key, i))
            _, params = init_fn(weights, x1.shape)
            return finite(x1, x2, get, params, **({"rng": masks} if takes_rng else {}), **kwargs)

        def sample(i: int) -> Any:
            return _in_numpy_precision(partial(draw, i), x1, x2)

        def means() -> Iterator[Any]:
            total = None
            for i in range(counts[-1]):
                total = sample(i) if total is None else jax.tree.map(jnp.add, total, sample(i))
                if i + 1 in counts:
                    yield jax.tree.map(lambda value, n=i + 1: value / n, total)

        return next(means()) if single else means()

    return kernel_fn


def linearize(f: Callable[..., Any], params: Any) -> Callable[..., Any]:
    """The Taylor expansion of f in its parameters around `params`, of first order."""
    return taylor_expand(f, params, 1)


def taylor_expand(f: Callable[..., Any], params: Any, degree: int) -> Callable[..., Any]:
    """The Taylor expansion of f in its parameters around `params`, of order `degree`."""

    degree = check_int("degree", degree)

    def expand(new: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return _in_numpy_precision(lambda x, _: along_parameters(new, x, *args, **kwargs), x, None)

    def along_parameters(new: Any, *args: Any, **kwargs: Any) -> Any:
        step = jax.tree.map(jnp.subtract, new, params)

        def along(derivative: Callable[..., Any]) -> Callable[..., Any]:
            return lambda p: jax.jvp(derivative, (p,), (step,))[1]

        term, weight = (lambda p: f(p, *args, **kwargs)), 1.0
        total = term(params)
        for n in range(1, degree + 1):
            term, weight = along(term), weight / n
            total = total + weight * term(params)
        return total

    return expand
