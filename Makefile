# `make demo`, `make quick` and `make test` are all a newcomer needs; each sets up .venv first.
PYTHON ?= python3
# The Python of `make test-floors`: the lowest one, as for everything else there.
FLOOR_PYTHON ?= python3.11
PIP := .venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# One thread a process: tiny systems are slower on two, and xdist already uses both cores.
PYTEST := OMP_NUM_THREADS=1 .venv/bin/python -m pytest
export JAX_PLATFORMS ?= cpu

.PHONY: help setup demo quick test check unit test-full test-learning test-extras test-floors docs fuzz wheel bench-speed clean

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Holdfast needs Python 3.11 or newer, and '$(PYTHON)' is older: run 'make PYTHON=python3.11 $(MAKECMDGOALS)'." >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.user: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing Holdfast into .venv (once; about a minute) ..."
	$(PIP) --editable .
	@touch $@

.venv/.dev: .venv/.user
	@echo "Installing the development tools into .venv (once) ..."
	$(PIP) --editable '.[dev]'
	@touch $@

setup: .venv/.dev          ## make .venv with Holdfast and its development tools

demo: .venv/.user          ## train C-TRPO for about a minute and show the verdict
	.venv/bin/holdfast demo

check: .venv/.dev          ## lint, format, types, import layers, pinned versions, sentences
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/basedpyright
	.venv/bin/lint-imports --no-cache
	.venv/bin/python .ci/pins.py
	.venv/bin/python .ci/sentences.py

# The mathematics, exact CMDPs, settings, presets, progress files and one small training.
# What its files leave to `make test` is marked `thorough`.
QUICK := -m 'not thorough and not learning and not extras and not full' tests/core $(addprefix tests/tabular/test_, batch.py cmdp.py flow.py lp.py occupancy.py parameters.py random.py) \
  tests/test_settings.py tests/run/test_presets.py tests/runs/test_progress.py \
  tests/train/test_train.py::test_agent_in_ten_lines

quick: .venv/.dev          ## the tests to run after every change, in half a minute
	$(PYTEST) -n 2 --dist loadfile $(QUICK)

# A file's tests share fixtures and compiled functions, so a file stays on one worker.
TESTS ?= tests
unit: .venv/.dev           ## the tests without the static checks, or a part: make unit TESTS=tests/core
	$(PYTEST) -n 2 --dist loadfile $(TESTS)

test: check unit           ## all checks, and every test

# What `make test` repeats a few times runs often here: see benchmarks/README.md.
test-full: .venv/.dev      ## many repetitions of the tests that repeat themselves
	HOLDFAST_TESTS=full $(PYTEST) -n 2 --dist load -m 'full or repeats'

test-learning: .venv/.dev  ## slow learning checks (tens of minutes)
	$(PYTEST) -m learning -n 2

test-extras: .venv/.dev    ## the tests of Ray, W&B and Brax, which are installed for them
	$(PIP) --editable '.[ray,wandb,brax]'
	$(PYTEST) -m extras

.venv-floors/.ready: pyproject.toml
	$(FLOOR_PYTHON) -m venv --clear .venv-floors
	$(FLOOR_PYTHON) .ci/floors.py > .venv-floors/floors.txt
	.venv-floors/bin/python -m pip --disable-pip-version-check install --quiet \
	  --constraint .venv-floors/floors.txt --editable '.[test,ray,wandb]'
	@touch $@

# Old packages beside new ones warn of each other: deprecations are no errors here.
test-floors: .venv-floors/.ready  ## all tests with the lowest versions that pyproject.toml allows
	OMP_NUM_THREADS=1 .venv-floors/bin/python -m pytest -n 2 --dist loadfile -m 'not learning and not full' \
	  -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

# Warnings are errors: a link or anchor that leads nowhere, a page that no menu names. The notebooks are executed.
docs: .venv/.dev           ## build the documentation site, build/site/index.html
	rm -rf build/site
	.venv/bin/python -m sphinx --fail-on-warning --keep-going --quiet --fresh-env -b html docs build/site
	.venv/bin/python .ci/site.py build/site

# How many inputs each reader gets.
RUNS ?= 100000
READERS := config spaces settings record arrays suite cmdp report table exported

.venv-fuzz/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-fuzz
	.venv-fuzz/bin/python -m pip --disable-pip-version-check install --quiet \
	  --constraint constraints.txt --editable '.[test]' 'atheris>=3'
	@touch $@

fuzz: .venv-fuzz/.ready    ## damaged files through every reader, guided by coverage (RUNS each)
	for reader in $(READERS); do mkdir -p .fuzz/$$reader && \
	  .venv-fuzz/bin/python tests/fuzz/run.py $$reader -runs=$(RUNS) \
	    -artifact_prefix=.fuzz/$$reader- .fuzz/$$reader || exit 1; done

wheel:                     ## build wheel and sdist, install and use each in an empty environment
	PYTHON=$(PYTHON) .ci/wheel.sh

bench-speed: .venv/.dev    ## measure the update, the start-up and the memory of a run
	.venv/bin/python benchmarks/update_speed.py

clean:                     ## remove the virtual environment and caches
	rm -rf .venv .venv-floors .venv-fuzz .fuzz .pytest_cache .ruff_cache .hypothesis
