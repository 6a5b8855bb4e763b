"""neural-tangents' `batch`: a kernel function that works block by block, for any number of inputs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..numerics.checks import check_int
from .blocks import in_blocks
from .kernels import KernelFn


def batch(
    kernel_fn: Callable[..., Any], batch_size: int = 0, device_count: int = -1, store_on_device: bool = True
) -> Callable[..., Any]:
    """The same kernel function, computed in blocks of at most `batch_size` by `batch_size` inputs; 0 means at once.

    Sizes need not be divisible. The kernels of `stax` go through the tiles of `Network.kernel`, on all cores; those of
    outputs with pixels, and any other function of two inputs, as that of an empirical kernel, are called for one block
    after the other. `device_count` and `store_on_device` are accepted and not needed.
    """
    size = check_int("batch_size", batch_size)
    if size == 0:
        return kernel_fn
    if isinstance(kernel_fn, KernelFn):
        return replace(kernel_fn, block=size)

    def batched(x1: Any, x2: Any = None, *args: Any, **kwargs: Any) -> Any:
        return in_blocks(lambda a, b: kernel_fn(a, b, *args, **kwargs), x1, x2, size)

    return batched
