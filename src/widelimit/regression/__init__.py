"""One regression: minimise sum_i w_i |y_i - ybar - f(x_i)|^2 + penalty |f|^2, with f linear in features or in a kernel.

`objective` states it with its conventions, `path` holds solutions by penalty and their scores. It is solved from a kernel
matrix (`kernel`), from sums of features (`sums`), or on the device that holds the rows (`device`, by the tiles of `tiles`).
Gaussian processes and hyperparameters use one Cholesky factor (`gaussian_process`), gradient flow one decomposition.
"""
