"""The tables of activations in README and docs: `python docs/tables.py` writes them anew from the catalogue.

They stand between two comments. A test says where they are out of date (tests/docs/test_tables.py).
"""

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import widelimit as wl
from widelimit.activations import CATALOGUE

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- activations: written by docs/tables.py -->", "<!-- end of activations -->"


def constructor(activation: wl.Activation) -> str:
    """The class with its parameters: their defaults, but switches only where they are on."""
    shown = []
    for parameter in inspect.signature(type(activation)).parameters.values():
        if parameter.default is parameter.empty:
            shown.append(parameter.name)
        elif not isinstance(parameter.default, bool):
            shown.append(f"{parameter.name}={parameter.default:g}")
        elif activation.argument(parameter.name) != parameter.default:
            shown.append(f"{parameter.name}={not parameter.default}")
    return f"{type(activation).__name__}({', '.join(shown)})"


def function(kind: type[wl.Activation]) -> str:
    """The first sentence of the docstring, which says the function."""
    sentence = re.split(r"\.(?:\s|$)", inspect.getdoc(kind) or "", maxsplit=1)[0]
    return sentence.replace("\n", " ").replace("|", r"\|")


def homogeneity(activation: wl.Activation) -> str:
    """The power p with f(s t) = s^p f(t) for s > 0, by the kernel at three radii; empty if there is none."""
    cosines = np.linspace(-0.9, 1, 20)
    once, twice, four = (wl.dual(activation, radius, radius, cosines) for radius in (1.0, 2.0, 4.0))
    power = round(np.log2(twice[-1] / once[-1]) / 2)
    if not all(np.allclose(large, 4.0**power * small, rtol=1e-9) for small, large in ((once, twice), (twice, four))):
        return ""
    return "degree" if getattr(activation, "degree", None) == power else str(power)


def bends(activation: wl.Activation) -> str:
    """The points where the function or its slope jumps."""
    if function(type(activation)).startswith("No function"):
        return "no function"
    points = ", ".join(f"{bend:g}" for bend in activation.bends())
    return points if activation.continuous else f"{points}, a jump"


def readme() -> str:
    """The table of the README: every activation with its function."""
    rows = [
        f"| `{name}` | `{constructor(act)}` | {function(type(act))} | {act.evaluation} |"
        for name, act in CATALOGUE.items()
    ]
    rows += [
        f"| | `Elementwise(fn, kinks=(0.0,))` | {function(wl.Elementwise)} | computed |",
        f"| | `FromDual(dual)` | {function(wl.FromDual)} | given |",
        f"| | `Affine(activation, A=1, B=1, C=0)` | {function(wl.Affine)} | that of f |",
    ]
    return "\n".join(["| name | class | function | kernel |", "|---|---|---|---|", *rows])


def comparison() -> str:
    """The table of docs/activations.md: every activation with what decides which to take."""
    rows = []
    for name, act in CATALOGUE.items():
        link = f"[`{constructor(act)}`](reference/activations.md#widelimit.{type(act).__name__})"
        cells = [f"`{name}`", link, act.evaluation, homogeneity(act), bends(act)]
        rows.append(f"| {' | '.join(cells)} |".replace("  |", " |"))
    return "\n".join(["| name | class | kernel | homogeneous | kinks |", "|---|---|---|---|---|", *rows])


def reference() -> str:
    """The sections of docs/reference/activations.md: one a family, named by its module's docstring."""
    families: dict[str, list[str]] = {}
    for act in CATALOGUE.values():
        title = (inspect.getdoc(sys.modules[type(act).__module__]) or "").partition(".")[0]
        lines = families.setdefault(title, [])
        if (line := f"::: widelimit.{type(act).__name__}") not in lines:
            lines.append(line)
    return "\n\n".join("\n\n".join([f"## {title}", *lines]) for title, lines in families.items())


TABLES: dict[str, Callable[[], str]] = {
    "README.md": readme,
    "docs/activations.md": comparison,
    "docs/reference/activations.md": reference,
}


def updated(name: str) -> str:
    """The text of a page with its table as it should be."""
    before, _, rest = (ROOT / name).read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise ValueError(f"{name} has no table of activations: the lines {BEGIN!r} and {END!r} are missing. Add them.")
    return f"{before}{BEGIN}\n\n{TABLES[name]()}\n\n{END}{after}"


if __name__ == "__main__":
    for name in TABLES:
        (ROOT / name).write_text(updated(name))
