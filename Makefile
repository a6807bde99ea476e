# Every target works on a fresh clone: `.venv` is made from the lock files when it is missing or a lock changed.
# The demonstration and the UI install what they run; tests, benchmarks and tools add the development environment.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
# On a fresh clone, the types are checked while the engine is compiled.
MAKEFLAGS += --jobs=2

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.development
LOCK := locks/development.lock
KERNELS := $(VENV)/.kernels
TEST_KERNELS := $(VENV)/.kernels-tests
DEMO_KERNELS := $(VENV)/.kernels-demo
SPARK_CLASSES := $(VENV)/.spark-classes.jsa
CODE := conftest.py $(wildcard privacy_engine privacy_release operators dags benchmarks deploy docs tests)

# With it set, every process would compile Airflow again: an import of 1.5 s takes 10 s.
unexport PYTHONDONTWRITEBYTECODE
# Whatever the caller's shell points at must not leak into the tools below.
unexport PYTHONPATH VIRTUAL_ENV
# If a proxy signs with its own authority, the system knows that authority, and uv's bundled list does not.
export UV_SYSTEM_CERTS := 1
# A busy index or machine may take longer than the 30 s after which uv gives up.
export UV_HTTP_TIMEOUT := 300
# Left to themselves both write to the home folder, at import already.
export AIRFLOW_HOME := $(CURDIR)/.airflow
export MPLCONFIGDIR := $(CURDIR)/.airflow/matplotlib

.PHONY: help
help:  ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP)  ## Create .venv for development (PYTHON=python3.12 chooses the interpreter)

.PHONY: demo
demo: $(DEMO_KERNELS)  ## Run the example release as an Airflow DAG run; print where it is and its figures
	@$(BIN)/python -m deploy.local.demo

.PHONY: samples
samples: $(RUNTIME)  ## Write the tables that the example releases read into data/samples/
	@$(BIN)/python -m deploy.local.samples

.PHONY: ui
ui: $(RUNTIME)  ## Start Airflow with the DAGs loaded; print its address and login (Ctrl-C stops it)
	@exec $(BIN)/python -m deploy.local.ui

# What starts servers, browsers or Spark, kills and races processes, or takes long.
FULL := slow or ui or production or object_stores or spark
# Each process collects all tests and loads Airflow. Quick tests wait for nothing, so one for each of two cores does;
# long tests mostly wait for servers, where a third uses the cores better. The order is that of conftest.py.
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder --numprocesses

# Quick tests write many small files. If a folder in memory has space for them, no test waits for a disk. Some tests run
# programs that they write, which a container may forbid there.
IN_MEMORY := /dev/shm
LEAST_KB := 2000000
TMPDIR_OF_TESTS = $(shell ! grep -q ' $(IN_MEMORY) .*noexec' /proc/mounts 2>/dev/null && df -Pk $(IN_MEMORY) 2>/dev/null \
	| awk 'NR == 2 && $$4 > $(LEAST_KB) {print "TMPDIR=$(IN_MEMORY)"}')

.PHONY: test
test: lint $(STAMP) $(TEST_KERNELS)  ## Lint, types, and the tests that run in a few minutes (ARGS="-k name" to choose)
	$(TMPDIR_OF_TESTS) $(PYTEST) 2 -m "not ($(FULL))" $(ARGS)

.PHONY: test-all
test-all: lint $(STAMP) $(KERNELS) $(SPARK_CLASSES)  ## All tests: also servers, browsers, Spark, object stores, crashes and races
	$(PYTEST) 3 --hypothesis-profile full $(ARGS)

# Kernels that the change calls are compiled when they are first called: fewer than `warm` would compile.
.PHONY: test-change
test-change: $(STAMP)  ## Quick tests of what differs from HEAD (SINCE=main for a branch): mirrors, importers
	@chosen=$$($(BIN)/python -m tests.changed $(SINCE)); echo "$$chosen"; \
	$(BIN)/python -m pytest -m "not ($(FULL))" $(ARGS) $$chosen

.PHONY: pytest
pytest: $(STAMP) $(KERNELS)  ## Only the tests, in one process (ARGS="-k name -x" to choose)
	$(BIN)/python -m pytest $(ARGS)

.PHONY: lint
lint: $(STAMP)  ## Format check, lint and types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy

