"""What a layer is: its readings side by side, so that scale, bias and normalisation cannot drift apart.

* `propagate(state)`: the exact reading, from the covariances before the layer to those after it;
* `draw(key, shape, width)` and `forward(params, x, key)`: the finite reading;
* `sketch(key, features)` and `features(drawn, features)`: the reading as random features; the first sees only shapes;
* `shape(shape, width)`: the output shape, which all readings share.

Widths belong to the finite reading. `needs_pairs` tells, from what the following layers need, whether this one must be
given the covariance of every pair of pixels or only that of equal pixels.

Most layers take one input and give one output, and annotate their methods so. Those with `takes_branches` are given
`Branches` too: of shapes, states, features or arrays. `Serial` sees to it that no other layer is.

Whatever else a layer has to know comes to it in one of three ways:

* what the call wants is the *context*, `State.context` or `Features.context`. It is not traced, and layers only read it;
* what belongs to the inputs *travels* as a further field: a subclass of `State` (and of `Features`) has it for both inputs
  of a pair, and a pytree with the values in the finite reading. So will masks, which say how much of an input is there, and the
  patterns of graphs, which an aggregation reads where a convolution has its windows. All layers change a state by
  `dataclasses.replace`, so that such a field passes through those that do not know it; a pool or Flatten, after which there are
  other pixels, will have to say what becomes of a mask;
* several inputs and outputs are `Branches`, from the start or to the end. Attention needs none of this: like a pool, it takes
  a state with all pairs of pixels (`needs_pairs`), since its scores are covariances that are already there.

`tests/layers/test_spikes.py` has a masked Dense and an aggregation over graphs written so.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar, TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..activations import Activation, moment_dual, moment_slope, named
from ..numerics import fusion_barrier, safe_sqrt, tree_barrier
from ..sketches import Features
from ..storage.module import ReprAsCode
from .shapes import OneOrMore, Shape
from .state import State

WRONG_PARAMETERS = "The parameters are not those of this network. Make them with net.init(key, input_shape)."
Scalar: TypeAlias = float | Float[Array, ""]  # a parameter, which JAX may trace
Values: TypeAlias = Float[Array, "n ..."]  # of the finite network: a batch, pixels, channels
Batch: TypeAlias = PyTree[Array]  # values, branches of them, or values with what travels beside them
Parameters: TypeAlias = PyTree[Array]  # of the finite network
Drawn: TypeAlias = PyTree[Array]  # the random numbers of the feature reading


class Layer(ReprAsCode):
    """A step of a network."""

    takes_branches: ClassVar[bool] = False  # whether it works on what FanOut makes

    @abstractmethod
    def shape(self, shape: OneOrMore[Shape], width: int | None) -> OneOrMore[Shape]:
        """The shape after the layer; an error where the layer does not fit."""

    @abstractmethod
    def propagate(self, state: OneOrMore[State]) -> OneOrMore[State]:
        """The exact reading."""

    @abstractmethod
    def forward(self, params: Parameters, x: Batch, key: PRNGKeyArray | None) -> Batch:
        """The finite reading, on a batch."""

    def draw(self, key: PRNGKeyArray, shape: OneOrMore[Shape], width: int) -> Parameters:
        """Fresh parameters of the finite reading."""
        return ()

    def sketch(self, key: PRNGKeyArray, features: OneOrMore[Features]) -> Drawn:
        """The random numbers of the feature reading, for features of these shapes."""
        return ()

    def features(self, drawn: Drawn, features: OneOrMore[Features]) -> OneOrMore[Features]:
        """The feature reading, on a batch."""
        raise TypeError(f"{type(self).__name__} has no features: its class gives no method `features`.")

    def sketch_and_end(self, key: PRNGKeyArray, features: OneOrMore[Features]) -> tuple[Drawn, OneOrMore[Features]]:
        """What is drawn, and the features after the layer."""
        drawn = self.sketch(key, features)
        return drawn, self.features(drawn, features)

    def needs_pairs(self, after: bool) -> bool:
        """Whether pairs of different pixels are needed before the layer, given whether they are after it."""
        return after


class Nonlinearity(Layer):
    """An activation as a layer. Combinators wrap bare activations in it."""

    activation: Activation

    def shape(self, shape: Shape, width: int | None) -> Shape:
        return shape

    def propagate(self, state: State) -> State:
        if not state.gaussian:
            raise ValueError(
                f"{type(self.activation).__name__} needs a Gaussian input but follows {state.after}. Put Dense or Conv "
                "before it."
            )
        state, first, second = state.variances()
        act, ulps = self.activation, state.context.ulps

        def kernels(nngp: Array, ntk: Array | None, var1: Array, var2: Array) -> tuple[Array, Array | None]:
            dual = moment_dual(ulps, act, nngp, var1, var2)
            return dual, None if ntk is None else ntk * moment_slope(ulps, act, nngp, var1, var2)

        if state.context.with_itself and not state.pairs:  # each variable with itself, whose cosine is 1
            std = safe_sqrt(first)
            nngp, ntk = act.k(std, std, jnp.sign(std)), state.ntk
            ntk = None if ntk is None else ntk * act.k_slope(std, std, jnp.sign(std))
        else:
            arrays = state.nngp, state.ntk, *state.per_pixel(first, second)
            nngp, ntk = fusion_barrier(kernels, arrays[0], results=2)(*arrays)
        return replace(state, nngp=nngp, ntk=ntk, gaussian=False, after=type(act).__name__)

    def forward(self, params: Parameters, x: Values, key: PRNGKeyArray | None) -> Values:
        # in float32 at least: some functions have no half precision, and gradients of slopes are sums over all numbers
        return self.activation.fn(x.astype(jnp.promote_types(x.dtype, jnp.float32))).astype(x.dtype)

    def sketch(self, key: PRNGKeyArray, features: Features) -> Drawn:
        return features.sketch.draw(key, self.activation, features)

    def features(self, drawn: Drawn, features: Features) -> Features:
        # pixels are looked at again by the next convolution, which must not compute the activation once for each look
        if not features.spatial:
            return self._features(drawn, features)
        return tree_barrier(lambda drawn, features: self._features(drawn, features), drawn, features)

    def _features(self, drawn: Drawn, features: Features) -> Features:
        act, point, narrow = self.activation, features.point(), features.phi.kept.dtype
        after = features.sketch.step(drawn, act, features)
        after = after.map(lambda columns: columns.map(lambda x: x.astype(narrow)))
        variance = added = None
        if features.variance is not None or point.share is not None:
            one = jnp.sign(point.std)
            variance = act.k(point.std, point.std, one)
            added = None if point.share is None else variance - act.k(point.std, point.std, point.share**2)
        return replace(after, variance=variance, added=added)

    def __repr__(self) -> str:
        return repr(self.activation)


class Identity(Layer):
    """Does nothing; the short way of a residual branch."""

    def shape(self, shape: Shape, width: int | None) -> Shape:
        return shape

    def propagate(self, state: OneOrMore[State]) -> OneOrMore[State]:
        return state

    def forward(self, params: Parameters, x: Batch, key: PRNGKeyArray | None) -> Batch:
        return x

    def features(self, drawn: Drawn, features: OneOrMore[Features]) -> OneOrMore[Features]:
        return features


def as_layer(step: object) -> Layer:
    """A layer, an activation, or the name of one, as a layer."""
    if isinstance(step, str):
        step = named(step)
    if isinstance(step, Activation):
        return Nonlinearity(step)
    if isinstance(step, Layer):
        return step
    if isinstance(step, type) and issubclass(step, Layer | Activation):
        raise TypeError(f"{step.__name__} is a class. Did you mean {step.__name__}()?")
    hint = "Wrap a function in Elementwise(fn)." if callable(step) else "Give layers, activations or their names."
    raise TypeError(f"A network is made of layers and activations, and {step!r} is neither. {hint}")


def check_spatial_rank(layer: Layer, shape: Shape, rank: int | None = None) -> None:
    """Refuse a shape without spatial axes, or with another number of them than `rank`."""
    count = len(shape) - 1
    if count < 1 or (rank is not None and count != rank):
        needed = "spatial axes" if rank is None else f"{rank} spatial axes"
        example = "x".join("HWD"[: rank or 2])
        raise ValueError(
            f"{layer!r} needs {needed} before the channels, and its input has the shape {shape}. "
            f"Give inputs of shape (n, {example.replace('x', ', ')}, channels)."
        )
