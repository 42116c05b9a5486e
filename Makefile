# Everything a person needs, from a clean clone on a machine with Python 3.11 and gcc:
#   make demo    creates the environment, installs, compiles four real models, generates text, and trains
#   make test    creates the environment, installs, runs the tests
#   make smoke   runs a few tests of every layer, in less than a minute
VENV := .venv
PY := $(VENV)/bin/python
MODELS ?=

.PHONY: help install demo test smoke test-all test-gpu-simulated test-pythons test-torches sanitize lint docs bench bench-gpu wheels clean

help:
	@sed -n 's/^#   //p' Makefile; echo "more:    make test-all | test-gpu-simulated | test-pythons | test-torches | sanitize | lint | docs | bench | bench-gpu | wheels | clean"

install:
	@.ci/install

demo: install
	@$(PY) examples/demo.py $(MODELS)
	@$(PY) examples/train.py digits

test:
	@.ci/run

smoke:
	@.ci/smoke

test-all: install test-pythons
	@$(PY) -m pytest -m "slow or not slow"

test-gpu-simulated: install
	@.ci/triton --whole

test-pythons:
	@.ci/pythons

test-torches:
	@.ci/torches

sanitize: install
	@.ci/sanitize

lint: install
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

docs:
	@.ci/docs

bench: install
	@$(PY) -m benchmarks

bench-gpu: install
	@$(PY) -m pip install -q "triton>=3.7"
	@$(PY) -m benchmarks.gpu --save

wheels:
	@.ci/wheels

clean:
	rm -rf $(VENV) $(VENV)-* build dist src/*.egg-info
	find src -name '*.so' -delete
