"""Experiments of the paper as commands: `python -m widelimit.experiments.cifar10`, or `widelimit reproduce cifar10`."""
