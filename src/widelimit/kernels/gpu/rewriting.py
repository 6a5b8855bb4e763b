"""The pass over a network that puts programs of a GPU in the place of layers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec

from ...layers import Layer, Parallel
from ...layers.serial import Serial
from ...numerics.device import backend
from .last_stage import LastStage
from .paired_windows import PairedConv

# What may stand for so many layers in a row: the layer, or None where they are not known.
REWRITES: dict[int, Callable[[Sequence[Layer]], Layer | None]] = {3: LastStage.replace, 1: PairedConv.replace}


def runs_on_gpu() -> bool:
    """Whether programs go to a GPU as a rule, and JAX has the language of ours, which it may drop some day.

    On another device all the same, the programs' definitions run.
    """
    return backend() == "gpu" and find_spec("jax.experimental.pallas.triton") is not None


def rewrite(net: Layer) -> Layer:
    """The network with what stands for the runs of layers that are known; itself, where none is."""
    if isinstance(net, Serial):
        layers = _rewrite_row(net.layers)
    elif isinstance(net, Parallel):
        layers = tuple(rewrite(layer) for layer in net.layers)
    else:
        return _replacement((net,)) or net
    same = len(layers) == len(net.layers) and all(new is old for new, old in zip(layers, net.layers, strict=True))
    return net if same else replace(net, layers=layers)


def _rewrite_row(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    rewritten: list[Layer] = []
    while layers:
        runs = (layers[:count] for count in sorted(REWRITES, reverse=True) if count <= len(layers))
        run, known = next(((run, known) for run in runs if (known := _replacement(run))), (layers[:1], None))
        rewritten.append(known or rewrite(run[0]))
        layers = layers[len(run) :]
    return tuple(rewritten)


def _replacement(run: tuple[Layer, ...]) -> Layer | None:
    return REWRITES[len(run)](run) if len(run) in REWRITES else None
