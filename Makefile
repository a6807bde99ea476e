# Every target works on a fresh clone: `.venv` is made from the lock file when it is missing or the lock changed.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := locks/development.lock
KERNELS := $(VENV)/.kernels
CODE := conftest.py $(wildcard privacy_engine privacy_release operators dags benchmarks deploy docs/*.py tests)

# With it set, every process would compile Airflow anew: an import of 1.5 s takes 10 s.
unexport PYTHONDONTWRITEBYTECODE
# Whatever the caller's shell points at must not leak into the tools below.
unexport PYTHONPATH VIRTUAL_ENV
# Left to themselves both write to the home folder, at import already.
export AIRFLOW_HOME := $(CURDIR)/.airflow
export MPLCONFIGDIR := $(CURDIR)/.airflow/matplotlib

.PHONY: help
help:  ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP)  ## Create .venv from the lock file (PYTHON=python3.12 chooses the interpreter)

.PHONY: demo
demo: $(STAMP) $(KERNELS)  ## Run the example release as an Airflow DAG run; print where it is and its figures
	@$(BIN)/python -m deploy.local.demo

.PHONY: ui
ui: $(STAMP) $(KERNELS)  ## Start Airflow with the DAGs loaded; print its address and login (Ctrl-C stops it)
	@exec $(BIN)/python -m deploy.local.ui

.PHONY: test
test: lint pytest  ## Lint, types and tests

.PHONY: pytest
pytest: $(STAMP) $(KERNELS)  ## Tests alone (ARGS="-k name -x" to choose)
	$(BIN)/python -m pytest $(ARGS)

.PHONY: lint
lint: $(STAMP)  ## Format check, lint and types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy

.PHONY: format
format: $(STAMP)  ## Format, and mend what lint can mend by itself
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

.PHONY: bench
bench: $(STAMP) $(KERNELS)  ## Compare methods with the papers' tables and with peers
	@$(BIN)/python -m benchmarks

.PHONY: docs
docs: $(STAMP)  ## Write docs/reference.md anew from signatures and docstrings
	@PYTHONPATH=. $(BIN)/python docs/make_reference.py

# One resolution for all supported versions; addresses are left out so that any index or mirror serves.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
# What the image has beside the package itself.
IMAGE_EXTRAS = --extra postgres --extra celery --extra fab --extra statsd --extra s3 --extra azure
.PHONY: lock
lock: $(STAMP)  ## Resolve the lock files anew (ARGS=--upgrade for newer versions)
	$(COMPILE) $(ARGS) pyproject.toml --extra dev --extra bench --extra postgres --extra spark -o $(LOCK)
	$(COMPILE) pyproject.toml -c $(LOCK) -o requirements.lock
	$(COMPILE) pyproject.toml $(IMAGE_EXTRAS) -c $(LOCK) -o requirements-production.lock

.PHONY: wheel
wheel: $(STAMP)  ## Build the package into dist/
	@rm -rf dist
	$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python -o dist .

.PHONY: image
image: wheel  ## Build the image of docker-compose.yaml from the wheel
	docker build --tag privacy-release:0.1.0 .

.PHONY: secrets
secrets:  ## Write fresh random secrets for docker-compose.yaml into .env, never over an older one
	@$(PYTHON) deploy/make_secrets.py .env

.PHONY: clean
clean:  ## Remove .venv, the embedded Airflow, the local lake and all caches
	rm -rf $(VENV) .airflow .lake .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# Compiled here by all cores, so that no release, test or benchmark waits for it.
$(KERNELS): $(STAMP) $(shell find privacy_engine -name '*.py')
	@echo "Compiling the engine"
	@$(BIN)/privacy-release warm
	@touch $@

# The first interpreter that runs and is of a supported version: a shim on PATH may exist and yet refuse to start.
$(STAMP): $(LOCK) pyproject.toml
	@supported='import sys, venv, ensurepip; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'; \
	if ! $(BIN)/python -c "$$supported" 2>/dev/null; then \
		found=; \
		for candidate in $(PYTHON) python3.13 python3.12 python3.11; do \
			if "$$candidate" -c "$$supported" 2>/dev/null; then found=$$candidate; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "Python 3.11, 3.12 or 3.13 with its venv module is needed; '$(PYTHON)' is not one." >&2; \
			echo "Install one (Debian: apt-get install python3 python3-venv) or run 'make PYTHON=/path/to/python3.12'." >&2; \
			exit 1; \
		fi; \
		echo "Creating $(VENV) with $$found"; \
		"$$found" -m venv --clear $(VENV); \
	fi
	@awk '/^uv==/ {on = 1} on {print} on && !/\\$$/ {exit}' $(LOCK) > $(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode $(LOCK)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@
