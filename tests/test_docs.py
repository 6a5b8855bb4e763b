"""The examples of README and docs run as printed, and the README knows every activation."""

import re
from pathlib import Path

import pytest

from widelimit.activations import CATALOGUE

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


def test_readme_and_docs_list_every_activation():
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/activations.md"))
    for name, activation in CATALOGUE.items():
        kind = type(activation).__name__
        (row,) = re.findall(rf"\| `{name}` \| `{kind}\(.*\| (\w+) \|$", readme, flags=re.MULTILINE)
        (kernel,) = re.findall(rf"\| `{name}` \| \[`{kind}\([^|]*\| ([\w ]+) \|", page)
        assert kernel == {"quadrature": "one integral"}.get(row, row), name
