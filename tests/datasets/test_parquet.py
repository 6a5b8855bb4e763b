"""Tables as Parquet."""

import numpy as np
import pytest

from published_files import (
    parquet,
)
from widelimit import datasets as data


def test_parquet(tmp_path):
    import pyarrow as pa

    path = parquet(
        tmp_path / "t.parquet", a=[1, 2, 3], b=pa.array([0.5, 1.5, 2.5], pa.float32()), c=[True, False, True],
        d=pa.array([1, 2, 3], pa.decimal128(5, 2)), kind=pa.array(["u", "v", "u"]).dictionary_encode(), t=["x", "y", "z"],
    )  # fmt: skip
    found = data.read(path, target="kind", drop="t")
    np.testing.assert_array_equal(found.x, [[1, 0.5, 1, 1], [2, 1.5, 0, 2], [3, 2.5, 1, 3]], strict=True)
    assert found.y.tolist() == ["u", "v", "u"]
    assert (found.names, found.target) == (("a", "b", "c", "d"), "kind")
    assert data.read(path, target=-1, drop="kind").y.tolist() == ["x", "y", "z"]
    assert data.read(path, target="a", drop=["kind", "t"]).y.dtype == np.int64
    assert data.read(path, target="d", drop=["kind", "t"]).y.tolist() == [1, 2, 3]
    assert list(data.columns_of(path)) == ["a", "b", "c", "d", "kind", "t"]
    assert data.columns_of(path)["b"] == "float (3,)"


def test_parquet_of_pandas(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": pd.Categorical(["u", "v"]), "name": ["p", "q"]}, index=[7, 9])
    frame.to_parquet(tmp_path / "t.parquet")
    found = data.read(tmp_path / "t.parquet", target="kind", drop="name")
    assert (found.x.tolist(), found.y.tolist(), found.names) == ([[1], [2]], ["u", "v"], ("a",))
    assert data.read(tmp_path / "t.parquet", target="name", drop="kind").y.tolist() == ["p", "q"]


def test_parquet_in_several_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("widelimit.datasets.parquet._ROWS", 7)
    values = np.random.default_rng(0).normal(size=(40, 3))
    path = parquet(tmp_path / "t.parquet", **{f"c{i}": values[:, i] for i in range(3)})
    found = data.read(path, target="c1")
    np.testing.assert_array_equal(found.x, values[:, [0, 2]])
    np.testing.assert_array_equal(found.y, values[:, 1])


def test_parquet_refusals(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    def assert_refused(match, target=None, **columns):
        with pytest.raises(ValueError, match=match) as caught:
            data.read(parquet(tmp_path / "t.parquet", **columns), target=target)
        assert str(tmp_path) in str(caught.value)

    assert_refused("column 'b' is of type string", a=[1], b=["x"])
    assert_refused("column 'b' is of type list", a=[1], b=[[1, 2]])
    assert_refused(r"column 'b' has no value in row 1 ", a=[1, 2], b=[1.0, None])
    assert_refused(r"column 'b' has no value in row 1 ", "b", a=[1, 2], b=["x", None])
    assert_refused("column 'b' is not finite: nan at 1", a=[1, 2], b=[1.0, np.nan])
    assert_refused("target 'b' is not finite: inf at 1", "b", a=[1, 2], b=[1.0, np.inf])
    assert_refused("neither numbers nor text", "b", a=[1], b=pa.array([0], pa.timestamp("s")))
    assert_refused("no rows", a=pa.array([], pa.float64()))
    assert_refused("no column 'q'.*'a'", "q", a=[1])
    assert_refused("none is left", "a", a=[1])
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(ValueError, match="two columns named 'a'"):
        data.read(path)
    whole = parquet(path, a=list(range(1000))).read_bytes()
    for raw in (b"", b"PAR1", whole[:-10], whole[: len(whole) // 2], whole[200:], b"a,b\n1,2\n"):
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"t\.parquet: is no Parquet file that can be read"):
            data.read(path)
