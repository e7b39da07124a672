# Each target makes .venv when it is missing and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard cpp/* cpp/*/*) $(wildcard src/probprop/_kernel.pyi)
LAB := $(addprefix lab/,pyproject.toml CMakeLists.txt cpp/leapfrog.cpp)
CPP := cpp/*.hpp cpp/*/*.hpp cpp/*.cpp lab/cpp/*.cpp
INSTALLED := $(VENV)/.installed
COMMAND := $(VENV)/.command

.PHONY: demo test test-marked test-all lint format bench fuzz scale scale-out year out-of-core fashion docs sanitize stub wasm clean

demo: $(COMMAND)
	$(BIN)/probprop demo

# `test` and `test-marked` together run every test once, and so does `test-all`.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile
MARKED := slow or process or browser
test: $(INSTALLED)
	$(PYTEST) -m "not ($(MARKED))"

test-marked: $(INSTALLED)
	$(PYTEST) -m "$(MARKED)"

test-all: $(INSTALLED)
	$(PYTEST)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP)

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable "lab[field]"
	$(BIN)/python -m benchmarks

fuzz: $(INSTALLED)
	$(BIN)/python -m benchmarks.fuzz

scale: $(INSTALLED)
	$(BIN)/python -m benchmarks.scale

out-of-core: $(INSTALLED)
	$(BIN)/python -m benchmarks.out_of_core

scale-out: $(INSTALLED)
	$(BIN)/python -m benchmarks.scale_out

year: $(INSTALLED)
	$(BIN)/python -m benchmarks.year

fashion: $(INSTALLED)
	$(BIN)/python -m benchmarks.fashion

docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/python -m sphinx -W --keep-going -n -q docs docs/_build/html
	@echo "built docs/_build/html/index.html"

# The kernel tests under the address and undefined-behaviour sanitizers, in a virtual
# environment of its own that borrows the packages of .venv.
SANITIZE := .venv-sanitize
sanitize: $(INSTALLED)
	test -d $(SANITIZE) || $(PYTHON) -m venv $(SANITIZE)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> $$($(SANITIZE)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/borrow.pth
	$(SANITIZE)/bin/python -m pip install --quiet --no-deps --force-reinstall \
		--config-settings=cmake.define.PROBPROP_SANITIZE=ON \
		--config-settings=build-dir=build/sanitize .
	ASAN_OPTIONS=detect_leaks=0 \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
		$(SANITIZE)/bin/python -m pytest -q -p no:cacheprovider \
		tests/reference/activations/test_relu.py tests/reference/test_gamma.py tests/inference/test_oracle.py \
		tests/inference/test_parity.py tests/inference/test_listed.py tests/inference/test_train.py tests/reference/test_gradient.py tests/reference/test_sampled.py tests/reference/likelihoods/test_likelihood.py \
		tests/reference/likelihoods/test_scale.py tests/reference/test_scale_mixture.py \
		tests/distributions/test_one_member.py tests/distributions/test_heavy_tails.py tests/distributions/test_transformed_mixture.py

# The type stubs of the compiled modules, after a change of their bindings in cpp/.
stub: $(INSTALLED)
	$(BIN)/python -m nanobind.stubgen -m probprop._kernel -O src/probprop
	$(BIN)/python -m nanobind.stubgen -m probprop_lab.baselines._leapfrog -O lab/src/probprop_lab/baselines

# The kernel for pages, after a change in cpp/; tests/web compares it with the sources.
wasm: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable ".[wasm]"
	$(BIN)/python tools/build_wasm.py

clean:
	rm -rf $(VENV) $(SANITIZE) build dist lab/build lab/dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# What a user has, without the test tools.
$(COMMAND): $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable ".[cli]"
	touch $@

# Both distributions: probprop, and the laboratory in lab/.
$(INSTALLED): $(BIN)/python $(SOURCES) $(LAB)
	$(BIN)/python -m pip install --quiet --editable ".[test,lint,bench]" --editable "lab[baselines,data]"
	touch $@ $(COMMAND)
