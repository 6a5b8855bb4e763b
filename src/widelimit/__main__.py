"""`python -m widelimit` is the command `widelimit`."""

from .cli import main

main()
