# Grappler GO from a bare checkout: `make demo` and `make test` do all the set-up themselves.
# Needed beforehand: Python 3.11, make, and apt-get for what is missing of the rest (`make deps`).

PYTHON ?= python3.11
# Optional parts of pyproject.toml to install; add gpu for TensorFlow's CUDA libraries.
EXTRAS ?= train,bench,dev
# C++ tests to run: a name without _test.cc, or a glob.
TEST ?= *
# Passed on to `python -m go_bench.demo` and to pytest.
DEMO_FLAGS ?=
PYTEST_FLAGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1

BIN := .venv/bin
# The checkout is installed for these options; made again when the requirements change.
INSTALLED := .venv/.installed-$(EXTRAS)
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help deps deps-bazel venv build test cc-test py-test demo lint lint-cc lint-py lint-types \
	format wheel wheel-check bazel bazel-test clean distclean

help:  ## Lists the targets.
	@sed -nE 's/^([a-z-]+):.*##  ?(.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# Installs $$missing, a list of Debian packages; says so.
define install_missing
if [ -z "$$missing" ]; then \
	echo "$@: nothing to install"; \
elif ! command -v apt-get >/dev/null; then \
	echo "$@: missing$$missing (Debian's names), and no apt-get to install it with" >&2; exit 1; \
else \
	echo "$@: installing Debian packages:$$missing"; \
	$(SUDO) apt-get update -qq </dev/null && \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $$missing </dev/null; \
fi
endef

deps:  ## Installs what is missing of g++, GoogleTest and Python 3.11, from Debian's packages.
	@missing=; \
	command -v g++ >/dev/null || missing="$$missing g++"; \
	[ -e /usr/include/gtest/gtest.h ] || missing="$$missing libgtest-dev"; \
	[ -e /usr/include/gmock/gmock.h ] || missing="$$missing libgmock-dev"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		missing="$$missing $(PYTHON) $(PYTHON)-venv"; \
	$(install_missing)

deps-bazel:
	@missing=; \
	command -v bazel >/dev/null || missing="$$missing bazel-bootstrap"; \
	$(install_missing)

venv: $(INSTALLED)  ## Makes .venv with all Python packages and the checkout itself (editable).

# The checkout is installed without compiling: `make lint` needs no C++, `make build` follows.
$(INSTALLED): pyproject.toml | deps
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@echo "venv: installing Python packages into .venv (minutes the first time)"
	@$(BIN)/python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
	o = p['project']['optional-dependencies']; \
	print(*p['build-system']['requires'], *p['project']['dependencies'], \
	*(r for e in '$(EXTRAS)'.split(',') for r in o[e]), sep='\n')" > .venv/requirements.txt
	@$(BIN)/python -m pip install -q --progress-bar off -r .venv/requirements.txt
	@GRAPPLER_GO_SKIP_CC=1 $(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch '$@'

build: venv  ## Compiles the C++ into grappler_go/_lib/ (only what changed).
	@$(BIN)/python setup.py -q build_cc

test: cc-test py-test  ## Builds, then runs the C++ and the Python tests.

cc-test: venv  ## Builds and runs the C++ tests (TEST=op_graph: one file).
	@$(BIN)/python setup.py -q test_cc --only '$(TEST)'

# Training needs Keras 2, all else is tested with TensorFlow's own: two processes. With flags that
# select tests, one of the two may have none (status 5).
NONE_IS_RIGHT = $(if $(PYTEST_FLAGS),|| [ $$? = 5 ])

py-test: build  ## Runs the Python tests (PYTEST_FLAGS='-k name').
	@$(BIN)/python -m pytest --ignore-glob='*/test_go_train_*' $(PYTEST_FLAGS) $(NONE_IS_RIGHT)
	@TF_USE_LEGACY_KERAS=1 $(BIN)/python -m pytest tests/test_go_train_*.py \
		$(PYTEST_FLAGS) $(NONE_IS_RIGHT)

demo: build  ## Optimises and measures RNNLM and Inception-v3 on two devices (DEMO_FLAGS=...).
	@$(BIN)/python -m go_bench.demo $(DEMO_FLAGS)

lint: lint-cc lint-py lint-types  ## Checks format, style and types.

lint-cc: venv
	@$(BIN)/clang-format --dry-run -Werror cc/*.h cc/*.cc

lint-py: venv
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo "Python format: run 'make format'" >&2; exit 1; }

lint-types: venv
	@$(BIN)/mypy

format: venv  ## Formats C++ and Python.
	@$(BIN)/clang-format -i cc/*.h cc/*.cc
	@$(BIN)/ruff check --quiet --fix-only
	@$(BIN)/ruff format --quiet

wheel: venv  ## Builds the wheel into dist/.
	@rm -rf dist
	@$(BIN)/python -m pip wheel -q --no-deps -w dist .
	@ls dist

# Beside TensorFlow in a fresh environment, which sees neither the checkout nor its C++ build.
wheel-check: wheel  ## Installs the wheel into a fresh environment and enables the pass there.
	@rm -rf build/wheel_check
	@$(BIN)/python -m venv --without-pip build/wheel_check
	@$(BIN)/python -c "import importlib.util as u, os; \
	print(os.path.dirname(os.path.dirname(u.find_spec('tensorflow').origin)))" \
		> "$$(build/wheel_check/bin/python -c 'import site; print(site.getsitepackages()[0])')/base.pth"
	@$(BIN)/python -m pip --python build/wheel_check/bin/python install -q --no-deps \
		--ignore-installed dist/*-py3-none-*.whl
	@cd build/wheel_check && bin/python -c "import grappler_go; \
		assert '/wheel_check/' in grappler_go.__file__, grappler_go.__file__; \
		grappler_go.enable(); assert grappler_go.is_enabled(); print('wheel-check: the pass is enabled')"

bazel: venv deps-bazel  ## Builds all Bazel targets, offline.
	@bazel build //...

bazel-test: bazel  ## Runs the C++ tests through Bazel.
	@bazel test //...

clean:  ## Removes what was built.
	@[ ! -L build/bazel-out ] || bazel clean --expunge
	@rm -rf build dist *.egg-info grappler_go/_lib .mypy_cache .pytest_cache .ruff_cache

distclean: clean  ## Removes .venv too.
	@rm -rf .venv
