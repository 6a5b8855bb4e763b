"""`python -m widelimit.experiments.cifar10`, the old name of `python -m widelimit.reproduce cifar10`."""

import sys

from .._moved import forward
from ..reproduce import main

__getattr__ = forward("widelimit.experiments.cifar10", "widelimit.reproduce.cifar10")

if __name__ == "__main__":
    main("cifar10", sys.argv[1:], "python -m widelimit.reproduce cifar10")
