"""Large matrices: tiles of any number of inputs give what the whole gives, within a budget and into a file."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import widelimit as wl
from widelimit import exact, tiles

NET = wl.serial(wl.Dense(1.3, 0.2), "gelu", wl.Dense(1.1))
X = np.random.default_rng(0).normal(size=(23, 5))
SQUARE = np.ones((23, 23))


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "_SIDE", 8)
    monkeypatch.setattr(tiles, "_IMAGES", 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_are_the_whole(small_tiles, dtype):
    x = X.astype(dtype)
    found = NET.kernel(x)
    with jax.enable_x64(dtype == np.float64):
        expected = [np.asarray(k) for k in exact.kernel(NET, x)]
    for get, whole in zip(("nngp", "ntk"), expected, strict=True):
        tiled, tolerance = getattr(found, get), 8 * np.finfo(dtype).eps * np.max(whole)
        assert tiled.dtype == dtype
        np.testing.assert_array_equal(tiled, tiled.T)
        np.testing.assert_allclose(tiled, whole, rtol=0, atol=tolerance)
        np.testing.assert_allclose(NET.kernel(x, x[:9], get=get), tiled[:, :9], rtol=0, atol=tolerance)
        np.testing.assert_allclose(NET.kernel(x, get=get, diagonal=True), np.diag(tiled), rtol=0, atol=tolerance)


def test_tiles_of_images(small_tiles):
    images = np.random.default_rng(0).normal(size=(5, 4, 4, 2))
    net = wl.serial(wl.Conv((3, 3)), "relu", wl.GlobalAvgPool(), wl.Dense())
    found = net.kernel(images, get="ntk")
    np.testing.assert_array_equal(found, found.T)
    with jax.enable_x64(True):
        np.testing.assert_allclose(found, exact.kernel(net, images).ntk, rtol=1e-13)
    assert net.kernel(images[:0], get="ntk", memory="1GiB").shape == (0, 0)


def test_compiled_once_for_all_tiles_and_scales(small_tiles):
    tiles._program.cache_clear()
    for scale in (1.0, 1.5):
        net = wl.serial(wl.Dense(scale, 0.2), "erf", wl.Dense(1.1))
        net.kernel(X)
        net.kernel(X, X[:22])
    assert tiles._program.cache_info().misses == 1


def test_into_a_file_within_a_budget(tmp_path, small_tiles, capsys):
    out = np.lib.format.open_memmap(tmp_path / "K.npy", mode="w+", dtype=np.float64, shape=(23, 23))
    found = NET.kernel(X, get="ntk", memory="1MiB", progress=True, out=out)
    assert found is out
    out.flush()
    np.testing.assert_allclose(np.load(tmp_path / "K.npy"), NET.kernel(X, get="ntk"), rtol=1e-14)
    assert "kernel tiles" in capsys.readouterr().out
    both = np.empty((2, 23, 23))
    NET.kernel(X, out=(both[0], both[1]))
    np.testing.assert_allclose(both[1], out, rtol=1e-14)


def test_a_smaller_budget_makes_smaller_tiles():
    x = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    large, small = (tiles._compiled(NET, x, x, True, budget, 2)[1] for budget in (None, 2**20))
    assert small < large == (320, 320)  # a size that other numbers of rows share
    program, sides = tiles._compiled(NET, x, x, True, 2**20, 2)
    assert 2 * tiles._bytes_needed(program, sum(sides), x) <= 2**20


def test_a_killed_computation_goes_on(tmp_path, small_tiles, monkeypatch):
    """A tile that fails, in a thread of its own, ends the work; what was done before it is not done again."""
    out, expected = tmp_path / "K.npy", NET.kernel(X, get="ntk")
    whole_rows, computed = tiles.rows_from, []

    def counted(x, start, count):
        computed.append(start)
        if len(computed) > 6:
            raise MemoryError("killed")
        return whole_rows(x, start, count)

    monkeypatch.setattr(tiles, "rows_from", counted)
    with pytest.raises(MemoryError, match="killed"):
        NET.kernel(X, get="ntk", out=out)
    monkeypatch.undo()
    monkeypatch.setattr(tiles, "_SIDE", 8)
    assert not out.exists()
    with (tmp_path / "K.npy.progress").open("a") as file:
        file.write("16")  # a line cut off
    for another in (lambda: NET.kernel(X, get="nngp", out=out), lambda: NET.kernel(2 * X, get="ntk", out=out)):
        with pytest.raises(ValueError, match="of another computation"):
            another()
    monkeypatch.setattr(tiles.os, "sched_getaffinity", lambda _: set(range(8)))  # more cores, and the same tiles
    computed.clear()
    monkeypatch.setattr(tiles, "rows_from", lambda *args: computed.append(1) or whole_rows(*args))
    found = NET.kernel(X, get="ntk", out=str(out), memory="1GiB")
    assert len(computed) < 2 * 6 + 2  # of 6 tiles and the probe, each of two inputs, some were done
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.load(out), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["K.npy"]


def test_functions_of_one_name_are_told_apart(tmp_path, small_tiles, monkeypatch):
    """A lambda prints as a lambda: some values of the kernel tell whether it is the same."""
    nets = [
        wl.serial(wl.Dense(), wl.FromDual(lambda cov, v1, v2: cov), wl.Dense()),
        wl.serial(wl.Dense(), wl.FromDual(lambda cov, v1, v2: cov**3 / (v1 * v2)), wl.Dense()),
    ]
    finish = tiles.ResumedFiles.finish
    monkeypatch.setattr(tiles.ResumedFiles, "finish", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        nets[0].kernel(X, get="nngp", out=tmp_path / "K.npy")
    monkeypatch.setattr(tiles.ResumedFiles, "finish", finish)
    with pytest.raises(ValueError, match="of another computation"):
        nets[1].kernel(X, get="nngp", out=tmp_path / "K.npy")
    assert np.max(nets[0].kernel(X, get="nngp", out=tmp_path / "K.npy")) > 0
    assert NET.kernel(X[:0], get="ntk", out=tmp_path / "empty.npy").shape == (0, 0)
    assert np.load(tmp_path / "empty.npy").shape == (0, 0)


def test_outputs_follow_the_order_of_get(tmp_path):
    both = np.empty((2, 23, 23))
    NET.kernel(X, get=("ntk", "nngp"), out=(both[0], both[1]))
    np.testing.assert_array_equal(both[0], NET.kernel(X, get="ntk", memory="1GiB"))
    found = NET.kernel(X, X[:7], get=("ntk", "nngp"), out=(tmp_path / "ntk.npy", tmp_path / "nngp.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "ntk.npy"), found.ntk)
    assert np.abs(found.ntk - both[0][:, :7]).max() < 1e-12


@pytest.mark.parametrize("n", [1, 2, 9])
def test_lopsided_and_single_tiles(small_tiles, n):
    expected = NET.kernel(X, get="ntk")[:, :n]
    np.testing.assert_allclose(NET.kernel(X, X[:n], get="ntk", memory="1GiB"), expected, rtol=1e-13)
    np.testing.assert_allclose(NET.kernel(X[:n], X, get="ntk", memory="1GiB"), expected.T, rtol=1e-13)
    np.testing.assert_allclose(NET.kernel(X[:n], get="ntk", memory="1GiB"), expected[:n], rtol=1e-13)


MEASURED = """
import resource, sys, numpy as np, widelimit as wl
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
net = wl.nets.fully_connected(3, "gelu", 1.4, 0.1)
x = np.random.default_rng(0).normal(size=(6000, 8)).astype(np.float32)
net.kernel(x[:64], get="ntk", memory="256MiB")  # what a program takes at all
before = peak()
net.kernel(x, get="ntk", memory=sys.argv[1])
print(peak() - before)
"""


def test_the_budget_is_kept():
    """The peak of a fresh process, less the result, is within the budget."""
    budget = 2**23
    found = subprocess.run([sys.executable, "-c", MEASURED, str(budget)], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 4 * 6000**2 + budget + 16 * 2**20  # what compiling takes


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2**31), ("500 MB", 5e8), ("1.5kib", 1536), (1000, 1000), ("64", 64), ("3g", 3 * 2**30)]
)
def test_budgets(text, size):
    assert tiles.parse_bytes(text) == size


BAD = {
    "too little memory": (lambda: NET.kernel(X, memory=100), "memory=100 bytes are too few for one tile"),
    "memory": (lambda: NET.kernel(X, memory="much"), "such as '2GiB', not 'much'"),
    "no memory": (lambda: NET.kernel(X, memory=-1), "not -1"),
    "shape of out": (lambda: NET.kernel(X, get="ntk", out=np.empty((3, 3))), r"shape \(23, 23\), not .*\(3, 3\)"),
    "dtype of out": (lambda: NET.kernel(X, get="ntk", out=np.empty((23, 23), np.float32)), "of float64.* not float32"),
    "one out for two": (lambda: NET.kernel(X, out=np.empty((23, 23))), "out takes an array for each of nngp, ntk"),
    "out that is none": (
        lambda: NET.kernel(X, get="ntk", out="K.txt"),
        "path of an .npy file in a folder that exists, not 'K.txt'",
    ),
    "out of a number": (lambda: NET.kernel(X, get="ntk", out=3), "out must be a path, or a NumPy array"),
    "one path for two": (lambda: NET.kernel(X, out="K.npy"), "out takes a path for each of nngp, ntk"),
    "one array twice": (lambda: NET.kernel(X, out=(SQUARE, SQUARE)), "shares memory"),
    "an input": (lambda: NET.kernel(SQUARE, get="ntk", out=SQUARE), "shares memory"),
    "one file twice": (lambda: NET.kernel(X, out=("K.npy", "./K.npy")), "a path for each of nngp, ntk"),
    "traced": (lambda: jax.jit(lambda x: NET.kernel(x, memory="1GiB"))(X), "JAX is tracing"),
    "diagonal": (lambda: NET.kernel(X, diagonal=True, memory="1GiB"), "for whole matrices"),
    "pixels": (
        lambda: wl.serial(wl.Conv((3, 3)), "relu").kernel(np.ones((2, 4, 4, 1)), memory="1GiB"),
        "outputs without pixels",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_error(case):
    attempt, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        attempt()


def test_a_read_only_file_is_refused(tmp_path):
    np.save(tmp_path / "K.npy", np.empty((23, 23)))
    with pytest.raises(ValueError, match="read-only"):
        NET.kernel(X, get="ntk", out=np.load(tmp_path / "K.npy", mmap_mode="r"))
