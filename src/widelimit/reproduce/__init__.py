"""Experiments of the paper as commands: `widelimit reproduce NAME`, or `python -m widelimit.reproduce NAME`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from jax.errors import JaxRuntimeError

if TYPE_CHECKING:
    from .study import Study

INTERRUPTED = 130  # as exit code
EXPERIMENTS = {
    "cifar10": "CIFAR-10 by ridge regression on random features of a Myrtle network",
    "dual-kernel": "Figure 1: Hermite expansions and random samples of dual kernels",
    "widths": "Figure 2: CIFAR-10 by the number of features",
    "quadrature": "Figure 3: dual kernels by Gauss-Hermite quadrature and by ours",
    "activations": "Figure 4: kernels of many activations on a part of CIFAR-10",
    "abrelu": "Kernel informed activation: finite networks trained with ABReLU and others",
    "speedup": "Speed-up: the exact kernel of Myrtle-5 against its features, timed on blocks and projected",
    "embedding": "Theorems 4 and 5: how many features a kernel needs, and their time for images",
    "tabular": "Tables: the NTK against kernels and trees",
}
_REMEDIES = {"cifar10": "Ask for fewer features, or a smaller --batch."}  # where memory is short


def load_study(name: str) -> "Study":
    """The study of an experiment of `EXPERIMENTS`, each in a module of its own."""
    study: Study = import_module(f".{name.replace('-', '_')}", __name__).STUDY
    return study


def run(name: str, arguments: Sequence[str], prog: str) -> None:
    """Run the command of an experiment with its arguments."""
    from .study import run_study

    try:
        run_study(load_study(name), arguments, prog)
    except JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        remedy = _REMEDIES.get(name, "Take a larger device, or a smaller size.")
        raise MemoryError(f"{str(error).splitlines()[0]} {remedy}") from None


def main(name: str, arguments: Sequence[str], prog: str) -> None:
    """Run the command of an experiment, with errors as one line."""
    try:
        run(name, arguments, prog)
    except KeyboardInterrupt:
        print("Interrupted. Finished runs are in the file of results; the same command goes on.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        sys.exit(f"Error: {error}")
