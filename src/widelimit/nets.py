"""Ready-made networks. Each takes an activation, or the name of one, and the scales of its weights."""

from .activations import Activation
from .layers import AvgPool, Conv, Dense, Flatten, GlobalAvgPool
from .network import Network, repeat, residual, serial
from .numerics.checks import check_int

_MYRTLE = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}


def fully_connected(
    depth: int = 1, activation: Activation | str = "relu", W_std: float = 1.0, b_std: float | None = None
) -> Network:
    """`depth` hidden layers and a read-out: Dense, then (activation, Dense) `depth` times.

    `activation` is an object, or a name of the catalogue; `W_std` and `b_std` are those of every `Dense`.
    """
    depth = check_int("depth", depth)
    dense = Dense(W_std, b_std)
    return serial(dense, *[activation, dense] * depth)


def myrtle(
    depth: int = 5, activation: Activation | str = "relu", W_std: float = 1.0, b_std: float | None = None
) -> Network:
    """The Myrtle networks of Shankar et al. (2020) with 5, 7 or 10 layers.

    Three stages of 3x3 convolutions, average pools between them, a global one at the end and a read-out. The other
    arguments are those of `fully_connected`.
    """
    if depth not in _MYRTLE:
        raise ValueError(f"There are Myrtle networks of depth 5, 7 and 10, not {depth!r}.")
    conv, pool = Conv((3, 3), padding="SAME", W_std=W_std, b_std=b_std), AvgPool((2, 2), strides=(2, 2))
    first, second, third = ([conv, activation] * count for count in _MYRTLE[depth])
    return serial(*first, pool, *second, pool, *third, GlobalAvgPool(), Dense(W_std, b_std))


def conv_flatten(
    depth: int = 8, activation: Activation | str = "relu", W_std: float = 1.0, b_std: float | None = None
) -> Network:
    """`depth` 3x3 convolutions and a read-out of all pixels, without pools; with depth 8 the paper's CV8; else as `myrtle`."""
    depth = check_int("depth", depth)
    conv = Conv((3, 3), padding="SAME", W_std=W_std, b_std=b_std)
    return serial(*[conv, activation] * depth, Flatten(), Dense(W_std, b_std))


def residual_net(
    blocks: int = 4, activation: Activation | str = "relu", W_std: float = 1.0, b_std: float | None = None
) -> Network:
    """A convolution, `blocks` residual blocks of two convolutions each, a global pool and a read-out; else as `myrtle`."""
    blocks = check_int("blocks", blocks)
    conv = Conv((3, 3), padding="SAME", W_std=W_std, b_std=b_std)
    block = residual(activation, conv, activation, conv)
    return serial(conv, repeat(block, blocks), activation, GlobalAvgPool(), Dense(W_std, b_std))
