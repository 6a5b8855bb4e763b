"""What several test files share."""

from types import SimpleNamespace

import widelimit as wl

# The expressions under which the kernels of neural-tangents are stored, in our names: widths are dropped.
stax = SimpleNamespace(
    **{name: getattr(wl, name) for name in wl.__all__ if name not in ("Dense", "Conv")},
    Dense=lambda out_dim, W_std=1.0, b_std=None: wl.Dense(W_std, b_std),
    Conv=lambda out_chan, *args, **kwargs: wl.Conv(*args, **kwargs),
    Sigmoid_like=wl.SigmoidLike,
)
