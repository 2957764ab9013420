# Sets up .venv once, then runs hotlap's demo, its tests and its benchmarks in it.
#
#   make demo     tune examples/digits.py: what a new user sees
#   make test     style, types, spelling, documentation, tests: what CI runs
#   make test-fast  unit tests that start no processes, edits and snapshots: a minute, between two edits
#   make docs     the documentation as a site in build/site; a warning is an error
#   make constraints  the newest versions of what the tests need into constraints.txt
#   make paste    figures and the pages about rules and levers into README and docs
#   make slow     the tests that are whole studies, minutes each
#   make clusters  the tests that need a Slurm and a Ray; starts both on this machine (Debian, as root)
#   make bench    measure again what the README claims (on this machine)
#   make wheel    a source archive and a wheel in dist/, tried in an environment of its own
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
STAMP_VENV := $(VENV)/.venv-$(CHOICE)
STAMP_NEEDS := $(VENV)/.needs-$(CHOICE)
STAMP_COMPILED := $(VENV)/.compiled-$(CHOICE)
STAMP_CORE := $(VENV)/.core-$(CHOICE)
STAMP_DEMO := $(VENV)/.demo-$(CHOICE)
STAMP_TOOLS := $(VENV)/.tools-$(CHOICE)
STAMP_TEST := $(VENV)/.test-$(CHOICE)
PIP := $(BIN)/python -m pip --disable-pip-version-check
# pip would compile every file on one core. What a training imports is compiled below, on all; what the tests' frameworks
# bring is compiled when it is imported, which most of it never is.
INSTALL := $(PIP) install --no-compile

# The versions that are tested, so that a new release of others breaks nothing here; CONSTRAINTS= takes the newest.
CONSTRAINTS ?= constraints.txt
export PIP_CONSTRAINT := $(CONSTRAINTS)

# Where a shell sets it, each process of the tests compiles all of their files anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-fast lint types spelling docs constraints paste unit slow clusters bench wheel gpu clean

demo: $(STAMP_DEMO)
	$(BIN)/hotlap tune examples/digits.py

# What takes a second comes first; types and documentation are checked beside the tests, which wait for processes.
test: lint spelling
	+$(MAKE) --jobs 2 types docs unit

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

# Two workers more than there are cores: an end-to-end test waits for half of its time, for trainings that sleep and take
# turns. (With one more, all that the tests compute was 1,000 s of two cores' 1,300.) No test compares times.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
PYTEST := $(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal --durations 30 --durations-min 5
# What fails beside others is asked once more with the machine to itself: a fault fails again, a test that a busy machine
# failed is told by name (and is to be mended: CONTRIBUTING.md). A run that broke off without a failed test stays failed.
unit: $(STAMP_TEST)
	$(PYTEST) || { echo 'What failed, once more and one at a time:'; \
	    $(BIN)/pytest --last-failed --last-failed-no-failures none; }

test-fast: $(STAMP_TEST)
	$(PYTEST) -m 'not slow and not e2e and not processes' tests/unit tests/edits tests/golden

# Not torch, which TORCH names, nor what torch pins itself.
constraints:
	$(MAKE) clean && $(MAKE) CONSTRAINTS= $(STAMP_TEST)
	{ echo '# The versions that the tests were last run with: `make constraints`. Torch is named in the Makefile.'; \
	    $(PIP) freeze --exclude-editable | grep -v -i -E '^(torch|sympy)=='; } > constraints.txt

slow: $(STAMP_TEST)
	$(BIN)/pytest -m slow

clusters: $(STAMP_TEST)
	.ci/clusters $(BIN)/python

bench: $(STAMP_DEMO)
	PYTHON=$(BIN)/python benchmarks/all.sh

# The wheel is made from the archive, so that one is whole as well.
wheel: $(STAMP_DEMO)
	rm -rf dist
	PIP_CONSTRAINT= $(PIP) install --quiet build
	PIP_CONSTRAINT= $(BIN)/python -m build --outdir dist .
	PIP_CONSTRAINT= .ci/smoke dist/hotlap-*.whl $(BIN)/python

gpu:
	benchmarks/gpu.sh

$(STAMP_VENV):
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'  # the first that knows --group
	touch $@

# What hotlap and its examples import. Of hotlap itself, which may be there first, no conflicts are told.
NEEDS := import tomllib; own = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
    print(*own["dependencies"], *own["optional-dependencies"]["examples"], sep="\n")
$(STAMP_NEEDS): $(STAMP_VENV) pyproject.toml
	$(INSTALL) --no-warn-conflicts $(TORCH)
	$(BIN)/python -c '$(NEEDS)' > $(VENV)/needs.txt
	$(INSTALL) --quiet --requirement $(VENV)/needs.txt
	ls -d $(VENV)/lib/*/site-packages/* > $(VENV)/needed.txt
	touch $@

# Beside the tools, which are installed on one processor: what was there before them.
$(STAMP_COMPILED): $(STAMP_NEEDS)
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|testing)/' -i $(VENV)/needed.txt || true  # some are of other Pythons
	touch $@

# Editable: changes of Python files in the clone count at once; the native core is built here, once. Without a compiler
# the install succeeds all the same, and hotlap.small says that it uses torch.
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*.?pp native/*/*.?pp)
$(STAMP_CORE): $(STAMP_VENV) $(SOURCES)
	$(INSTALL) --quiet --no-deps --editable .
	touch $@

# The core is compiled, which takes no network, beside what is installed, which takes one processor.
$(STAMP_DEMO): $(SOURCES)
	+$(MAKE) --jobs 2 $(STAMP_COMPILED) $(STAMP_CORE)
	touch $@

$(STAMP_TOOLS): $(STAMP_NEEDS) $(CONSTRAINTS)
	$(INSTALL) --quiet --group dev --group docs --group frameworks
	touch $@

$(STAMP_TEST): $(SOURCES) $(CONSTRAINTS)
	+$(MAKE) --jobs 2 $(STAMP_TOOLS) $(STAMP_COMPILED) $(STAMP_CORE)
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
