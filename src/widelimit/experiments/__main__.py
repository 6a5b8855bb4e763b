"""`python -m widelimit.experiments NAME`, the old name of `python -m widelimit.reproduce NAME`."""

from runpy import run_module

if __name__ == "__main__":
    run_module("widelimit.reproduce", run_name="__main__", alter_sys=True)
