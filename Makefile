# `make help` lists the targets. Every one of them sets up what it needs; a second run starts at once.
SHELL := /bin/bash
S ?= leader-az-isolated
LAB ?= embedded
ARGS ?=
MESSAGES ?= 1000000
DAMAGE ?= clean
VENV := .venv/bin
PYTEST := $(VENV)/python -m pytest
# Two workers, a file of tests at a time: what a file shares (a cluster, a session) is made once.
SIDE_BY_SIDE := -n 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help setup run-scenario run-all test test-all check clean benchmark-checker

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' Makefile

setup: ## .venv, system packages and Kafka's jars
	@bash harness/setup.sh

run-scenario: setup ## run one scenario: S=name LAB=embedded|compose ARGS=...
	@$(VENV)/acked run $(S) --lab $(LAB) $(ARGS)

run-all: setup ## run every scenario of the catalogue, three clusters side by side: ARGS=--filter=... --repeat=N
	@$(VENV)/acked run --all --lab $(LAB) $(ARGS)

test: setup ## prove the product, in under 15 minutes
	@$(PYTEST) $(SIDE_BY_SIDE) -m "not long" $(ARGS)

test-all: setup ## the long tests too
	@$(PYTEST) $(SIDE_BY_SIDE) $(ARGS)

check: setup ## lint, format, types, import rules
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .
	@$(VENV)/mypy
	@$(PYTEST) -q tests/unit/test_rooms.py

benchmark-checker: setup ## judge a made-up history: MESSAGES=1000000 DAMAGE=clean|duplicated|lost|diverged
	@$(VENV)/python -m benchmarks.checker --messages $(MESSAGES) --damage $(DAMAGE) $(ARGS)

clean: ## remove what killed runs left behind, and tools' caches; keeps runs/, .venv and the jars
	@if [ -x $(VENV)/acked ]; then $(VENV)/acked clean || true; fi
	@rm -rf build spark-warehouse .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
