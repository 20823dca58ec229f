# SPDX-License-Identifier: GPL-3.0-or-later
# Every habit of the project is one target; `make help` lists them.

VENV   := .venv
STAMP  := $(VENV)/.stamp
PYTHON ?=
PATH_RUN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python
RUN    := $(PATH_RUN) -m
SETUP  := python3 scripts/setup.py $(if $(PYTHON),--python "$(PYTHON)")
PYTEST = $(RUN) pytest $(MARKED) $(if $(K),-k "$(K)") $(ARGS)

# Without byte code each of the many short programs that tests start would be compiled anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lint sanity unit faults contract e2e smoke molecule vm bench test proof demo up down ee catalogue dist lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Create .venv from the hash-pinned requirements (PYTHON=... picks an interpreter)
	@$(SETUP)

$(STAMP): requirements/test.txt scripts/setup.py
	@$(SETUP)

lint: $(STAMP) ## Run ruff, mypy, yamllint, ansible-lint and ansible-test sanity
	@$(RUN) scripts.lint

sanity: $(STAMP) ## Run ansible-test sanity alone
	@$(RUN) scripts.sanity

# What only `make proof` runs is left out, unless ARGS says otherwise: ARGS="-m exhaustive".
unit faults contract: MARKED := -m "not exhaustive"

unit: $(STAMP) ## Run the unit tests (K=expression selects, ARGS=... goes to pytest)
	@$(PYTEST) -n auto tests/unit

# A worker that is done takes over from the other one.
faults: $(STAMP) ## Kill every operation at each of its effects and run it again; one test per error code
	@$(PYTEST) -n auto --dist worksteal tests/faults

e2e: $(STAMP) ## Run the end-to-end tests on the testbed (K=expression selects, ARGS=... goes to pytest)
	@$(PYTEST) tests/e2e

contract: $(STAMP) ## Test the emulated Azure through the real Azure SDK and the modules
	@$(PYTEST) tests/contract

molecule: $(STAMP) ## Run the molecule scenarios (S="debian12 debian13" selects)
	@$(PATH_RUN) molecule/run.py $(S)

vm: $(STAMP) ## See what only a kernel of its own shows, on emulated machines (hours on two processors; K=expression selects)
	@$(PYTEST) -v -n auto --dist loadfile --no-loadscope-reorder tests/vm

bench: $(STAMP) ## Measure joins against the bare floor (N=rounds, 5)
	@$(RUN) tests.bench $(if $(N),--rounds "$(N)")

# They mostly wait: two at a time, on one testbed.
smoke: $(STAMP) ## Run the journeys of users that must never break (tests/unit/test_smoke.py lists them)
	@$(PYTEST) -n 2 -m smoke tests/e2e

test: $(STAMP) ## The gate: run lint, unit, faults and contract tests and the end-to-end smoke tests
	@$(RUN) scripts.test lint unit faults contract smoke

proof: $(STAMP) ## Run all but make vm, or go on with it (P="e2e/test_join faults" AGAIN=1 LIST=1 SINCE=REV)
	@$(RUN) scripts.proof $(if $(SINCE),--since "$(SINCE)") $(if $(LIST),--list) $(if $(AGAIN),--again) \
	  $(if $(ALLOW_UNREACHABLE),--allow-unreachable) $(P)

demo: $(STAMP) ## See a machine become a Ready node, run a pod, and be uninstalled again
	@$(RUN) testbed.demo

up: $(STAMP) ## Start the testbed: a real cluster
	@$(RUN) testbed up

down: $(STAMP) ## Stop the testbed
	@$(RUN) testbed down

ee: $(STAMP) ## Build the execution environment of AWX as an image, with ansible-builder
	@$(RUN) testbed ee

catalogue: $(STAMP) ## Refresh the catalogue of versions and digests
	@$(RUN) scripts.catalogue

dist: $(STAMP) ## Build the aks-flex-node command and the collection into dist/
	@$(RUN) scripts.build_agent
	@$(RUN) scripts.build_collection

lock: $(STAMP) ## Resolve requirements/*.in again into hash-pinned requirements/*.txt
	@$(RUN) scripts.lock

clean: ## Remove what was built (.venv stays)
	@rm -rf build dist .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache
