# What a developer or a curious reader runs. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
DEMO_FLOWS := tests/data/real_training/dp4_slow_rank
DEMO_DATA := prism-data/demo
PYTEST := $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile
DEMO_URL := chdb://./$(DEMO_DATA)

# The first interpreter that is new enough; PYTHON=... overrides.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null && $$p -c '$(NEW_ENOUGH)' && echo $$p && break; done)

.PHONY: help demo test test-slow test-all lint format bench profile soak fuzz attack accuracy culprits same dashboards dashboards-check previews grafana perfetto-check reference lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-16s %s\n", $$1, $$2 }'

demo: $(VENV)/.stamp-run ## install, then find the slow rank in a recorded training run
	@rm -rf $(DEMO_DATA)
	@$(BIN)/prism-ch run $(DEMO_FLOWS)/flows.parquet --topology $(DEMO_FLOWS)/topology.csv --url $(DEMO_URL)
	@printf '\nThe records are of a real run: rank 2 (10.66.0.13) was made to compute 2.5 times slower in steps 30 to 45,\n'
	@printf 'and the recording machine was busy in steps 59 to 69 (%s).\n' tests/data/real_training/README.md
	@printf '\nLook further:\n'
	@printf '  export PRISM_CH_URL=%s\n' $(DEMO_URL)
	@printf '  %s\n' \
	  '$(BIN)/prism-ch incidents' \
	  '$(BIN)/prism-ch sql "SELECT step, duration_s, compute_s, dp_s, slowest_endpoint FROM steps ORDER BY step"' \
	  '$(BIN)/prism-ch tables'

test: $(VENV)/.stamp-dev ## all tests but the slow ones and sweeps
	@$(PYTEST) -m 'not slow and not sweep' $(ARGS)

test-slow: $(VENV)/.stamp-dev ## the slow tests, which `make test` leaves out
	@$(PYTEST) -m 'slow and not sweep' --hypothesis-profile many $(ARGS)

test-all: $(VENV)/.stamp-dev ## before a release: all tests, sweeps too, with more examples; core and analysis must be covered to 95 %
	@$(PYTEST) --cov --hypothesis-profile many $(ARGS)

lint: $(VENV)/.stamp-dev ## ruff, mypy --strict, the import contract, and how the code is written
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python .ci/prose.py

format: $(VENV)/.stamp-dev ## let ruff mend what it can
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: $(VENV)/.stamp-dev ## flows a second, against ClickHouse's own insert and read; how costs grow; the questions of sql/README.md pages and dashboards over a week; what a Dask cluster gives and costs; a trace of 1,024 GPUs; changepoints beside other libraries
	@$(MAKE) --no-print-directory $(VENV)/.stamp-bench || echo 'Without the peers: their rows will say so.' >&2
	@$(BIN)/python -m bench.bocd
	@$(BIN)/python -m bench.throughput
	@$(BIN)/python -m bench.growth
	@$(BIN)/python -m bench.questions
	@$(BIN)/python -m bench.endpoint
	@$(BIN)/python -m bench.cluster
	@$(BIN)/python -m bench.perfetto
	@$(BIN)/python -m bench.pages
	@$(BIN)/python -W ignore::DeprecationWarning -m tools.dashboards.check --bench

profile: $(VENV)/.stamp-dev ## where a window's time goes, by layer, job and statement; ARGS='--minutes 6 --gpus 1024'
	@$(BIN)/python -m bench.profile $(ARGS)

soak: $(VENV)/.stamp-dev ## an hour of 256 GPUs through a service that is killed again and again, then 3 minutes live
	@$(BIN)/python -m bench.soak --live-minutes 3

fuzz: $(VENV)/.stamp-dev ## before a release: damaged files and mutated statements for 10 minutes; ARGS='--minutes 1 --seed 7'
	@$(BIN)/python -m bench.fuzz $(ARGS)

attack: $(VENV)/.stamp-dev ## before a release: statements of hostile and of curious tenants, bombs, connections, kills and damage for 10 minutes; ARGS='--minutes 2'
	@$(BIN)/python -m bench.attack $(ARGS)

