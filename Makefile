# Every target sets up what it needs: a fresh clone, Python >= 3.11 and a C++ compiler are enough.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

VENV := .venv
BIN := $(VENV)/bin
TOOLS_STAMP := $(VENV)/tools.stamp
STAMP := $(VENV)/hemiola.stamp
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt

# Folders are listed too: their time changes when a file is added or removed.
CORE := $(shell find csrc)
CHECKED := src/hemiola tests $(wildcard benchmarks)

.PHONY: help setup demo test test-all format lint types clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1: \2/p' Makefile

setup: $(STAMP) ## the virtual environment .venv, with the package in it

demo: $(STAMP) ## the main commands, run on this machine
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh demo/run.sh

test: lint types ## formatting, lint, types and all tests that are not slow
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test-all: lint types ## the same with the slow tests
	$(BIN)/python -m pytest -q -n 2

format: $(STAMP) ## formats the Python code and repairs what lint can repair
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## formatting and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP) ## strict type checks
	$(BIN)/mypy $(CHECKED)

clean: ## removes everything made here
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Prints the first Python that is new enough; a name on PATH may be a shim that does not run.
define FIND_PYTHON
for candidate in python3 python3.13 python3.12 python3.11; do \
  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
    command -v $$candidate; break; \
  fi; \
done
endef

# Installs Debian's packages "$$missing" where that is possible, otherwise says what to install.
define INSTALL_MISSING
if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
  echo "Installing$$missing with apt-get"; \
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing; \
else \
  echo "Please install$$missing (the names of Debian's packages) and run make again." >&2; exit 1; \
fi
endef

$(BIN)/python:
	@set -e; \
	missing=""; \
	command -v "$${CXX:-c++}" >/dev/null || missing="$$missing g++"; \
	python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then \
	  missing="$$missing python3 python3-venv python3-dev"; \
	else \
	  "$$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	  "$$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null \
	    || missing="$$missing python3-dev"; \
	fi; \
	if [ -n "$$missing" ]; then $(INSTALL_MISSING); python=$$($(FIND_PYTHON)); fi; \
	if [ -z "$$python" ]; then echo "Hemiola needs Python 3.11 or newer, and none was found on PATH." >&2; exit 1; fi; \
	echo "Creating $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv $(VENV)

$(TOOLS_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) scikit-build-core nanobind cmake ninja
	@touch $@

# Without build isolation the build folder is kept between installs, so only changed C++ files are compiled.
$(STAMP): $(TOOLS_STAMP) CMakeLists.txt $(CORE)
	$(PIP) --no-build-isolation --editable '.[test]'
	@touch $@
