# The daily verbs. A fresh clone needs nothing but Python 3.11+ and make: every verb that needs the
# virtual environment depends on its stamp, so the first verb you type also installs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install format lint types unit test check demo bench bench-kafka native simulate fuzz powerloss crashpoints tamper soak planted minio-up minio-down clean

help: ## Show the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

install: $(STAMP) ## Make the virtual environment, with everything the verbs need

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tierlog needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

format: $(STAMP) ## Rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## Check format and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP) ## Check the types
	$(BIN)/mypy

unit: $(STAMP) ## Fast tests: no real component, under two minutes
	$(BIN)/pytest -n 2 -m "not store and not compat and not spark and not slow"

test: $(STAMP) ## Every test: with real clients and stores, installed if missing
	@tests/compat/install.sh
	@tests/stores/install.sh
	@tests/spark/install.sh
	$(BIN)/pytest -n 2

check: lint types unit ## What every commit passes

demo: $(STAMP) ## A node with a real client: killed, gone cold, lost and restored
	@$(BIN)/python -m tests.demo

SEEDS ?= 10000
FIRST ?= 1
# Scenarios by name, module:function. A room that brings one adds it here.
SCENARIOS ?= tierlog.sim.couriers:couriers tests.simulation.hot_log:hot_log tests.simulation.cleaner:cleaner tests.simulation.metastore:metastore tests.simulation.broker:broker tests.simulation.cold:cold tests.simulation.groups:groups tests.simulation.groups:consumer_groups tests.simulation.offsets:offsets tests.simulation.holds:holds
simulate: $(STAMP) ## The simulated world: SEEDS seeds from FIRST on (10,000: hours)
	$(BIN)/python -m tierlog.sim $(SCENARIOS) --seeds $(SEEDS) --first $(FIRST)

bench: $(STAMP) ## Interleaved comparisons; BENCH="--only NAME --write" to choose
	$(BIN)/python -m benchmarks $(BENCH)

bench-kafka: $(STAMP) ## The same loads on Apache Kafka (java and mvn; minutes)
	$(BIN)/python -m benchmarks --only kafka $(BENCH)

TIMES ?= 20
fuzz: $(STAMP) ## Mutated and random input to codecs and a node, TIMES as much
	$(BIN)/python -m tests.fuzz --times $(TIMES)

STATES ?= 50000
powerloss: $(STAMP) ## Recover the log from STATES disk states after power cuts
	$(BIN)/python -m tests.powerloss.search --states $(STATES)

crashpoints: $(STAMP) ## Stop the cold tier at each I/O call; CRASHPOINTS="--count N"
	$(BIN)/python -m tests.crashpoints.search $(CRASHPOINTS)

tamper: $(STAMP) ## Damage a bucket a thousand times; an audit must find each
	$(BIN)/python -m tests.tamper.search $(TAMPER)

MINUTES ?= 60
soak: $(STAMP) ## Load and faults for MINUTES; SOAK="--store minio --seed 7 --json"
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(SOAK)

planted: $(STAMP) ## Search anew for every planted bug, and say which seed found it
	$(BIN)/python -m tests.planted.search

native: ## Build the C load generator, reference server, limits probe
	@if command -v $(CC) >/dev/null; then $(MAKE) -C benchmarks/native; \
	elif [ "$$CI" = true ]; then echo "no C compiler ($(CC)): CI needs one"; exit 1; \
	else echo "no C compiler ($(CC)): benchmarks/native is left out"; fi

minio-up: $(STAMP) ## Start MinIO with a bucket on 127.0.0.1:9000 (built once: minutes)
	@PYTHON=$(BIN)/python infra/minio/up.sh

minio-down: ## End the MinIO of minio-up; its data stays
	@infra/minio/down.sh

clean: ## Remove what the verbs made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info benchmarks/native/build
