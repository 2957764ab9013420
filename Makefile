# Sets up .venv once, then runs hotlap's demo, its tests and its benchmarks in it.
#
#   make demo     tune examples/digits.py: what a new user sees
#   make test     style, types, spelling, documentation, tests: what CI runs
#   make docs     the documentation as a site in build/site; a warning is an error
#   make paste    figures and the pages about rules and levers into README and docs
#   make slow     the tests that are whole studies, minutes each
#   make bench    measure again what the README claims (on this machine)
#   make gpu      tests and benchmarks of a machine with a GPU
#   make clean    remove .venv and what the tools left
#
# PYTHON=python3.12 takes another interpreter, TORCH=torch==2.6.0 another torch.

PYTHON ?= python3

# Installed before hotlap, because pip decides on torch only once: without a pin it takes the newest release, and on
# Linux that may bring gigabytes of CUDA packages which a test on a CPU never touches. (TORCH="torch==2.13.0+cpu"
# asks for the CPU build by name, where the configured index has it.)
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin

# A stamp says what is installed; another PYTHON, TORCH or pyproject.toml makes it stale, and nothing else does.
CHOICE := $(shell printf '%s %s' '$(PYTHON)' '$(TORCH)' | cksum | tr ' ' '-')
STAMP_TORCH := $(VENV)/.torch-$(CHOICE)
STAMP_DEMO := $(VENV)/.demo-$(CHOICE)
STAMP_TEST := $(VENV)/.test-$(CHOICE)
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test lint types spelling docs paste unit slow bench gpu clean

demo: $(STAMP_DEMO)
	$(BIN)/hotlap tune examples/digits.py

test: lint types spelling docs unit

lint: $(STAMP_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP_TEST)
	$(BIN)/mypy

spelling: $(STAMP_TEST)
	$(BIN)/codespell

# The variables silence notices about the future of MkDocs, which the theme and a plugin print at each build.
docs: $(STAMP_TEST)
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build

paste: $(STAMP_TEST)
	$(BIN)/python benchmarks/paste.py

# First what may run side by side; then whole programs, two at a time, for most of each is waiting; then those in which
# times are compared.
TIMED := $(patsubst %,tests/e2e/test_%.py,measure works_on frameworks causes watches gains)
unit: $(STAMP_TEST)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 8 --dist loadfile tests --ignore tests/e2e --ignore tests/docs
	$(BIN)/pytest -n 2 --dist loadfile tests/e2e tests/docs $(TIMED:%=--ignore %)
	$(BIN)/pytest $(TIMED)

slow: $(STAMP_TEST)
	$(BIN)/pytest -m slow

bench: $(STAMP_DEMO)
	PYTHON=$(BIN)/python benchmarks/all.sh

gpu:
	benchmarks/gpu.sh

$(STAMP_TORCH):
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'  # the first that knows --group
	$(PIP) install $(TORCH)
	touch $@

# Editable: changes of Python files in the clone count at once; the native core is built here, once. Without a compiler
# the install succeeds all the same, and hotlap.small says that it uses torch.
$(STAMP_DEMO): $(STAMP_TORCH) pyproject.toml
	$(PIP) install --quiet --editable '.[examples]'
	touch $@

$(STAMP_TEST): $(STAMP_DEMO) pyproject.toml
	$(PIP) install --quiet --group dev --group docs --group frameworks
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
