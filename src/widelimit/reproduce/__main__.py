"""`python -m widelimit.reproduce NAME`, where the command `widelimit reproduce NAME` is missing."""

import sys

from . import EXPERIMENTS, main

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in EXPERIMENTS:
        listed = "\n".join(f"  {name:12} {about}" for name, about in EXPERIMENTS.items())
        sys.exit(f"usage: python -m widelimit.reproduce NAME [OPTIONS]\n\n{listed}")
    main(sys.argv[1], sys.argv[2:], f"python -m widelimit.reproduce {sys.argv[1]}")
