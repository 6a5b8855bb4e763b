"""Tables as CSV: every spelling and every refusal."""

import numpy as np
import pytest

from published_files import (
    text,
)
from widelimit import datasets as data

CSV = "a,b,kind\n1,2.5,cat\n-3,4e2,dog\n"
X = [[1, 2.5], [-3, 400]]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.TSV", "t.tsv.gz"])
@pytest.mark.parametrize(
    "content",
    [
        CSV, CSV.replace(",", ";"), CSV.replace(",", "\t"), CSV.replace("\n", "\r\n"), "\ufeff" + CSV, CSV[:-1],
        "\n\n" + CSV.replace("\n", "\n\n"),
        "\r\n" + CSV.replace("\n", "\r\n\r\n"), CSV.replace(",", " , "), '"a","b","kind"\n"1","2.5","cat"\n"-3","4e2","dog"',
        CSV.replace("\n", "\r"),
    ],
)  # fmt: skip
def test_csv(tmp_path, name, content):
    found = data.read(text(tmp_path, content, name), target="kind")
    np.testing.assert_array_equal(found.x, X)
    assert found.x.dtype == np.float64
    assert found.x.flags.c_contiguous
    assert found.y.tolist() == ["cat", "dog"]
    assert (found.names, found.target) == (("a", "b"), "kind")
    assert data.columns_of(text(tmp_path, content, name)) == {"a": "number", "b": "number", "kind": "text"}


def test_csv_choices(tmp_path):
    path = text(tmp_path, CSV)
    found = data.read(path, drop=["kind"])
    assert (found.x.tolist(), found.y, found.names, found.target) == (X, None, ("a", "b"), None)
    found = data.read(path, target="a", drop="kind")
    assert (found.x.tolist(), found.y.tolist(), found.names) == ([[2.5], [400]], [1, -3], ("b",))
    assert found.y.dtype == np.int64
    assert data.read(path, target=1, drop=-1).y.tolist() == [2.5, 400]
    for target in (-1, "-1", 2):
        assert data.read(path, target=target).target == "kind"
    one = data.read(text(tmp_path, "v\n1\n2\n"))
    assert (one.x.tolist(), one.names) == ([[1], [2]], ("v",))
    with pytest.raises(ValueError, match="key='x'"):
        data.read(path, key="x")


def test_a_text_over_several_lines_does_not_mislead(tmp_path):
    """The first lines tell the delimiter, and the last of them may be a part of a row."""
    rows = (
        [f'{i};"one line";cat' for i in range(18)] + ['18;"two\nlines";dog'] + [f'{i};"one";cat' for i in range(19, 30)]
    )
    found = data.read(text(tmp_path, "\n".join(["a, b, c or d;note;kind", *rows])), target="kind", drop=["note"])
    assert found.names == ("a, b, c or d",)
    np.testing.assert_array_equal(found.x[:, 0], np.arange(30))
    assert found.y.tolist() == ["cat"] * 18 + ["dog"] + ["cat"] * 11


def test_csv_without_header(tmp_path):
    path = text(tmp_path, CSV.partition("\n")[2])
    for target in (-1, 2, "2", "-1"):
        found = data.read(path, target=target)
        assert (found.x.tolist(), found.y.tolist(), found.names, found.target) == (X, ["cat", "dog"], None, 2)
    assert data.read(path, drop=[2, 0]).x.tolist() == [[2.5], [400]]
    assert data.columns_of(path) == {"0": "number", "1": "number", "2": "text"}


def test_csv_quotes(tmp_path):
    content = 'x,"the, kind"\n1,"a, ""b"""\n2,"two\nlines"\n3, plain \n'
    found = data.read(text(tmp_path, content), target="the, kind")
    assert found.y.tolist() == ['a, "b"', "two\nlines", "plain"]
    assert found.x.tolist() == [[1], [2], [3]]
    long = "x,kind\n" + "".join(f'{i},"a\nb\nc"\n' for i in range(40))  # a field over the end of the sample
    assert len(data.read(text(tmp_path, long), target="kind").x) == 40


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["1", "2", "1"], np.array([1, 2, 1])),
        (["1", "2.0", "1"], np.array([1.0, 2.0, 1.0])),
        (["1", "b", "1"], np.array(["1", "b", "1"])),
        (["none", "b", "?"], np.array(["none", "b", "?"])),
        (["99999999999999999999", "1", "1"], np.array([1e20, 1, 1])),
        (["1_0", "2", "3"], np.array(["1_0", "2", "3"])),
        (["é", "日本", "ß"], np.array(["é", "日本", "ß"])),
    ],
)
def test_csv_targets(tmp_path, fields, expected):
    found = data.read(text(tmp_path, "x,t\n" + "".join(f"1,{field}\n" for field in fields)), target="t")
    np.testing.assert_array_equal(found.y, expected, strict=True)


