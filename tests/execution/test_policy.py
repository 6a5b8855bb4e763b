"""Sizes by device and memory, in one place, which tests can replace."""

import jax
import jax.numpy as jnp
import pytest

from widelimit.execution import policy
from widelimit.numerics.device import backend, on_accelerator, use_backend


def test_another_device():
    before = backend()
    with use_backend("gpu"):
        assert on_accelerator()
        assert backend() == "gpu"
        assert policy.current().workers == 3
    assert backend() == before


def test_sizes_on_a_cpu():
    with use_backend("cpu"):
        assert policy.current().workers == policy.cores() >= 1
        assert (policy.tile_side(False), policy.tile_side(True, 64**2)) == (512, 32)
        assert (policy.batch_rows(2**14), policy.batch_rows(3 * 2**20), policy.batch_rows(1)) == (4096, 16, 4096)
        assert not policy.fits_on_device(0)


# Of convolutional networks ending with a mean over pixels, and with Flatten, on images of n x n pixels.
@pytest.mark.parametrize(("pixels", "side", "flat"), [(8, 247, 512), (16, 64, 512), (32, 64, 494), (2, 512, 512)])
def test_sizes_on_an_accelerator(pixels, side, flat):
    with use_backend("gpu"):
        assert policy.tile_side(True, pixels**4) == side
        assert policy.tile_side(True, pixels**2) == flat
        assert policy.tile_side(False) == 4096
        with policy.use(device_bytes=2**36):
            assert policy.device_memory() == 2**36
            assert policy.current().batch_bytes == 2**31
            assert policy.fits_on_device(2**34)
            assert not policy.fits_on_device(2**34 + 1)
        with policy.use(device_bytes=0):  # a device that does not say
            assert policy.current().batch_bytes == 2**26


def test_what_is_replaced_comes_back():
    before = policy.current()
    with policy.use(tile_rows=8, workers=5), policy.use(tile_rows=4):
        assert policy.current().tile_rows == policy.tile_side(False) == 4
        assert policy.current().workers == 5
    assert policy.current() == before


def test_programs_follow_the_policy_they_are_traced_under():
    run = jax.jit(lambda x: x + policy.current().covariances)
    x = jnp.zeros((), jnp.int32)
    before = int(run(x))
    with policy.use(covariances=7):
        assert int(run(x)) == 7
    assert int(run(x)) == before


def test_tiles_within_a_budget():
    asked = []

    def bytes_for(limit):
        asked.append(limit)
        return limit, limit**2

    assert policy.side_within(10_000, 512, bytes_for) == 100
    assert policy.side_within(10**6, 512, bytes_for) == 512
    assert len(asked) == 3
    with pytest.raises(ValueError, match="memory=3 bytes are too few for one tile, which takes 10"):
        policy.side_within(3, 8, lambda limit: (limit, 10 * limit))


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2**31), ("500 MB", 5e8), ("1.5kib", 1536), (1000, 1000), ("64", 64), ("3g", 3 * 2**30)]
)
def test_bytes(text, size):
    assert policy.parse_bytes(text) == size


@pytest.mark.parametrize("memory", ["much", -1, 0, float("inf"), True, "1.2.3", "3XB", None])
def test_no_bytes(memory):
    with pytest.raises(ValueError, match="such as '2GiB', not"):
        policy.parse_bytes(memory)
