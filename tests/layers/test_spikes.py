"""Layers of another kind, written on the contract as it stands: what they need travels beside the covariances.

Neither is offered yet. They show that a field of a state passes through the layers that do not know it.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import widelimit as wl
from widelimit.features import plan
from widelimit.kernels import exact
from widelimit.layers.state import Context, State, Tape
from widelimit.sketches import Auto, Columns, Features, Widths


class Carrier(State):
    """A state with an array for each of the two inputs, shaped as variances are: a mask or the pattern of a graph."""

    beside: tuple[Array, Array] = eqx.field(kw_only=True)


class FeatureCarrier(Features):
    """Features with such an array."""

    beside: Array = eqx.field(kw_only=True)


class Batch(eqx.Module):
    """Inputs that are more than one array."""

    values: Array
    beside: Array


def rows(batch: Batch, places: slice) -> Batch:
    return jax.tree.map(lambda leaf: leaf[places], batch)


def kernel(net: wl.Layer, first: Batch, second: Batch) -> State:
    """The exact reading of pairs of all inputs of two batches: variances first, pairs after."""

    def carrier(nngp, tape, beside):
        *spatial, channels = first.values.shape[1:]
        context = Context(wants_ntk=True, with_itself=tape is None)
        return Carrier(nngp, None, tape or Tape(), context, tuple(spatial), channels, pairs=True, beside=beside)

    def variances(batch):
        start = carrier(exact._own_covariance(True, batch.values), None, (batch.beside, batch.beside))
        return [own for own, _ in net.propagate(start).tape.entries]

    entries = tuple((a[:, None], b[None]) for a, b in zip(variances(first), variances(second), strict=True))
    nngp = exact._covariance(True, first.values, second.values)
    return net.propagate(carrier(nngp, Tape(entries), (first.beside[:, None], second.beside[None])))


class Aggregate(wl.Layer):
    """Sums the neighbours of every node, which are the pixels of an input; the pattern is its matrix of neighbours."""

    def shape(self, shape, width):
        return shape

    def needs_pairs(self, after):
        return True

    def propagate(self, state: Carrier) -> Carrier:
        if state.context.with_itself:
            (own, _), sums = state.beside, "nik,nkl,njl->nij"
            return state.map(lambda x: jnp.einsum(sums, own, x, own))
        first, second = state.beside[0][:, 0], state.beside[1][0]
        return state.map(lambda x: jnp.einsum("aik,akbl,bjl->aibj", first, x, second))

    def forward(self, params, x: Batch, key) -> Batch:
        return replace(x, values=x.beside @ x.values)

    def features(self, drawn, features: FeatureCarrier) -> FeatureCarrier:
        def add(columns: Columns) -> Columns:
            return columns.map(lambda x: features.beside.astype(x.dtype) @ x)

        return features.plain().map(add, variance=None)


class OnValues(wl.Layer):
    """A layer that knows nothing of what is beside the values."""

    layer: wl.Layer

    def shape(self, shape, width):
        return self.layer.shape(shape, width)

    def needs_pairs(self, after):
        return self.layer.needs_pairs(after)

    def propagate(self, state):
        return self.layer.propagate(state)

    def forward(self, params, x: Batch, key) -> Batch:
        return replace(x, values=self.layer.forward(params, x.values, key))

    def features(self, drawn, features):
        return self.layer.features(drawn, features)


def test_an_aggregation_reads_the_graph_of_every_input(x64):
    """On rings it is a circular SumPool. The second batch's nodes are in another order, each with its own neighbours."""
    nodes, rng = 5, np.random.default_rng(0)
    layers = (
        wl.Dense(1.3, 0.2),
        wl.Relu(),
        wl.SumPool(3, padding="CIRCULAR"),
        wl.Dense(),
        wl.GlobalAvgPool(),
        wl.Dense(),
    )
    plain = wl.serial(*layers)
    net = wl.serial(*(Aggregate() if isinstance(layer, wl.SumPool) else OnValues(layer) for layer in plain.layers))
    x = jnp.asarray(rng.normal(size=(5, nodes, 2)))
    ring = sum(jnp.roll(jnp.eye(nodes), shift, 0) for shift in (-1, 0, 1))
    order = rng.permutation(nodes)
    first = Batch(x[:2], jnp.stack([ring] * 2))
    second = Batch(x[2:, order], jnp.stack([ring[order][:, order]] * 3))

    expected, found = plain.kernel(x[:2], x[2:]), kernel(net, first, second)
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-12)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-12)
    block = kernel(net, rows(first, slice(1)), rows(second, slice(1, 3)))  # blocks of inputs that are trees of arrays
    np.testing.assert_allclose(block.ntk, expected.ntk[:1, 1:], rtol=1e-12)

    params = plain.init(jax.random.key(0), (nodes, 2), width=8)
    np.testing.assert_allclose(net.forward(params, second, None).values, plain.apply(params, x[2:]), rtol=1e-10)

    kind, widths = Auto(), Widths(8, False, nodes)
    drawn = plan.draw(plain, jax.random.key(0), (nodes, 2), "ntk", kind, widths)
    start = plan.start(second.values, True, kind, widths)
    fields = {name: getattr(start, name) for name in start.__dataclass_fields__}
    columns = plan.end(net.features(drawn, FeatureCarrier(**fields, beside=second.beside))).all()
    np.testing.assert_allclose(columns, plan.apply(plain, drawn, x[2:], "ntk", kind, widths), atol=1e-6)


