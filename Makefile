# Everything from a fresh clone: make makes its own .venv, and installs nothing anywhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test check bench clean

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,java]'
	touch $(STAMP)

run: $(STAMP) ## the main job: real data, thousands of standing questions, on the embedded runtime
	$(BIN)/waterspout run conf/quickstart.toml --show 8

test: $(STAMP) ## all tests
	$(BIN)/python -m pytest

check: $(STAMP) ## lint, types, import contracts, all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
