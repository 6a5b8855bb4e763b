"""The examples of README and docs run as printed, and the README knows every activation."""

import re
from pathlib import Path

import pytest

from widelimit.activations import CATALOGUE
from widelimit.experiments import EXPERIMENTS, abrelu, cifar10
from widelimit.experiments.results import read_runs

ROOT = Path(__file__).parents[1]
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
    for row in cifar10.table(read_runs(results / "cifar10-activations-h200.json")):
        if "abrelu" not in row["setting"]:
            assert f" {row['accuracy, %']:.2f} |" in paper
    for row in abrelu.table(read_runs(results / "abrelu-cpu.json")):
        cells = [row["activation"], *(row[f"{kind}, %"] for kind in abrelu.KINDS)]
        assert f"| {' | '.join(cells)} |" in paper


def test_readme_and_docs_list_every_activation():
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/activations.md"))
    for name, activation in CATALOGUE.items():
        kind = type(activation).__name__
        (row,) = re.findall(rf"\| `{name}` \| `{kind}\(.*\| (\w+) \|$", readme, flags=re.MULTILINE)
        (kernel,) = re.findall(rf"\| `{name}` \| \[`{kind}\([^|]*\| ([\w ]+) \|", page)
        assert kernel == {"quadrature": "one integral"}.get(row, row), name
