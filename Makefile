# On a machine with Python 3.11 or later and make, nothing else is needed: each target makes its own virtual environment.
PYTHON ?= python3
VENV := .venv-dev
OLDEST := .venv-oldest
JOBS ?= 2

.PHONY: help demo quick test lint check docs slow oldest bench faults mutants clean

help:
	@echo "make demo    read handwritten digits with the exact NTK and its features, up to 50,000 rows; two plots"
	@echo "make quick   ruff, mypy, import contracts, and the tests of what changed since main"
	@echo "make test    ruff, mypy, the tests, the examples of README and docs, the site, and a subset on the oldest JAX"
	@echo "make docs    the documentation as a site of HTML files: open site/index.html"
	@echo "make slow    the tests that take minutes more"
	@echo "make bench   milliseconds a pair for Myrtle-5, and tanh against Gauss-Hermite quadrature"
	@echo "make faults  put known faults into the package, one at a time, and see a test fail for each"
	@echo "make mutants change the package at 200 random places, one at a time, and show the changes that no test notices"
	@echo "make clean   remove the virtual environments, the site and what the demo wrote"

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)/bin/python -m pip install --quiet --editable . --group dev --group docs
	touch $@

$(OLDEST)/ready: pyproject.toml
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(OLDEST)/bin/python -m pip install --quiet --editable . --group dev "jax==0.8.0" "jaxlib==0.8.0"
	touch $@

demo: $(VENV)/ready
	$(VENV)/bin/python -m widelimit.reproduce.demo

test: lint docs check oldest

lint: $(VENV)/ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# Flags, workers and what is left out are in pyproject.toml and tests/conftest.py, so that plain `pytest` is the same.
PYTEST := $(VENV)/bin/python -m pytest -n $(JOBS)

check: $(VENV)/ready
	$(PYTEST)

quick: lint
	tests=$$($(VENV)/bin/python tests/of_changes.py); test -z "$$tests" || $(PYTEST) $$tests

# Warnings are errors, and a public name without documentation is one (docs/hooks.py). The variable leaves out an announcement.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

# What takes minutes more: activations and layers that run the code of others, further sketches' means and rates, the
# spectral guarantee, the paper's Algorithm 2, and every experiment at its size of minutes: `make slow CIFAR10=FOLDER` takes the
# images of that folder, else there are made-up ones.
slow: override export CIFAR10 := $(abspath $(CIFAR10))
slow: $(VENV)/ready
	$(PYTEST) -m slow

oldest: $(OLDEST)/ready
	$(OLDEST)/bin/python -m pytest -n $(JOBS) -m oldest

bench: $(VENV)/ready
	$(VENV)/bin/python benchmarks/exact_cpu.py

faults: $(VENV)/ready
	$(VENV)/bin/python tools/faults.py --jobs $(JOBS)

# For hours, and it goes on where it was stopped: `make mutants MUTANTS="--count 20 --seed 1"`; tools/mutants.py --help says more.
mutants: $(VENV)/ready
	$(VENV)/bin/python tools/mutants.py --jobs $(JOBS) $(MUTANTS)

clean:
	rm -rf $(VENV) $(OLDEST) demo-output site .mutants .pytest_cache
