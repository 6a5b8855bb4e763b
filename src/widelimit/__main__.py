"""`python -m widelimit` is the command `widelimit`."""

from .cli import main

if __name__ == "__main__":
    main()
