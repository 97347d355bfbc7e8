# Two commands: `make demo` shows what Stoker does, `make test` proves it. Both set up all they need in .venv.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)  # one more than processors: tests wait, too
SEEDS ?= 300
SEED_BASE ?= 0

.PHONY: demo demo-cluster test campaigns planted frameworks-latest chaos attack check package site bench bench-scheduling docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train a digit classifier as a cluster, on this machine"
	@echo "make demo-cluster  the same idea on 13 machines that Ray orders: processes of this machine"
	@echo "make test    run every test but the campaigns (ARGS=--hypothesis-profile=anew: with examples that nobody has tried)"
	@echo "make campaigns  the tests that take long: clusters that lose machines and order them, the real gcloud by the pages (ARGS=--all: with further cases)"
	@echo "make planted  bugs that are planted on purpose, a few a room, and whether a test finds each"
	@echo "make frameworks-latest  the tests of frameworks, with their newest releases (an environment of its own, 3 GB)"
	@echo "make chaos   try to break it: a simulation, planted bugs, real faults, fuzzing (SEEDS=300 SEED_BASE=0 ARGS='--cycles 200')"
	@echo "make attack  what jobs and users can do to a server, for a minute each at levels 1 and 2 (ARGS='--seconds 10 --only pipes')"
	@echo "make check   formatting, lint and types"
	@echo "make package a wheel, a source archive and a bill of materials in dist/"
	@echo "make bench   measure against the budgets (make bench-NAME: one part)"
	@echo "make bench-scheduling  the scheduler on public traces (ARGS='--data DIR --seeds 42,43')"
	@echo "make site    the documentation as a site with search, in build/site"
	@echo "make docs    write the pages of docs/ that are drawn from the code"

demo: .venv/demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/digits/demo.sh

demo-cluster: .venv/demo-cluster
	@$(BIN)/python examples/gpu_cluster/autoscaled.py

test: check .venv/test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

RAY_TESTS := tests/live/test_ray*.py

campaigns: .venv/test  # clusters of Ray one after the other: 13 nodes beside others are too much for two processors
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m campaign --ignore-glob='$(RAY_TESTS)' $(ARGS)
	$(BIN)/python -m pytest -m campaign $(RAY_TESTS) $(ARGS)

planted: .venv/test
	$(BIN)/python -m tests.planted

LATEST := build/latest
FRAMEWORKS := tests/frameworks $(addprefix tests/live/test_,distribute.py frameworks.py keras_average.py checkpoint.py resume.py \
  resume_backends.py resume_tf_keras.py stored_checkpoints.py steps.py typical_programs.py)

frameworks-latest: .venv/test  # with the newest releases of frameworks, in an environment of its own: to be run now and then
	$(PYTHON) -m venv $(LATEST)
	$(LATEST)/bin/python -m pip install -qq --disable-pip-version-check --upgrade pip
	$(LATEST)/bin/python -m pip install -qq --disable-pip-version-check --upgrade -e '.[test]'
	$(LATEST)/bin/python -m pip install -qq --disable-pip-version-check --upgrade --no-deps tf-keras
	$(LATEST)/bin/python -m pip list | grep -iE '^(keras|tf.keras|tensorflow|torch|jax) ' || true
	$(LATEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile -m 'campaign or not campaign' --all $(FRAMEWORKS) $(ARGS)

chaos: .venv/chaos
	$(BIN)/python -m tests.chaos --seeds $(SEEDS) --seed-base $(SEED_BASE) $(ARGS)

attack: .venv/test  # as root, with bubblewrap; on this machine's loopback alone
	$(BIN)/python -m tests.attack $(ARGS)

check: .venv/test
	$(BIN)/ruff format --check --quiet src tests benchmarks docs examples
	$(BIN)/ruff check --quiet src tests benchmarks docs examples
	$(BIN)/mypy

DIST ?= dist
package: .venv/test  # a wheel, a source archive, and a bill of materials of what the wheel brings along
	rm -rf $(DIST) && mkdir -p $(DIST)
	$(BIN)/uv build --quiet --out-dir $(DIST) .
	$(BIN)/uv venv --quiet --python $(BIN)/python $(DIST)/environment
	$(BIN)/uv pip install --quiet --python $(DIST)/environment/bin/python -c constraints.txt $(DIST)/*.whl
	$(BIN)/uvx --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py environment --pyproject pyproject.toml \
	  --output-format JSON --output-file $(DIST)/stoker.cdx.json $(DIST)/environment/bin/python
	rm -rf $(DIST)/environment

SITE ?= build/site
site: .venv/test  # the documentation as a site, with search, to be read from the disk; every link in it leads somewhere
	PYTHONPATH=src $(BIN)/uvx --quiet --from sphinx==9.0.4 --with myst-parser==5.2.0 --with furo==2025.12.19 \
	  sphinx-build --fail-on-warning --keep-going --quiet -b html -c docs . $(SITE)
	@echo "it begins at $(SITE)/docs/index.html"

bench: .venv/bench
	$(BIN)/python -m benchmarks

bench-scheduling: .venv/test
	$(BIN)/python -m benchmarks.scheduling $(ARGS)

bench-%: .venv/bench
	$(BIN)/python -m benchmarks $*

docs: .venv/test
	$(BIN)/python -m docs.draw

.venv/base:
	@test -n "$(PYTHON)" || { echo "Stoker needs Python 3.11 or newer, and found none. Try: make PYTHON=/path/to/python3.12 demo"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv is missing. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "· making the environment .venv"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade pip
	@touch $@

.venv/demo: .venv/base pyproject.toml constraints.txt
	@echo "· installing Stoker and TensorFlow (about 1.5 GB; once)"
	$(INSTALL) -e '.[demo]'
	@touch $@

.venv/demo-cluster: .venv/demo
	@echo "· installing Ray (once)"
	$(INSTALL) -e '.[ray]'
	@touch $@

.venv/test: .venv/demo
	@echo "· installing what the tests need (PyTorch, JAX, …; once)"
	$(INSTALL) -e '.[test]'
	$(INSTALL) --no-deps tf-keras  # it would bring a second TensorFlow
	@touch $@

.venv/chaos: .venv/test
	@echo "· installing what the fuzzer is led by (atheris; once; without it the fuzzer goes on blindly)"
	-$(INSTALL) -e '.[chaos]'
	@touch $@

.venv/bench: .venv/test
	@echo "· installing what the benchmarks compare with (Ray; once)"
	$(INSTALL) -e '.[bench]'
	@touch $@

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
