# Each target makes .venv when it is missing and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard cpp/* cpp/*/*) $(wildcard src/probprop/_kernel.pyi)
LAB := $(addprefix lab/,pyproject.toml CMakeLists.txt cpp/leapfrog.cpp)
CPP := cpp/*.hpp cpp/*/*.hpp cpp/*.cpp lab/cpp/*.cpp tools/*.cpp
INSTALLED := $(VENV)/.installed
COMMAND := $(VENV)/.command

.PHONY: demo test test-all lint format docs bench generated test-marked sanitize lowest newest clean

# ---- What a person needs

demo: $(COMMAND)
	$(BIN)/probprop demo

# `test` and `test-marked` together run every test once, and so does `test-all`.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile
MARKED := slow or process or browser or lab
test: $(INSTALLED)
	$(PYTEST) -m "not ($(MARKED))"

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

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -n -q docs docs/_build/html
	@echo "built docs/_build/html/index.html"

bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable "lab[field]"
	$(BIN)/python -m benchmarks

# What is checked in and made from cpp/, after a change there: the kernel for pages, and the type
# stubs of the compiled modules. Tests say when they are not current.
generated: $(INSTALLED)
	$(BIN)/python tools/build_wasm.py
	$(BIN)/python -m nanobind.stubgen -m probprop._kernel -O src/probprop
	$(BIN)/python -m nanobind.stubgen -m probprop_lab.baselines._leapfrog -O lab/src/probprop_lab/baselines

# ---- What .ci/run needs too

test-marked: $(INSTALLED)
	$(PYTEST) -m "$(MARKED)"

# The kernel tests under the address and undefined-behavior sanitizers, in a virtual
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
		tests/inference/test_parity.py tests/inference/test_listed.py tests/inference/test_train.py tests/inference/test_relevance.py tests/reference/test_gradient.py tests/reference/test_sampled.py tests/reference/likelihoods/test_likelihood.py \
		tests/reference/likelihoods/test_scale.py tests/reference/test_scale_mixture.py \
		tests/distributions/test_one_member.py tests/distributions/test_heavy_tails.py tests/distributions/test_transformed_mixture.py

# Smoke tests of every extra: with the lowest versions that pyproject.toml allows, and with the
# newest ones on the newest Python that is here.
lowest newest:
	$(PYTHON) tools/versions.py $@

clean:
	rm -rf $(VENV) $(SANITIZE) .venv-lowest .venv-newest build dist lab/build lab/dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# What a user has, without the test tools.
$(COMMAND): $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable ".[cli]"
	touch $@

$(VENV)/.docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

# Both distributions: probprop, and the laboratory in lab/.
$(INSTALLED): $(BIN)/python $(SOURCES) $(LAB)
	$(BIN)/python -m pip install --quiet --editable ".[test,lint,bench]" --editable "lab[baselines,data]"
	touch $@ $(COMMAND)
