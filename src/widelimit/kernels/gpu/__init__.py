"""Programs for GPUs that stand for runs of layers whose kernels XLA computes slowly there.

Each module has a program, the same by XLA, which is its definition, and a layer that takes the place of those it knows and
goes back to them wherever the program does not fit. To add one, list its layer here.
"""

from .rewriting import rewrite, runs_on_gpu

__all__ = ["rewrite", "runs_on_gpu"]
