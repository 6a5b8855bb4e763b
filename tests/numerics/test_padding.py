"""Rows filled up to sizes that many inputs share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widelimit.numerics.padding import bucket, pad_rows


def test_buckets_hold_their_rows_and_are_few():
    sizes = [bucket(n) for n in range(1, 1000)]
    assert all(n <= size < 2 * n + 1 for n, size in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert [bucket(n) for n in (1, 2, 3, 5, 33, 64, 65, 200)] == [1, 2, 4, 8, 64, 64, 128, 256]


@pytest.mark.parametrize("library", [np, jnp])
def test_the_last_row_is_repeated(library):
    x = library.arange(6.0).reshape(3, 2)
    found = pad_rows(x, 5)
    assert isinstance(found, np.ndarray if library is np else jax.Array)
    np.testing.assert_array_equal(found, [[0, 1], [2, 3], [4, 5], [4, 5], [4, 5]])
    assert pad_rows(x, 3) is x
    np.testing.assert_array_equal(pad_rows(x[:0], 2), np.zeros((2, 2)))
