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
CORE := $(shell find csrc \( -path csrc/test -o -path csrc/bench \) -prune -o -print)
CXX_FILES := $(shell find csrc -name '*.cc' -o -name '*.h')
CHECKED := src/hemiola tests $(wildcard benchmarks)

.PHONY: help setup demo test test-all test-core sanitize mpi format lint stub tidy types clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1: \2/p' Makefile

setup: $(STAMP) ## the virtual environment .venv, with the package in it

demo: $(STAMP) ## the main commands, run on this machine
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh demo/run.sh

test: lint types test-core ## formatting, lint, types, the tests of the C++ runtime and all others that are not slow
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test-all: lint types tidy test-core ## the same with clang-tidy and the slow tests
	$(BIN)/python -m pytest -q -n 2

test-core: $(TOOLS_STAMP) ## the tests of the C++ runtime, without Python
	$(call RUN_CORE_TESTS,build/test-core)

sanitize: $(TOOLS_STAMP) ## the same with AddressSanitizer and UBSan, then with ThreadSanitizer
	$(call RUN_CORE_TESTS,build/sanitize-address,$(SANITIZED) -DCMAKE_CXX_FLAGS="$(DEBUG_FLAGS) $(ADDRESS_FLAGS)")
	$(call RUN_CORE_TESTS,build/sanitize-thread,$(SANITIZED) -DCMAKE_CXX_FLAGS="$(DEBUG_FLAGS) $(THREAD_FLAGS)")

mpi: $(STAMP) ## Open MPI and mpi4py, for hemiola bench --against mpi
	@set -e; \
	missing=""; \
	command -v mpirun >/dev/null || missing="$$missing openmpi-bin"; \
	command -v mpicc >/dev/null || missing="$$missing libopenmpi-dev"; \
	if [ -n "$$missing" ]; then $(INSTALL_MISSING); fi
	$(PIP) mpi4py

format: $(STAMP) ## formats the code and repairs what lint can repair
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## formatting and lint
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

stub: $(STAMP) ## src/hemiola/_core.pyi, from the core as it is built
	$(BIN)/python -m nanobind.stubgen -q -m hemiola._core -o src/hemiola/_core.pyi
	$(BIN)/ruff format -q src/hemiola/_core.pyi

tidy: $(STAMP) ## mistakes that clang-tidy finds in the C++ core
	$(call CONFIGURE_CORE,build/test-core)
	$(BIN)/python $(BIN)/run-clang-tidy.py -clang-tidy-binary $(BIN)/clang-tidy -quiet -hide-progress -j 2 \
	  -p build/test-core '/csrc/([a-z_]*|runtime/.*|simulator/.*|proof/.*|passes/.*|fusion/.*|lab/.*)\.cc$$'

types: $(STAMP) ## strict type checks
	$(BIN)/mypy $(CHECKED)

clean: ## removes everything made here
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Configures the C++ core and its tests in a folder with some options; then builds them and runs them.
define CONFIGURE_CORE
$(BIN)/cmake -S . -B $(1) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja --log-level=WARNING \
  -DHEMIOLA_TESTS=ON -DHEMIOLA_PYTHON=OFF $(2)
endef
define RUN_CORE_TESTS
$(CONFIGURE_CORE)
$(BIN)/cmake --build $(1)
$(BIN)/ctest --test-dir $(1) --output-on-failure --no-tests=error
endef
SANITIZED := -DCMAKE_BUILD_TYPE=Sanitized
DEBUG_FLAGS := -O1 -g -fno-omit-frame-pointer
ADDRESS_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all
THREAD_FLAGS := -fsanitize=thread

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

# torch comes before the package, whose extra allows a range: of the pinned version, a build for CPUs at hand will do.
# The tests on several hosts need `ip`; where it cannot be had, they are left out and say so.
$(TOOLS_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) scikit-build-core nanobind cmake ninja torch
	@PATH="$$PATH:/usr/sbin:/sbin"; missing=" iproute2"; command -v ip >/dev/null || ( $(INSTALL_MISSING) ) \
	  || echo "Without ip the tests on several hosts are left out."
	@touch $@

# Without build isolation the build folder is kept between installs, so only changed C++ files are compiled.
# An editable package is not compiled to byte code by pip, and not everywhere may Python write it when it runs.
$(STAMP): $(TOOLS_STAMP) CMakeLists.txt $(CORE)
	$(PIP) --no-build-isolation --editable '.[test,torch,estimator,jax]'
	$(BIN)/python -m compileall -q src/hemiola
	@touch $@
