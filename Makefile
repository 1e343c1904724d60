# Every target sets up what it needs; a fresh machine needs nothing but Python 3.11+.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
# What is imported is compiled once, also where the environment forbids it: hundreds of processes start.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test system-packages lint bench docs leaderboard clean

demo: $(VENV)/.core            ## compare schedulers in simulation, then run real jobs live
	@mkdir -p out
	@$(BIN)/shockwave simulate 'generated:jobs=120,span_hours=1.5' --gpus 32 \
	    --json out/demo.json --report out/demo.html
	@$(BIN)/python examples/live_demo.py --out out/live
	@echo "Open out/demo.html (the comparison) and out/live/report.html (the live run)."

test:                          ## everything that must hold
	@$(MAKE) --no-print-directory -j2 $(VENV)/.test system-packages
	@$(MAKE) --no-print-directory lint
	$(BIN)/pytest -n 4 --dist worksteal -q -rs  # more than cores: the longest tests mostly wait

system-packages:               # says first what it installs; NO_INSTALL=1 keeps it from it
	@sh tools/ensure-system-packages.sh

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

bench: $(VENV)/.test           ## speed, as ratios measured in one run; results in out/
	@mkdir -p out
	$(BIN)/python bench/simulation.py
	$(BIN)/python bench/planning.py
	$(BIN)/python bench/decisions.py
	$(BIN)/python bench/service.py
	$(BIN)/python bench/dashboard.py
	$(BIN)/python bench/restart.py
	$(BIN)/python bench/dispatch.py
	$(BIN)/python bench/latency.py
	$(BIN)/python bench/traces.py

docs: $(VENV)/.test            ## the documentation as pages, in out/site
	$(BIN)/mkdocs build --strict

leaderboard: $(VENV)/.core     ## all policies on generated workloads, as docs/leaderboard-standard.html
	$(PIP) install --no-compile --editable '.[server,milp]'
	@mkdir -p out
	$(BIN)/shockwave leaderboard --suite standard -o docs/leaderboard-standard.html --json out/leaderboard.json \
	    --cache out/leaderboard

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Shockwave needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml
	$(PIP) install --no-compile --editable '.[server]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(PIP) install --no-compile --editable '.[frameworks]'
	$(PIP) install --no-compile --editable '.[test]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
