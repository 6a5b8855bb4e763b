"""CIFAR-10 for the benchmarks: images of the standard folder, normalised one by one and whitened."""

import numpy as np

from widelimit.datasets import cifar10
from widelimit.estimators import ZCA, ImageNormalizer


def whitened(folder: str, count: int, fitted: int = 10_000, regularisation: float = 0.1) -> np.ndarray:
    """The first `count` training images, (count, 32, 32, 3): each with mean 0 and length 1, then ZCA.

    ZCA is fitted to the first `fitted` images in float64; its regularisation is a share of the mean eigenvalue. `folder` may
    also be an .npy file of such images.
    """
    if folder.endswith(".npy"):
        return np.load(folder)[:count]
    x = ImageNormalizer().fit_transform(cifar10(folder).x_train[: max(count, fitted)].astype(np.float64))
    return ZCA(regularisation, center=False).fit(x[:fitted]).transform(x[:count]).astype(np.float32)


def patches(images: np.ndarray, count: int) -> np.ndarray:
    """Unit vectors of 27 numbers: one random 3x3 patch of each of the first `count` images."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, 30, size=(count, 2))
    cut = [image[i : i + 3, j : j + 3].ravel() for image, (i, j) in zip(images[:count], places, strict=True)]
    x = np.asarray(cut, np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)
