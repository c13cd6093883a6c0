# Everything a newcomer types. Each target sets up what it needs by itself and says what it does.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests are compiled once, not by every process of every run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo demo-mixers demo-again test test-all laws-long laws-report test-gpu test-oldest test-newest parity known-answers choices docs pictures check format bench clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(INSTALLED)  ## make .venv and install into it

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Head to Head needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -d $(VENV) || { echo "==> making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@echo "==> installing the package and its tools into $(VENV) (about two minutes the first time)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --no-deps torchscale  # its retention alone is a reference of the tests
	@touch $(INSTALLED)

demo: $(INSTALLED)  ## a small study, four arms and five seeds, from nothing to its report
	@echo "==> h2h study demo --workers 2 --threads 1"
	@$(BIN)/h2h study demo --workers 2 --threads 1

MIXERS := $(patsubst conf/model/mixer/%.yaml,%,$(wildcard conf/model/mixer/*.yaml))
RECALL_MARKS := $(patsubst %,outputs/recall/.%,$(filter-out linformer,$(MIXERS)))

demo-mixers: $(INSTALLED) $(RECALL_MARKS)  ## train every mixer on associative recall and compare them
	@$(BIN)/h2h compare outputs/recall

outputs/recall/.%: | $(INSTALLED)
	@echo "==> h2h train experiment=associative_recall model/mixer=$*"
	@$(BIN)/h2h train experiment=associative_recall model/mixer=$* name=$*
	@touch $@

demo-again:  ## forget the demo's runs and train them again
	@rm -rf outputs/studies/demo
	@$(MAKE) --no-print-directory demo

test: $(INSTALLED)  ## every claim that needs no process of its own
	@echo "==> pytest on $(WORKERS) processes"
	@$(PYTEST) -n $(WORKERS) --dist worksteal --draws 3

# Two more than there are cores: tests that wait for processes leave room for others.
test-all: ALL_WORKERS ?= $(shell expr $(WORKERS) + 2)
test-all: $(INSTALLED)  ## all tests but those of a GPU (20 to 60 minutes on two cores)
	@echo "==> pytest on $(ALL_WORKERS) processes, the tests that start processes or train for long among them"
	@$(PYTEST) -n $(ALL_WORKERS) --dist worksteal -m 'not gpu and not whole'

DRAWS ?= 1000
laws-long: $(INSTALLED)  ## the drawn laws over DRAWS cases each, and those over every case, where the other tests try a dozen
	@$(PYTEST) -n $(WORKERS) --dist worksteal -m 'drawn or whole' --draws $(DRAWS)

laws-report: $(INSTALLED)  ## 500 drawn commands, each trained in five ways, counted in docs/same_numbers.md (half an hour)
	@OMP_NUM_THREADS=1 $(BIN)/python -W ignore tests/metamorphic/report.py --commands 500 --ways 5 --out docs/same_numbers.md

test-gpu: $(INSTALLED)  ## the tests that need a CUDA device
	@$(BIN)/python -m pytest -q -m gpu

test-oldest: PYTHON := python3.11
test-oldest: RESOLUTION := lowest-direct
test-oldest: .venv-oldest/.installed  ## the tests with the lowest versions that pyproject allows, on Python 3.11
	@echo "==> pytest with the lowest versions"
	@OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n $(WORKERS) --dist worksteal -q

test-newest: PYTHON := python3.13
test-newest: RESOLUTION := highest
test-newest: .venv-newest/.installed  ## the tests with the newest versions of everything, on Python 3.13
	@echo "==> pytest with the newest versions"
	@OMP_NUM_THREADS=1 .venv-newest/bin/python -m pytest -n $(WORKERS) --dist worksteal -q

.venv-%/.installed: pyproject.toml  # without constraints.txt, so with CUDA where pip's torch comes with it: gigabytes
	@echo "==> making .venv-$* with $$($(PYTHON) --version), resolution $(RESOLUTION)"
	@$(PYTHON) -m venv --clear .venv-$*
	@.venv-$*/bin/python -m pip install --quiet uv
	@.venv-$*/bin/uv pip install --quiet --python .venv-$*/bin/python --resolution $(RESOLUTION) --editable '.[dev]'
	@.venv-$*/bin/uv pip install --quiet --python .venv-$*/bin/python --no-deps torchscale
	@touch $@

parity: $(INSTALLED)  ## compare our models with published implementations, and write docs/parity.md and the figures of h2h list pretrained
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/parity -q -m "not process and not gpu" --write-parity docs/parity.md
	@echo "==> docs/parity.md"; cat docs/parity.md

choices: $(INSTALLED)  ## write docs/choices.md, every choice with its line
	@$(BIN)/python docs/catalogue.py

pictures: $(INSTALLED)  ## the pictures of pages in the documents, of the runs of make demo (needs Chromium)
	@$(BIN)/python tests/take_pictures.py

docs: $(INSTALLED)  ## the documentation site, in build/docs/html
	@$(BIN)/python docs/site/build_site.py

check: $(INSTALLED)  ## lint, formatting, types, import rules
	@echo "==> ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "==> mypy"; $(BIN)/mypy && $(BIN)/mypy benchmarks && $(BIN)/mypy docs/site && $(BIN)/mypy --config-file tests/mypy.ini
	@echo "==> import-linter"; $(BIN)/lint-imports

format: $(INSTALLED)  ## let ruff put the code in order
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

known-answers: $(INSTALLED)  ## ask again what the field knows: studies, and checks that are exact (a quarter of an hour on two cores)
	@$(BIN)/python benchmarks/known_answers.py

BENCHMARKS := $(filter-out benchmarks/known_answers.py benchmarks/long_rows.py benchmarks/speed_page.py benchmarks/whole_processes.py,$(wildcard benchmarks/*.py))

bench: $(INSTALLED)  ## the measurements that the README quotes, and docs/speed.md from those with a target
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@for file in $(BENCHMARKS); do echo "==> $$file"; $(BIN)/python $$file || echo "==> $$file: exit code $$?"; done
	@echo "==> h2h bench --peers"; $(BIN)/h2h bench --peers
	@$(BIN)/python benchmarks/speed_page.py

clean:  ## remove caches and builds, but neither .venv nor outputs
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
