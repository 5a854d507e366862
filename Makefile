# `make help` lists the targets. Each target runs setup first, which takes no time once it has succeeded.
SHELL := /bin/bash
S ?= leader-az-isolated
LAB ?= embedded
ARGS ?=
SCENARIOS ?= *
FROM ?=
VERSIONS ?=
REPEAT ?= 1
SHARD ?= 1/1
BUDGET ?= 8h
MESSAGES ?= 1000000
DAMAGE ?= clean
MINUTES ?= 25
SHARE ?= $(shell printf '%d' $$(( 0x$$(git rev-parse --short=4 HEAD 2>/dev/null || echo 0) % 10 + 1 )))/10
# They reach nightly.sh through the environment, never as text of a command: a CI job's inputs may hold anything.
export SCENARIOS FROM VERSIONS REPEAT SHARD BUDGET LAB
# Where an image sets it, every command would compile all modules again, which takes longer than many tests.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv/bin
PYTEST := $(VENV)/python -m pytest
# Four workers, one file of tests at a time (all Spark tests by one), so that what they share is made once;
# in the order of tests/conftest.py.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup archives run-scenario run-all nightly nightly-summary test test-share test-all check clean benchmark-checker

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' Makefile

setup: ## install system packages, make .venv, fetch Kafka's jars
	@bash harness/setup.sh

# The first `acked run` makes them after its verdict; tests start many clusters and sessions.
archives: setup
	@[ .venv/.archives -nt .venv/.ready ] || { echo "making class-data archives, with which Kafka and Spark start faster" >&2; \
		$(VENV)/python -m harness.artifacts && $(VENV)/python -m checkers.spark.class_data && touch .venv/.archives; }

run-scenario: setup ## run one scenario and judge it: S=name LAB=embedded|compose ARGS=...
	@$(VENV)/acked run $(S) --lab $(LAB) $(ARGS)

run-all: setup ## run all scenarios, several clusters side by side: LAB=... ARGS="--filter=... --repeat=N"
	@$(VENV)/acked run --all --lab $(LAB) $(ARGS)

nightly: setup ## run the catalogue, and your scenarios, for a CI job: SCENARIOS="a,b*" FROM=dir,dir VERSIONS=... SHARD=1/4 BUDGET=45m REPEAT=N LAB=... ARGS=...
	@bash harness/nightly.sh run $(ARGS)

nightly-summary: setup ## merge the shards below shards/ into nightly/: summary.md, junit.xml, runs.jsonl
	@bash harness/nightly.sh merge

# Four clusters on two processors: a test that fails runs once more, alone. What fails then as well fails.
AGAIN := echo "Some tests failed; those run again, alone" >&2; $(PYTEST) --last-failed --last-failed-no-failures none
test: archives ## run the tests, except the long ones: ARGS=... for pytest
	@$(PYTEST) $(SIDE_BY_SIDE) -m "not long" $(ARGS) || { \
		[ $$? = 1 ] || exit 1; $(AGAIN) -m "not long" $(ARGS); }

test-share: archives ## run a share of the long tests, for MINUTES at most: SHARE=3/10, by default chosen by the commit
	@ACKED_TEST_SHARE=$(SHARE) ACKED_TEST_UNTIL=$$(( $$(date +%s) + $(MINUTES) * 60 )) $(PYTEST) $(SIDE_BY_SIDE) $(ARGS); \
		status=$$?; [ $$status = 0 ] || [ $$status = 5 ] || { \
		$(AGAIN) -m long $(ARGS); }

test-all: archives ## run all tests, the long ones included
	@$(PYTEST) $(SIDE_BY_SIDE) $(ARGS)

check: setup ## check lint, format, types, import rules and known mistakes
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .
	@$(VENV)/mypy
	@$(VENV)/lint-imports --no-cache
	@$(PYTEST) -q tests/unit/nemesis/test_nemesis_known_mistakes.py

benchmark-checker: setup ## time the checker on a generated history: MESSAGES=1000000 DAMAGE=clean|duplicated|lost|diverged
	@$(VENV)/python -m benchmarks.checker --messages $(MESSAGES) --damage $(DAMAGE) $(ARGS)

clean: ## remove leftovers of killed runs and caches of tools; keep runs/, .venv and Kafka's jars
	@if [ -x $(VENV)/acked ]; then $(VENV)/acked clean || true; fi
	@rm -rf build spark-warehouse .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
