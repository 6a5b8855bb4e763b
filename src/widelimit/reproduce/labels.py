"""Sizes of runs in words, the same in all tables and figures."""

from collections.abc import Sequence


def sides(*lengths: int) -> str:
    """The sides of an array, such as "32 x 32 x 3"."""
    return " x ".join(map(str, lengths))


def image_counts(train: int, test: int) -> str:
    """Numbers of images, such as "5,000 training and 2,000 test images"."""
    return f"{train:,} training and {test:,} test images"


def differs(labels: Sequence[str]) -> bool:
    """Whether the runs that are shown together have different sizes, so that each is to be labelled."""
    return len(set(labels)) > 1
