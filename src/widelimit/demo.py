"""`python -m widelimit.demo`, the old name of `python -m widelimit.reproduce.demo`."""

from ._moved import forward

__getattr__ = forward("widelimit.demo", "widelimit.reproduce.demo")

if __name__ == "__main__":
    from .reproduce.demo import main

    main()