class MaskedDense(wl.Layer):
    """A Dense after which pixels outside the mask are 0."""

    dense: wl.Dense

    def shape(self, shape, width):
        return self.dense.shape(shape, width)

    def propagate(self, state: Carrier) -> Carrier:
        first, second = state.per_pixel(*state.beside)
        return self.dense.propagate(state).map(lambda x: x * first * second)

    def forward(self, params, x: Batch, key) -> Batch:
        return replace(x, values=self.dense.forward(params, x.values, key) * x.beside[..., None])

    def sketch(self, key, features):
        return self.dense.sketch(key, features)

    def features(self, drawn, features: FeatureCarrier) -> FeatureCarrier:
        after = self.dense.features(drawn, features)
        return after.map(lambda columns: columns.scaled(features.beside), variance=after.variance * features.beside)


def test_a_mask_leaves_out_pixels(x64):
    """Inputs of four pixels of which one is masked are inputs of three, though biases reach every pixel."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(5, 3, 2)))
    padded = jnp.insert(x, 1, rng.normal(size=(5, 2)), axis=1)
    mask = jnp.ones((5, 4)).at[:, 1].set(0)
    dense = wl.Dense(1.3, 0.2)
    plain = wl.serial(dense, wl.Relu(), dense, wl.GlobalSumPool())
    net = wl.serial(*(MaskedDense(dense) if layer == dense else layer for layer in plain.layers))
    batch = Batch(padded, mask)

    expected, found = plain.kernel(x[:2], x[2:]), kernel(net, rows(batch, slice(2)), rows(batch, slice(2, 5)))
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-12)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-12)

    params = plain.init(jax.random.key(0), (3, 2), width=8)
    on_values = wl.serial(*(layer if isinstance(layer, MaskedDense) else OnValues(layer) for layer in net.layers))
    np.testing.assert_allclose(on_values.forward(params, batch, None).values, plain.apply(params, x), rtol=1e-10)

    kind, widths = Auto(), Widths(8, False, 3)
    drawn = plan.draw(plain, jax.random.key(0), (3, 2), "ntk", kind, widths)
    start = plan.start(padded, True, kind, widths)
    fields = {name: getattr(start, name) for name in start.__dataclass_fields__}
    columns = plan.end(net.features(drawn, FeatureCarrier(**fields, beside=mask))).all()
    np.testing.assert_allclose(columns, plan.apply(plain, drawn, x, "ntk", kind, widths), atol=1e-6)
