"""CIFAR-10 for the benchmarks: images of the standard folder, normalised one by one and whitened."""

import pickle
from pathlib import Path

import numpy as np


def whitened(folder: str, count: int, fitted: int = 10_000, regularisation: float = 0.1) -> np.ndarray:
    """The first `count` training images, (count, 32, 32, 3): each with mean 0 and length 1, then ZCA.

    ZCA is fitted to the first `fitted` images in float64; its regularisation is a share of the mean eigenvalue. `folder` may
    also be an .npy file of such images.
    """
    if folder.endswith(".npy"):
        return np.load(folder)[:count]
    wanted, parts = max(count, fitted), []
    for path in sorted(Path(folder).glob("data_batch_*")):
        parts.append(pickle.loads(path.read_bytes(), encoding="bytes")[b"data"])
        if sum(map(len, parts)) >= wanted:
            break
    if not parts:
        raise SystemExit(f"There is no data_batch_1 in {folder!r}: give CIFAR-10's folder cifar-10-batches-py.")
    x = np.concatenate(parts)[:wanted].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).reshape(-1, 3072).astype(np.float64)
    x -= x.mean(1, keepdims=True)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    covariance = x[:fitted].T @ x[:fitted] / fitted
    values, vectors = np.linalg.eigh(covariance)
    scale = 1 / np.sqrt(values + regularisation * values.mean())
    return ((x[:count] @ vectors * scale) @ vectors.T).reshape(-1, 32, 32, 3).astype(np.float32)


def patches(images: np.ndarray, count: int) -> np.ndarray:
    """Unit vectors of 27 numbers: one random 3x3 patch of each of the first `count` images."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, 30, size=(count, 2))
    cut = [image[i : i + 3, j : j + 3].ravel() for image, (i, j) in zip(images[:count], places, strict=True)]
    x = np.asarray(cut, np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)