@pytest.mark.parametrize(
    ("content", "options", "match"),
    [
        ("", {}, "is empty"),
        ("\n\n", {}, "is empty"),
        ("a,b\n", {}, "columns 'a', 'b' and no rows"),
        (CSV, {}, "line 2, column 'kind': 'cat' is no number.*target"),
        ("1,2\n3,x\n", {}, r"line 2, column 1 \(counted from 0\): 'x' is no number"),
        ("a,2\n3,4\n", {}, "line 1, column 0.*first line was read as a row"),
        ("a,b\n1,2\n3\n", {}, "line 3 has 1 fields, where the first row has 2"),
        ("a,b\n1,2\n3,4,5\n", {}, "line 3 has 3 fields"),
        ("a,b\n1,2\n3,4,5\n", {"target": "b"}, "line 3 has 3 fields"),
        ("a,b,c\n1,2\n3,4\n", {}, "3 names in its first line, and 2 fields"),
        ("a,b\n1,\n", {}, "line 2, column 'b': a value is missing"),
        ("a,b\n1,NA\n", {}, "column 'b': a value is missing.*'NA'"),
        ("a,b\n1,2\n\n1,nan\n", {}, "line 4, column 'b': a value is missing"),
        ("a,b\n1,-inf\n", {}, "column 'b': '-inf' is not a finite number"),
        ("a,b\n1,1e999\n", {}, "'1e999' is not a finite number"),
        ("a;b\n1,5;2,5\n", {}, "'1,5' is no number"),
        ("a,b\n1,1_000\n", {}, "'1_000' is no number"),
        ("a,b,a\n1,2,3\n", {}, "two columns named 'a'"),
        (CSV, {"target": "class"}, "no column 'class'.*'a', 'b', 'kind'"),
        (CSV, {"target": 3}, "no column 3"),
        (CSV, {"target": "1"}, "no column '1'"),
        (CSV, {"drop": ["q"]}, "no column 'q'"),
        (CSV, {"target": "a", "drop": ["a"]}, "target and dropped"),
        ("a\n1\n", {"target": "a"}, "none is left"),
        ("x,t\n1,\n2,b\n", {"target": "t"}, "target, column 't', is missing in row 0"),
        ("x,t\n1,1\n2,?\n", {"target": "t"}, "missing in row 1.*'\\?'"),
        ("x,t\n1,1\n2,inf\n", {"target": "t"}, "missing in row 1.*'inf'"),
        (CSV.replace("cat", "chât").encode("latin1"), {"target": "kind"}, "not text in UTF-8.*0xe2"),
        (CSV.encode("utf-16"), {}, "not text in UTF-8.*0xff"),
        ('a,b\n1,"2\n', {}, "row that begins in line 2 has quotes.*Close"),
        ('a,t\n1,u\n2,"v\n3,w\n4,x\n', {"target": "t"}, "row that begins in line 3 has quotes"),
        ('a,t\n1,u\n2,"v\n3,"w"\n4,x\n', {"target": "t"}, "row that begins in line 3 has quotes"),
        ("a,b\n1,\x002\n", {}, "no number|that can be read"),
        ("a,b\n1,2\n" + 'x"' * 100_000 + ",3\n", {}, "is no number|that can be read"),
    ],
)
def test_csv_refusals(tmp_path, content, options, match):
    path = text(tmp_path, content)
    with pytest.raises(ValueError, match=match) as caught:
        data.read(path, **options)
    assert str(path) in str(caught.value)


def test_truncated_gzip(tmp_path):
    path = text(tmp_path, "a,b\n" + "".join(f"{i},{i * i}\n" for i in range(1000)), "t.csv.gz")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"t\.csv\.gz.*cut off"):
        data.read(path)
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"t\.csv\.gz.*[Nn]ot a gzipped"):
        data.read(path)


def test_paths(tmp_path):
    for call in (data.read, data.columns_of):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            call(tmp_path / "none.csv")
        with pytest.raises(ValueError, match=r"no known format.*\.parquet"):
            call(tmp_path / "t.xlsx")
        (tmp_path / "folder.csv").mkdir(exist_ok=True)
        with pytest.raises(FileNotFoundError, match="is a folder"):
            call(tmp_path / "folder.csv")


def test_many_names_are_not_all_shown(tmp_path):
    path = text(tmp_path, ",".join(f"c{i}" for i in range(500)) + "\n" + ",".join("1" * 500))
    with pytest.raises(ValueError, match="'c19' and 480 more"):
        data.read(path, target="q")
