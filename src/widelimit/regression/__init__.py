"""Ridge regression and Gaussian processes, on features or with a kernel."""
