# Two commands matter: `make demo` runs the main job, `make test` runs the whole suite.
# Everything happens in .venv, with the pinned versions of requirements/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.installed
TOOLS := $(VENV)/.tools
RIVALS := $(VENV)/.rivals
PAPER := $(VENV)/.paper
WRITING := $(VENV)/.writing
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-fast install check docs format lock clean bench quick reproduce

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(SETUP)  ## Sample the paper's banana by HMC and NNgHMC; table and figures into output/demo
	$(BIN)/nnghmc demo --out output/demo

test: $(TOOLS)  ## Run the whole test suite, warnings as errors
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-fast: $(TOOLS)  ## Run everything that needs no whole run, in about 3 minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not whole_run"

install: $(SETUP)  ## Make .venv with the package and its pinned dependencies

check: $(TOOLS) $(WRITING)  ## Formatting, lint, types, and the documentation without a warning
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BUILD_DOCS)

docs: $(WRITING)  ## Build the documentation: look at build/docs/index.html
	$(BUILD_DOCS)
	@echo "The documentation is in build/docs/index.html"

# -n: a name of this package that leads nowhere is a warning too; -W: a warning is an error.
BUILD_DOCS := $(BIN)/python -m sphinx --quiet -W --keep-going -n -j auto -d build/doctrees docs build/docs

format: $(TOOLS)  ## Put the formatting right
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(RIVALS)  ## Measure everything, NUTS beside it: hours; writes benchmarks/results
	$(BIN)/python benchmarks/sampling_floor.py
	$(BIN)/python benchmarks/learned_step.py
	$(BIN)/python benchmarks/default_model.py
	$(BIN)/python benchmarks/falling_back.py
	$(BIN)/python benchmarks/slow_function.py
	$(BIN)/python benchmarks/flat_memory.py
	$(BIN)/python benchmarks/honesty.py
	$(BIN)/python benchmarks/nuts_alone.py
	$(BIN)/python benchmarks/against_nuts.py

reproduce: $(PAPER)  ## Repeat the paper's experiments in their quick form: half an hour; writes docs/reproduction.md
	$(BIN)/nnghmc reproduce all --quick --out docs

quick: $(RIVALS)  ## A few minutes of the benchmark against NUTS; writes nothing
	$(BIN)/python benchmarks/against_nuts.py --quick

lock:  ## Pin what pyproject.toml asks for and is not pinned yet; UPGRADE=--upgrade renews all pins
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv
	cat requirements/*.txt > $(ALL)
	$(COMPILE) pyproject.toml $(addprefix --group ,$(GROUPS)) -o $(ALL)
	$(COMPILE) -c $(ALL) pyproject.toml -o requirements/run.txt
	for group in $(GROUPS); do $(COMPILE) -c $(ALL) --group $$group -o requirements/$$group.txt || exit 1; done

# All end up in one environment, so the versions of all are found first. One file holds the pins of
# every Python: markers tell which belong to which.
GROUPS := build bench dev docs paper
ALL := build/lock/all.txt
UPGRADE ?=
COMPILE = build/lock/bin/uv pip compile $(UPGRADE) $(LOCK_OPTIONS)
LOCK_OPTIONS := --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url --no-emit-find-links

clean:  ## Remove the environment and everything generated
	rm -rf $(VENV) build dist output .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(SETUP): pyproject.toml requirements/run.txt requirements/build.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nnghmc needs Python 3.11 or later, found " + sys.version.split()[0] + "; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements/run.txt -r requirements/build.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(TOOLS): $(SETUP) requirements/dev.txt
	$(INSTALL) --require-hashes -r requirements/dev.txt
	touch $@

$(RIVALS): $(SETUP) requirements/bench.txt
	$(INSTALL) --require-hashes -r requirements/bench.txt
	touch $@

$(PAPER): $(SETUP) requirements/paper.txt
	$(INSTALL) --require-hashes -r requirements/paper.txt
	touch $@

$(WRITING): $(SETUP) requirements/docs.txt
	$(INSTALL) --require-hashes -r requirements/docs.txt
	touch $@