accuracy: $(VENV)/.stamp-run ## results against known truth; more than an hour on 2 cores
	@$(MAKE) --no-print-directory $(VENV)/.stamp-bench || echo 'Without the peers: their rows will say so.' >&2
	@$(BIN)/python -m bench.accuracy $(ARGS)

culprits: $(VENV)/.stamp-dev ## on how many dashboards does the culprit of an injected fault stand first? ARGS='--faults 100'
	@$(BIN)/python -m bench.culprits $(ARGS)

same: $(VENV)/.stamp-run ## does the working tree, or HEAD=COMMIT, find the same as BASE=COMMIT? ARGS='--only TEXT' takes a part
	@$(BIN)/python -m bench.same $(BASE) $(if $(HEAD),--head $(HEAD)) $(ARGS)

dashboards: $(VENV)/.stamp-dev ## write dashboards/ from tools/dashboards, sql/dashboards and sql/alerts
	@$(BIN)/python -W ignore::DeprecationWarning -m tools.dashboards.generate dashboards

dashboards-check: $(VENV)/.stamp-dev ## check dashboards/: their form, and every query on a made-up cluster
	@$(BIN)/python -W ignore::DeprecationWarning -m tools.dashboards.check

previews: $(VENV)/.stamp-dev ## draw dashboards/previews/*.png: the dashboards' queries on a made-up cluster
	@$(BIN)/python -W ignore::DeprecationWarning -m tools.dashboards.previews dashboards/previews

grafana: $(VENV)/.stamp-dev ## provision a Grafana in organisations of its own, through the whole cycle: GRAFANA=URL
	@$(BIN)/python -m tools.grafana_cycle $(GRAFANA)

perfetto-check: $(VENV)/.stamp-dev ## ask a trace processor what it makes of a trace: TRACE_PROCESSOR=path
	@TRACE_PROCESSOR='$(TRACE_PROCESSOR)' $(BIN)/python -m tools.perfetto_check

reference: $(VENV)/.stamp-dev ## write docs/reference/ from the code
	@$(BIN)/python -m tools.reference

# Extras stay in the locks: without them pip takes the newest `coverage[toml]` it finds, and refuses it as not pinned.
lock: ## write the lock files anew from pyproject.toml (needs uv)
	uv pip compile --upgrade --universal --no-strip-extras --generate-hashes --custom-compile-command 'make lock' \
	  pyproject.toml --group build -o requirements.lock
	uv pip compile --upgrade --universal --no-strip-extras --generate-hashes --custom-compile-command 'make lock' \
	  pyproject.toml --group build --group grafana --group lint --group test -c requirements.lock -o requirements-dev.lock
	uv pip compile --upgrade --universal --no-strip-extras --generate-hashes --custom-compile-command 'make lock' \
	  pyproject.toml --group bench -c requirements.lock -o requirements-bench.lock

clean: ## remove what the targets above made
	rm -rf $(VENV) $(DEMO_DATA) .same .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage

$(VENV)/bin/python:
	@if [ -z '$(PYTHON)' ]; then echo 'prism-ch needs Python 3.11 or newer; install it, or name it: make PYTHON=/path/to/python3' >&2; exit 1; fi
	@$(PYTHON) -m venv $(VENV) || { echo '$(PYTHON) cannot make a virtual environment; on Debian: apt install python3-venv' >&2; rm -rf $(VENV); exit 1; }

# What pip compiles one file after the other takes as long as the rest of an installation. What doesn't compile is meant
# for another version of Python, or for nobody; the tests of libraries are for nobody here.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/tests/' $(VENV)/lib || true

# Stamps: nothing is installed again until a lock or pyproject.toml changes.
$(VENV)/.stamp-run: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo 'Installing prism-ch into $(VENV) ...'
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@$(COMPILE)
	@touch $@

$(VENV)/.stamp-dev: requirements-dev.lock $(VENV)/.stamp-run
	@echo 'Installing the development tools into $(VENV) ...'
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@$(COMPILE)
	@touch $@

$(VENV)/.stamp-bench: requirements-bench.lock $(VENV)/.stamp-run
	@echo 'Installing the libraries to compare with into $(VENV) ...'
	@$(INSTALL) --require-hashes -r requirements-bench.lock
	@$(COMPILE)
	@touch $@
