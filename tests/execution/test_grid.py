"""Which blocks there are: every row once, in order, and shares of them."""

import numpy as np
import pytest

from widelimit.execution.grid import Grid, even, ranges


def _covered(grid):
    """How often each row, or each entry of the matrix, is in a block."""
    counts = np.zeros(grid.shape, int)
    for block in grid.blocks:
        counts[block.rows if block.columns is None else (block.rows, block.columns)] += 1
    return counts


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 24])
def test_ranges_have_every_row_once(count):
    parts = ranges(count, 8)
    assert [i for part in parts for i in range(count)[part]] == list(range(count))
    assert all(part.stop - part.start == 8 for part in parts[:-1])


@pytest.mark.parametrize(("count", "most", "size"), [(1, 8, 1), (8, 8, 8), (9, 8, 5), (17, 8, 6), (5, 100, 5)])
def test_even_ranges(count, most, size):
    assert even(count, most) == size
    assert len(ranges(count, size)) == len(ranges(count, most))


def test_blocks_of_rows_and_tiles():
    grids = Grid.of_rows(23, 8), Grid.of_tiles((23, 9), (8, 4))
    for grid in grids:
        np.testing.assert_array_equal(_covered(grid), 1)
        assert [block.index for block in grid.blocks] == list(range(len(grid)))
    assert grids[1].blocks[-1].shape == (7, 1)
    corners = [(block.rows.start, block.columns.start) for block in grids[1].blocks]
    assert corners == sorted(corners)


def test_a_symmetric_grid_and_its_mirror_image_are_the_matrix():
    grid = Grid.of_tiles((23, 23), (8, 8), symmetric=True)
    diagonal = [block for block in grid.blocks if block.on_diagonal]
    covered = _covered(grid)
    for block in diagonal:
        covered[block.rows, block.columns] = np.triu(covered[block.rows, block.columns])
    np.testing.assert_array_equal(covered, np.triu(np.ones((23, 23))))
    assert (len(grid), len(diagonal)) == (6, 3)
    with pytest.raises(ValueError, match="squares"):
        Grid.of_tiles((23, 22), (8, 8), symmetric=True)


@pytest.mark.parametrize("n", [1, 2, 4, 6, 11])
def test_parts_are_the_grid(n):
    grid = Grid.of_tiles((23, 23), (8, 8), symmetric=True)
    parts = [grid.part(i, n) for i in range(n)]
    assert sum((part.blocks for part in parts), ()) == grid.blocks
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    with pytest.raises(ValueError, match=f"not part {n}"):
        grid.part(n, n)


def test_what_is_done_is_left_out():
    grid = Grid.of_rows(23, 8)
    assert [block.index for block in grid.without({1}).blocks] == [0, 2]
    assert grid.without({1}).shape == grid.shape


def test_of_nothing_one_empty_block():
    assert [block.shape for block in Grid.of_rows(0, 8).blocks] == [(0,)]
    assert [block.shape for block in Grid.of_tiles((5, 0), (3, 3)).blocks] == [(3, 0), (2, 0)]
