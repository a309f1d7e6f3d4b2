# Two commands do everything on a clean clone: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Two workers with one thread each: many tests start processes of their own and wait for them; a third gained nothing.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: demo test test-all lint lint-web pack-web bench docs docs-links evidence-check assault screenshots tour clean install lock release

demo: $(STAMP)
	@$(BIN)/conceptlens demo

test: $(STAMP) lint lint-web
	@$(PYTEST) -m "not slow"

test-all: $(STAMP) lint lint-web
	@$(PYTEST)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache > .lint-imports.log || (cat .lint-imports.log; exit 1)
	@$(BIN)/python scripts/package_graph.py --check
	@$(BIN)/python scripts/check_types.py

# The page's scripts: eslint, types, unit tests, and whether the packed page is up to date. Development only: where node or
# its modules are missing it is skipped; `npm ci` installs them.
lint-web:
	@if ! command -v node > /dev/null; then echo "lint-web: skipped, node is not installed"; \
	elif ! test -d node_modules/typescript; then echo "lint-web: skipped, run \`npm ci\` for its tools"; \
	else node_modules/.bin/eslint . && node_modules/.bin/tsc \
	  && node --test tests/web/client/ > .lint-web.log 2>&1 && node scripts/pack_page.js --check \
	  || (cat .lint-web.log 2> /dev/null; exit 1); fi

# The page as one script for shared files, which is committed. Needs `npm ci`.
pack-web:
	@node scripts/pack_page.js

bench: $(STAMP)
	@for b in bench/*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

# Mutated inputs, kills, full disks, then a server under attack: a seeded sample of some 25 minutes; ARGS=--full for all.
assault: $(STAMP)
	@OMP_NUM_THREADS=1 $(BIN)/python -m assault $(ARGS)
	@$(BIN)/python assault/server.py $(filter --full,$(ARGS))

# Printed numbers of evidence against their raw rows: some minutes.
evidence-check: $(STAMP)
	@$(BIN)/python scripts/evidence_check.py

# The site of the documentation, in build/docs; what leads nowhere on it is an error. `docs-links` asks other sites, too.
docs docs-links: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@$(BIN)/python -m sphinx -q -W --keep-going -b $(if $(filter docs-links,$@),linkcheck,html) docs build/$@

# What the pictures and the tour show: each folder is made once, by the command that a person would use.
CL := $(BIN)/conceptlens
GALLERY := runs/gallery
TRUST := $(foreach run,runs/demo runs/demo-evidence,$(run)/trust/trust.json $(run)/audit/audit.html)
SHOWN := $(TRUST) $(GALLERY)/network/report.html $(GALLERY)/codebook/codebook/grids.json $(GALLERY)/study/study.html $(GALLERY)/compare/table.tex

runs/demo/report.html: | $(STAMP)
	@$(CL) demo
runs/%/trust/trust.json: | runs/demo/report.html
	@$(CL) trust runs/$*
runs/%/audit/audit.html: | runs/demo/report.html
	@$(CL) audit runs/$*
$(GALLERY)/network/report.html: | $(STAMP)
	@$(CL) decompose examples/small_cnn.py:build --data blood-cells --n 120 --per-image 3 --layers stage1 --layers stage2 --layers stage3 --validate-on 0 --examples 4 --noise 40 --out $(@D)
$(GALLERY)/codebook/codebook/grids.json: | $(STAMP)
	@$(CL) codebook extract builtin/cells --samples-per-concept 40 --epochs 12 --batch-size 16 --filters 64 --hidden 256 --overwrite --out $(GALLERY)/codebook
	@$(CL) codebook tokens $(GALLERY)/codebook --tokens-per-concept 20 --samples-per-concept 40
$(GALLERY)/study/study.html: | runs/demo/report.html
	@$(CL) study make runs/demo --n 40 --out $(@D)
$(GALLERY)/compare/table.tex: | $(STAMP)
	@$(CL) compare examples/compare.yaml --out $(@D)

# Pictures of every view of the page for docs/gallery.md, in the system's Chromium: some twenty-five minutes the first time.
screenshots: $(STAMP) $(SHOWN)
	@$(BIN)/python scripts/screenshots.py runs/demo runs/demo-evidence $(addprefix $(GALLERY)/,network codebook study compare)

# The demo with all that was measured of it, as one file to open: docs/examples/demo-tour.html.
tour: $(STAMP) $(TRUST)
	@$(BIN)/python scripts/tour.py

install: $(STAMP)

# Versions and hashes for development, servers and releases: requirements/*.txt. Needs uv: pip install -e '.[release]'.
lock:
	@$(PYTHON) scripts/lock.py

# What is published, with a bill of materials of what a server installs. The tools: requirements/release.txt.
release:
	python scripts/screenshots.py --check
	rm -rf dist
	python -m build
	python scripts/sbom.py dist/conceptlens.cdx.json

# Reinstalls only when the dependencies change: a second run starts in seconds. LOCKED=1: exactly the locked versions.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(f"conceptlens needs Python 3.11 or newer, found {sys.version.split()[0]}: run make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing conceptlens into $(VENV) (a few minutes the first time)"
	@$(if $(LOCKED),$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(LOCKED),--no-deps --no-build-isolation -e .,-e ".[dev]")
	@touch $(STAMP)

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache
