"""Gradient flow on any loss, with or without momentum, by a Runge-Kutta method."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.ode import odeint
from jaxtyping import Array, Float

from ..numerics.precision import in_input_precision
from .arrays import AnyArray, ArrayLike
from .checks import check_kernels, check_outputs

Loss = Callable[[Array, AnyArray], Array]


class FlowState(NamedTuple):
    """Outputs on training and test rows, and their velocities; None where there are none."""

    train: Float[AnyArray, "..."]
    test: Float[AnyArray, "..."] | None
    train_velocity: Float[AnyArray, "..."] | None = None
    test_velocity: Float[AnyArray, "..."] | None = None


def loss_flow(
    loss: Loss,
    K: ArrayLike,
    y: ArrayLike,
    t: ArrayLike,
    train: ArrayLike = 0.0,
    test: ArrayLike | None = None,
    K_cross: ArrayLike | None = None,
    rate: float = 1.0,
    momentum: float | None = None,
    train_velocity: ArrayLike | None = None,
    test_velocity: ArrayLike | None = None,
) -> tuple[AnyArray, AnyArray | None, AnyArray | None, AnyArray | None]:
    """Outputs after gradient flow on any loss(f, y), by a Runge-Kutta method: df/dt = -rate K grad loss(f).

    With `momentum` the flow is that of gradient descent with momentum: time runs with sqrt(rate), and velocities q obey
    dq/dt = -(1 - momentum) / sqrt(rate) q - K grad loss(f), df/dt = q. Gives train and test outputs and velocities.

    `t` is a time, or an array of them, finite; `train` and `test` are the outputs at time 0, `train_velocity` and
    `test_velocity` their velocities. Test outputs move with `K_cross`, the kernel of test with training rows.
    """
    times = _check_times(t)
    K, y, K_cross, _, _ = check_kernels(0.0, K, y, K_cross)
    if test is not None and K_cross is None:
        raise ValueError("Test outputs were given without K_cross, which says how they move. Give it too.")
    if train is None or not rate > 0:
        raise ValueError(
            f"A flow starts from outputs on the training rows, with a rate above 0, not {train!r} and {rate!r}."
        )
    counts = (len(K), 0 if K_cross is None else len(K_cross)) * 2
    starts = (train, test, train_velocity, test_velocity)
    for name, value, count in zip(FlowState._fields, starts, counts, strict=True):
        if value is not None:
            check_outputs(name, value, (count, *y.shape[1:]))
    if momentum is not None:
        test_velocity = None if test is None else 0.0 if test_velocity is None else test_velocity
        starts = (train, test, 0.0 if train_velocity is None else train_velocity, test_velocity)

    def run(K: AnyArray, y: AnyArray, K_cross: AnyArray | None) -> FlowState:
        def fill(value: ArrayLike, count: int) -> Array:
            return jnp.broadcast_to(jnp.asarray(value, K.dtype), (count, *y.shape[1:]))

        used = starts[1:] if momentum is not None else starts[1:2]
        others = [None if value is None else fill(value, count) for value, count in zip(used, counts[1:], strict=False)]
        state = FlowState(fill(train, len(K)), *others)
        speed = rate if momentum is None else rate**0.5
        return _integrate(_motion(loss, K, y, K_cross, speed, momentum), state, speed * times)

    return tuple(in_input_precision(run, K, y, K_cross))


def _check_times(t: ArrayLike) -> Float[np.ndarray, "*times"]:
    try:
        times = np.asarray(t, np.float64)
    except TypeError:
        times = np.array(np.nan)
    if not (times.size and np.all(np.isfinite(times)) and np.all(times >= 0)):
        raise ValueError(
            f"A flow on any loss needs finite times of 0 or more, not {t!r}. For squared error use gradient_flow."
        )
    return times


def _motion(
    loss: Loss, K: AnyArray, y: AnyArray, K_cross: AnyArray | None, speed: float, momentum: float | None
) -> Callable[[FlowState, Array], FlowState]:
    """What a state changes by in time."""
    slope = jax.grad(lambda f: loss(f, y))

    def change(state: FlowState, _: Array) -> FlowState:
        push = slope(state.train)
        train, test = -K @ push, None if state.test is None or K_cross is None else -K_cross @ push
        velocity = state.train_velocity
        if momentum is None or velocity is None:
            return FlowState(train, test)
        friction = (momentum - 1) / speed
        forces = jax.tree.map(lambda force, q: force + friction * q, (train, test), (velocity, state.test_velocity))
        return FlowState(velocity, state.test_velocity, *forces)

    return change


def _integrate(
    change: Callable[[FlowState, Array], FlowState], start: FlowState, times: Float[np.ndarray, "*times"]
) -> FlowState:
    """The states at these times, in any order, with their axes in front."""
    flat = times.reshape(-1)
    order = np.argsort(flat)
    moments = jnp.asarray(flat[order], start.train.dtype)
    # the first time is that of the start; equal times need a tiny step
    grid = jnp.concatenate([jnp.where(moments[:1] == 0, -1e-24, 0).astype(moments.dtype), moments])
    states = odeint(change, start, grid)
    return jax.tree.map(lambda x: x[1:][np.argsort(order)].reshape(*times.shape, *x.shape[1:]), states)
