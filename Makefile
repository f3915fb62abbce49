# Commands for development and CI.
#
# Needs Python 3.11 or newer, pip and make. Each target creates and updates `.venv`: a light one
# (Onward alone) for the demo, a full one (with all tools) for the rest.

PYTHON ?=
ARGS ?=
JOBS ?= 4

PYTHONS := $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python)
VENV := .venv
BIN := $(VENV)/bin
LIGHT := $(VENV)/.light
FULL := $(VENV)/.full
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet

TYPED := src tests $(sort $(dir $(wildcard benchmarks/*.py tools/*.py examples/*.py)))
DRAW := $(wildcard tools/draw_machines.py)
BENCHMARKS := $(filter-out benchmarks/large_store.py benchmarks/pipeline_rows.py,$(sort $(wildcard benchmarks/[a-z]*.py)))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two installs into one environment must not overlap, and the tests already run in parallel.
.NOTPARALLEL:
.PHONY: help demo test check format bench campaign docs clean

help: ## Show this list.
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F '|' '{printf "%-16s%s\n", $$1, $$2}'

demo: $(LIGHT) ## Watch a workflow outlive its worker.
	@$(BIN)/python examples/demo.py $(ARGS)

test: $(FULL) ## Run the tests: ARGS="-k lease" picks some, JOBS=0 uses one process.
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --durations=10 --durations-min=0.5 $(ARGS)

check: $(FULL) ## Check format, lint, types, imports between packages and generated pages.
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-logo --no-cache
ifneq ($(DRAW),)
	$(BIN)/python $(DRAW) --check
endif
	$(BIN)/python tools/write_reference.py --check

format: $(FULL) ## Format the code and apply automatic fixes.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(FULL) ## Run the benchmarks.
ifeq ($(BENCHMARKS),)
	@echo "There is no benchmark yet."
else
	@set -e; for script in $(BENCHMARKS); do echo "$$script"; PYTHONPATH=. $(BIN)/python $$script $(ARGS); done
endif

campaign: $(FULL) ## Kill workers for a few minutes: ARGS="--runs 5000 --kills 2000".
	$(BIN)/python -m tools.crash_campaign $(ARGS)

docs: $(FULL) ## Regenerate the generated pages and test all pages.
ifneq ($(DRAW),)
	$(BIN)/python $(DRAW)
endif
	$(BIN)/python tools/effect_outcomes.py
	$(BIN)/python tools/write_reference.py
	$(BIN)/python -m pytest -q tests/docs $(ARGS)
	@echo "The pages are Markdown; start with docs/index.md."

clean: ## Remove .venv, caches and build output.
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf .coverage .coverage.* dist site
	find src tests $(wildcard benchmarks tools examples) -name __pycache__ -prune -exec rm -rf {} +

# --- the environment --------------------------------------------------------------------------

$(LIGHT): pyproject.toml | $(BIN)/python
	@echo "Installing Onward into $(VENV)"
	@$(PIP) --editable .
	@touch $@

$(FULL): pyproject.toml | $(BIN)/python
	@echo "Installing Onward and its tools into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $(LIGHT) $@

# Some systems package ensurepip separately; then use the pip that is installed.
$(BIN)/python:
	@found=; for python in $(PYTHONS); do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        found=$$python; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "Onward needs Python 3.11 or newer; tried: $(PYTHONS)." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version) ($$found)"; \
	if $$found -c 'import ensurepip' 2>/dev/null; then \
	    $$found -m venv --clear $(VENV); \
	else \
	    $$found -m venv --clear --without-pip $(VENV) \
	    && $$found -m pip --disable-pip-version-check --python $(VENV) install --quiet --quiet pip; \
	fi || { rm -rf $(VENV); exit 1; }
