# All tasks of this repository. Each target does its own setup; the work itself is in scripts/,
# where shellcheck can check it.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
.PHONY: help build test test-quick soak php programs demo lint format bench crash fuzz loom miri sanitize dist install clean

# The prefix for `make install`. DESTDIR is prepended to it.
PREFIX ?= /usr/local
export PREFIX DESTDIR

# The duration of `make soak` in minutes.
MINUTES ?= 15

# The table that `make bench` measures: core, types, feeds, python, php, everyday, server, cache,
# objects, streams, scripts,
# growth, links or durable.
TABLE ?= core

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build target/release/undercroft and a .venv/bin/python that imports undercroft
	@scripts/build.sh

test: ## Run every test: Rust, C, Python, PHP, samples, repository rules (25 minutes on two cores)
	@scripts/test.sh

test-quick: ## Run the tests of changed sources, and as many others as fit into 2 minutes after compiling
	@scripts/test.sh --quick

soak: ## Run storms, kill tests and random tests with new seeds for MINUTES (default 15), continuing the last soak
	@scripts/soak.sh --minutes "$(MINUTES)"

php: ## Test the PHP client, on Redis servers and on `undercroft serve`
	@scripts/php.sh

programs: ## Run other people's programs (RQ, Celery, Django ...) on redis-server, served, embedded
	@scripts/programs.sh

demo: ## Run the main use case on real input: many processes, one store, one of them killed
	@scripts/demo.sh

lint: ## Check format, lints and types without changing anything
	@scripts/lint.sh

format: ## Rewrite the sources in the repository's format
	@scripts/format.sh

bench: ## Measure one table together with its peers: make bench TABLE=core
	@scripts/bench.sh "$(TABLE)"

crash: ## Run the whole kill test: die at every machine instruction, recover, check
	@scripts/crash.sh

fuzz: ## Fuzz every target for FUZZ_SECONDS (default 60) each, guided by coverage
	@scripts/fuzz.sh

loom: ## Explore the loom models of locks, version counters and slots
	@scripts/loom.sh

sanitize: ## Fuzz scripts with a Lua built with AddressSanitizer and UBSan
	@scripts/sanitize.sh

miri: ## Run the reader and writer of the wire format under miri
	@scripts/miri.sh

dist: ## Build a wheel for Linux on x86-64 and a source distribution in target/dist/
	@scripts/packaging/dist.sh

install: ## Install the C library and its header: make install PREFIX=/usr/local
	@scripts/packaging/install.sh

clean: ## Remove target/ and .venv/
	@rm -rf target .venv
