# Everything from a fresh clone: make makes its own .venv, and installs nothing anywhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core-installed
SERVE := $(VENV)/.serve-installed
STAMP := $(VENV)/.installed
# Tests that start Ray or Spark, which use all cores by themselves, run one after the other; all others side by side, in such an
# order that processes do not compile the same kernels.
define TESTS
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal -m 'not ray and not spark and not nemesis'
	$(BIN)/python -m pytest -m '(ray or spark) and not nemesis'
endef

.PHONY: help run live page install test check nemesis simulate fuzz clean
.DEFAULT_GOAL := help

help: ## what there is to make
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

$(CORE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@echo 'installing into $(VENV), once: numpy, numba, scipy, pyarrow, matplotlib and what they need, 0.7 GB; about a minute'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $(CORE)

$(SERVE): $(CORE)
	@echo 'installing into $(VENV), once: what a service needs, 30 MB; seconds'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[serve]'
	@touch $(SERVE)

$(STAMP): $(CORE)
	@echo 'installing into $(VENV), once: Ray, Spark, a Java runtime and the tools of the tests, another 1.1 GB; a minute or two'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[ray,spark,dev,java]'
	@touch $(STAMP)

run: $(CORE) ## a tour: five kinds of standing questions on real data, on the embedded runtime, and a map of the alerts
	@$(BIN)/waterspout tour
	@echo 'See it live, on a map in your browser: make live'

live: $(SERVE) ## the same data as an endless stream on a live map: put hotspots into it, kill evaluators, watch the load move
	@$(BIN)/waterspout live

page: ## build the page of the live view, which is committed, from its sources; needs Node 20 or newer
	@cd service/view/page && npm ci --no-audit --no-fund --silent && npm run --silent build

install: $(STAMP) ## everything, Ray and Spark too

test: $(STAMP) ## all tests
	$(TESTS)

check: $(STAMP) ## lint, types, import contracts, all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(TESTS)

nemesis: $(STAMP) ## the whole matrix of faults on Ray: processes and nodes killed and paused at the worst moments; minutes
	$(BIN)/python -m pytest -m 'nemesis or ray' tests/integration/test_ray_nemesis.py

SEEDS ?= 100
simulate: $(STAMP) ## every topology under random faults, hotspots and schedules: so many seeds of each, on all cores
	$(BIN)/python tests/simulate.py --seeds $(SEEDS)

SECONDS ?= 60
fuzz: $(STAMP) ## everything that takes bytes from outside, so many seconds each, guided by coverage
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python tests/fuzz.py --seconds $(SECONDS)

clean: ## remove what make has made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