.PHONY: format
format: $(STAMP)  ## Format, and fix what lint can fix by itself
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

.PHONY: bench
bench: $(STAMP) $(KERNELS)  ## Compare methods with the papers' tables and with peers
	@$(BIN)/python -m benchmarks

.PHONY: audit
audit: $(STAMP) $(KERNELS)  ## Attack every method with a privacy loss: what it shows of its claim, what faults show
	@$(BIN)/python -m benchmarks --only audit

.PHONY: docs
docs: $(STAMP)  ## Write the operators and the list of methods, the pages of reference and of figures
	@$(BIN)/python docs/make_operators.py
	@$(BIN)/python docs/make_reference.py
	@$(BIN)/python docs/make_papers.py
	@$(BIN)/python docs/make_figures.py
	@$(BIN)/python -m privacy_release.spec.methods > privacy_release/spec/methods.txt

.PHONY: signatures
signatures: $(STAMP) $(KERNELS)  ## Renew the list of what `privacy-release warm` compiles
	@$(BIN)/python -m tests.signatures

.PHONY: site
site: $(STAMP)  ## Build the documentation as a site into build/site; it needs no server
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "file://$(CURDIR)/build/site/index.html"

# One resolution for all supported versions; addresses are left out so that any index or mirror serves.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-package privacy-release
BOTH = pyproject.toml operators/pyproject.toml
# Contents of the image besides the package itself.
IMAGE_EXTRAS = --extra samples --extra text --extra postgres --extra celery --extra fab --extra statsd --extra s3 --extra azure --extra pdf
.PHONY: lock
lock: $(STAMP)  ## Resolve the lock files again (ARGS=--upgrade for newer versions)
	$(COMPILE) $(ARGS) $(BOTH) --extra dev --extra bench --extra samples --extra postgres --extra adbc --extra spark --extra statsd --extra text --extra pdf -o $(LOCK)
	$(COMPILE) $(BOTH) --extra samples -c $(LOCK) -o locks/runtime.lock
	$(COMPILE) $(BOTH) $(IMAGE_EXTRAS) -c $(LOCK) -o locks/production.lock
	for older in locks/airflow-*.in; do $(COMPILE) $(ARGS) $(BOTH) -c $$older -o $${older%.in}.lock; done
	$(COMPILE) --upgrade pyproject.toml locks/lowest.in --extra samples --resolution lowest-direct -o locks/lowest.lock
	printf 'uv\nhatchling\neditables\n' | $(COMPILE) - -c $(LOCK) -o locks/tools.lock

.PHONY: wheel
wheel: $(RUNTIME)  ## Build both packages into dist/
	@rm -rf dist
	$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python -o dist .
	$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python -o dist operators

.PHONY: image
image: wheel  ## Build the image of docker-compose.yaml from the wheels
	docker build --tag privacy-release:0.2.0 .

.PHONY: secrets
secrets:  ## Write fresh random secrets for docker-compose.yaml into secrets/, never over older ones
	@$(PYTHON) deploy/make_secrets.py secrets .env

.PHONY: clean
clean:  ## Remove .venv, the embedded Airflow, the local lake and all caches
	rm -rf $(VENV) .airflow .lake .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# Compiled here by all cores, so that no release, test or benchmark waits for it.
$(KERNELS) $(TEST_KERNELS) $(DEMO_KERNELS): $(RUNTIME) $(shell find privacy_engine -name '*.py') privacy_release/cli/signatures.json
	@echo "Compiling the engine"
	@$(BIN)/privacy-release warm $(patsubst -%,--for %,$(subst $(KERNELS),,$@))
	@touch $@

# The first interpreter that runs and is of a supported version: a shim on PATH may exist and yet refuse to start.
$(RUNTIME): locks/tools.lock locks/runtime.lock pyproject.toml operators/pyproject.toml
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
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/tools.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --compile-bytecode -r locks/runtime.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . -e operators
	@touch $@

# Java loads Spark from this file in half of the time.
$(SPARK_CLASSES): $(STAMP) tests/servers/java.py
	@echo "Archiving the classes of Spark"
	@$(BIN)/python -m tests.servers.java >/dev/null

# The development lock holds all of the others, in the same versions.
$(STAMP): $(RUNTIME) $(LOCK)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --compile-bytecode -r $(LOCK)
	@touch $@
