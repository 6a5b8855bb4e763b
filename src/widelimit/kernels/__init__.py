"""The exact reading: kernels of networks, of one pair or of millions."""
