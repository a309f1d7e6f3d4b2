# Two commands do everything on a clean clone: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Two workers with one thread each: many tests start processes of their own and wait for them; a third gained nothing.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo test test-all lint bench screenshots tour clean install

demo: $(STAMP)
	@$(BIN)/conceptlens demo

test: $(STAMP) lint
	@$(PYTEST) -m "not slow"

test-all: $(STAMP) lint
	@$(PYTEST)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(STAMP)
	@for b in bench/*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

# Pictures of the page for the docs, in the system's Chromium.
screenshots: $(STAMP)
	@$(BIN)/python scripts/screenshots.py runs/demo

# The demo as one file to open: docs/examples/demo-tour.html.
tour: $(STAMP)
	@$(BIN)/python scripts/tour.py

install: $(STAMP)

# Reinstalls only when the dependencies change: a second run starts in seconds.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(f"conceptlens needs Python 3.11 or newer, found {sys.version.split()[0]}: run make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing conceptlens into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $(STAMP)

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache
