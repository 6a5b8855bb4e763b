"""What several test files share."""

import numpy as np

import widelimit as wl

SIZE = 192


def dual(act, *values):
    """`wl.dual` on arrays of one size, whatever the size given: one program serves all tests of an activation."""
    return _padded(wl.dual, act, *values)


def dual_slope(act, *values):
    """`wl.dual_slope`, likewise."""
    return _padded(wl.dual_slope, act, *values)


def _padded(fn, act, *values):
    values = np.broadcast_arrays(*values)
    count, shape = values[0].size, values[0].shape
    parts = [[np.resize(v.ravel()[i : i + SIZE], SIZE) for v in values] for i in range(0, count, SIZE)]
    return np.concatenate([fn(act, *part) for part in parts])[:count].reshape(shape)


def damaged(good: bytes, rng: np.random.Generator) -> bytes:
    """A file's bytes with a few bits flipped, or pieces cut out, doubled or put in."""
    data = bytearray(good)
    for _ in range(rng.integers(1, 4)):
        at, size = int(rng.integers(len(data))), int(rng.integers(1, 64))
        match rng.integers(5):
            case 0:
                data[at] ^= 1 << int(rng.integers(8))
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = data[at : at + size]
            case 3:
                data[at:at] = rng.bytes(size)
            case _:
                del data[at:]
        if not data:
            break
    return bytes(data)
