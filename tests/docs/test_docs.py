"""The examples of README and docs run as printed, and the README knows every activation."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from widelimit.regression.device import at_edge
from widelimit.reproduce import EXPERIMENTS, abrelu, activations, cifar10, embedding, speedup, tabular, widths
from widelimit.reproduce.results import read_runs
from widelimit.reproduce.study import figure_of

ROOT = Path(__file__).parents[2]
PAGES = [
    path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if "```python" in path.read_text()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_examples(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), namespace)
    assert blocks
    if page.name == "README.md":
        assert namespace["K"].shape == (100, 100)
        assert namespace["outputs"].shape == (100, 1024)


def test_every_experiment_is_told_of_and_no_other():
    texts = "\n".join(path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    assert set(re.findall(r"widelimit reproduce ([a-z][a-z0-9-]+)", texts)) == set(EXPERIMENTS)


def test_figures_of_cifar10_are_those_of_the_runs():
    results = ROOT / "benchmarks" / "results"
    page, paper = ((ROOT / "docs" / name).read_text() for name in ("cifar10.md", "paper.md"))
    rows = cifar10.table(read_runs(results / "cifar10-h200.json"))
    assert len(rows) == 6
    for row in rows:
        (found,) = re.findall(rf"\| {row['features']:,} \|.*\| {row['accuracy, %']:.2f} ± {row['spread']} \|", page)
        assert f"| {row['seconds']:.1f} |" in found
    best = max(rows, key=lambda row: row["accuracy, %"])
    headline = f"{best['accuracy, %']:.2f} ± {best['spread']} %"
    for path in ("README.md", "CHANGELOG.md", "docs/index.md", "docs/paper.md"):
        assert headline.removesuffix(" %") in (ROOT / path).read_text(), path
    for run in read_runs(results / "widths-h200.json"):
        name = widths.label(run["config"]["activation"], run["config"]["scale"])
        name += ", NTK" * (run["config"]["kernel"] == "ntk")
        accuracies = zip(run["accuracies"], run["penalties"], strict=True)
        cells = [_of_penalties(accuracy, penalty, run) for accuracy, penalty in accuracies]
        assert f"| {name} | {' | '.join(cells)} |" in paper
    of_kernels = cifar10.table(read_runs(results / "cifar10-kernels-h200.json"))
    of_last_stage = cifar10.table(read_runs(results / "cifar10-exact-last-h200.json"))
    assert len(of_kernels) == 6
    assert len(of_last_stage) == 1
    for row in [*of_kernels, *of_last_stage]:
        assert f"{row['accuracy, %']:.2f} ± {row['spread']}" in page
    orders: dict[str, list[float]] = {}
    for run in read_runs(results / "orders-h200.json"):
        orders.setdefault(run["config"]["weights"], []).append(100 * run["accuracy"])
    for accuracies in orders.values():
        assert f"| {np.mean(accuracies):.2f} ± {np.std(accuracies, ddof=1):.2f} |" in page
    for device in ("cpu", "h200"):
        for row in abrelu.table(read_runs(results / f"abrelu-{device}.json")):
            chosen = [row["activation"], *(row[f"{kind}, %"] for kind in abrelu.KINDS)]
            assert f"| {' | '.join(chosen)} |" in paper


def _of_penalties(accuracy, penalty, run):
    """An accuracy in per cent, marked where the least or largest penalty was chosen."""
    return f"{'≥ ' * at_edge(penalty, run['config']['penalties'])}{100 * accuracy:.2f}"


def test_figures_of_the_paper_are_those_of_the_runs():
    results, paper = ROOT / "benchmarks" / "results", (ROOT / "docs" / "paper.md").read_text()
    _, *times = speedup.table(read_runs(results / "speedup-cpu.json"))
    for row in times:
        name = f"{row['of'].removesuffix(', cpu')}, {row['kernel'].upper()}"
        ratio = float(f"{row['ratio']:.3g}")
        assert f"| {name} | {row['µs a pair'] / 1e3:.2g} | {row['ms an image']:.3g} |" in paper
        assert f"| {row['sketched 60,000, h']:.2g} | {ratio:,.0f} |" in paper
    for row in speedup.table(read_runs(results / "speedup-h200.json"))[1:]:
        name = f"{row['of'].removesuffix(', NVIDIA H200')}, {row['kernel'].upper()}"
        pair, image, exact = (f"{row[n]:.3g}" for n in ("µs a pair", "ms an image", "exact 60,000, h"))
        ratios = [f"{float(f'{row[n]:.3g}'):,.0f}" for n in ("ratio", "its ratio to sketched 60,000")]
        cells = [name, pair, image, exact, f"{3600 * row['sketched 60,000, h']:.1f}", *ratios]
        assert f"| {' | '.join(cells)} |" in paper
    fits = embedding.table(read_runs(results / "embedding-cpu.json"))
    spectral, (pair, image) = fits[:-2], fits[-2:]
    for of_m, of_s in zip(spectral[::2], spectral[1::2], strict=True):
        name = f"{of_m['activation']}, {of_m['network'].partition(',')[0]}"
        fitted = (f"{row['exponent']:.2f} ± {row['95 %, ±']:.2f}" for row in (of_m, of_s))
        cells = [name, of_m["sketch"], f"{of_m['value']:.3f}", *fitted, of_m["C"]]
        assert f"| {' | '.join(cells)} |" in paper
    for row in (pair, image):
        assert f"pixels^({row['exponent']:.2f} ± {row['95 %, ±']:.2f})" in paper
    accuracies = {
        (row["network"], row["activation"]): row["NTK, %"].partition(" ±")[0]
        for row in activations.table(read_runs(results / "activations-cpu.json"))
    }
    told = paper.partition("## Figure 4")[2].partition("## ")[0]
    for place in (
        ("Myrtle-5", "normalised Gaussian"), ("CV8", "normalised Gaussian"), ("CV8", "RBF(1/2)"), ("FC1", "Hermite 3"),
        ("FC1", "ReLU"), ("FC1", "ReLU*"), ("FC1", "erf"), ("CV8", "erf"), ("CV8", "sigmoid-like"), ("Myrtle-5", "erf"),
    ):  # fmt: skip
        assert accuracies[place] in told, place
    found = [row for row in activations.table(read_runs(results / "activations-h200.json")) if row["network"] == "CV8"]
    known = [row for row in found if "±" in row["NTK, %"] and row["activation"] != "Gabor"]
    for row in known:
        assert f"| {row['activation']} | {row['NTK, %'].partition(' ±')[0]} |" in told
    for row in tabular.table(read_runs(results / "tabular-cpu.json")):
        if row["data"] in ("Friedman, 10,000 rows", "Friedman, 100,000 rows") and row["method"] != tabular.LINEAR:
            assert f"{row['score, %'] / 100:.3f}" in paper.partition("## Tables")[2], row


def test_figures_of_the_paper_are_drawn_from_the_files_of_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    plots = import_module("plots")
    shown = re.findall(r"\(images/([\w-]+)\.png\)", (ROOT / "docs" / "paper.md").read_text())
    assert set(shown) <= set(plots.OF_RESULTS)
    for name in plots.OF_RESULTS:
        study, runs = plots.finished(name)
        with Image.open(ROOT / "docs" / "images" / f"{name}.png") as image:
            assert image.text["Description"] == figure_of(study, runs), f"python benchmarks/plots.py docs/images {name}"
