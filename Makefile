VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
CODE := src tests benchmarks scripts
STRESS := tests/sandbox/test_hostile.py tests/sandbox/test_disarming.py tests/sandbox/test_swapping.py \
	tests/search/test_reach.py tests/authority/test_path_rules.py tests/files/test_recovery.py tests/test_escape.py tests/test_protected.py \
	tests/agents/test_kills.py tests/agents/test_rights.py tests/state/test_append_log.py \
	tests/surfaces/http/test_feed.py tests/agents/durable/test_workers.py tests/agents/durable/test_attacks.py

# program:Debian package, for programs that pip cannot install
SYSTEM_PACKAGES := git:git ps:procps
ifeq ($(shell uname),Linux)
SYSTEM_PACKAGES += bwrap:bubblewrap
# the same for programs that only the tests run
TEST_PACKAGES := gopls:gopls pg_ctlcluster:postgresql
endif

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s  %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: $(VENV)/.programs compiled ## create .venv with hilt and the development tools

.PHONY: run
run: $(VENV)/.run compiled ## play the tour
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/tour.sh

# Many tests wait, for a timeout or another process: two workers keep a core busy. Bytecode must be allowed, or each
# worker would compile all tests again.
WORKERS = $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 2)

.PHONY: test
test: check ## run the checks, then the tests
	PYTHONDONTWRITEBYTECODE= sh scripts/in_memory.sh $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: check
check: setup ## check formatting, lint and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy $(CODE)

.PHONY: fix
fix: setup ## format, and fix what lint can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: stress
stress: setup ## run the tests of hostile commands, races, crashes and properties hundreds of times
	HILT_STRESS=200 $(BIN)/python -m pytest -n auto $(STRESS)
	HILT_STRESS=200 $(BIN)/python -m pytest -n auto -m hypothesis $(addprefix --ignore=,$(STRESS))

.PHONY: bench
bench: setup ## run the benchmarks
	$(BIN)/python -m benchmarks

.PHONY: conformance
conformance: setup ## run the MCP conformance suite against hilt mcp
	$(BIN)/python -m tests.conformance

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

.PHONY: lock
lock: setup ## update the pinned requirements; UPGRADE=1 takes the newest versions
	$(COMPILE) $(if $(UPGRADE),--upgrade) requirements/setup.in -o requirements/setup.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --extra tui -c requirements/setup.txt -o requirements/run.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --all-extras requirements/dev.in \
		-c requirements/setup.txt -c requirements/run.txt -o requirements/dev.txt
	sh requirements/programs.sh lock $(VENV) $(if $(UPGRADE),update,install)

.PHONY: clean
clean: ## remove .venv, caches and build output
	rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: system
system:
	@sh requirements/system.sh programs $(SYSTEM_PACKAGES)

.PHONY: testsystem
testsystem:
	@sh requirements/system.sh programs $(TEST_PACKAGES)

.PHONY: venv
venv: system
	@PYTHON="$(PYTHON)" sh requirements/system.sh venv $(VENV)

# Compiled here, because PYTHONDONTWRITEBYTECODE may be set at run time, and then every start would compile.
.PHONY: compiled
compiled: $(VENV)/.run
	@$(BIN)/python -m compileall -q src/hilt

# Create the environment from scratch if it is incomplete or its interpreter is gone.
NO_VENV := $(shell test -x $(BIN)/python && test -f $(VENV)/.setup || echo venv)

# Python 3.11 adds setuptools, whose .pth file runs code at every start.
$(VENV)/.setup: requirements/setup.txt $(NO_VENV) | system
	@echo "Installing hilt into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/setup.txt
	@$(PIP) --quiet uninstall --yes setuptools
	@touch $@

$(VENV)/.run: requirements/run.txt pyproject.toml native/client.c scripts/native.py src/hilt/__init__.py $(VENV)/.setup
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run | testsystem
	@echo "Installing the development tools into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.programs: requirements/programs.sh requirements/package.json requirements/package-lock.json $(VENV)/.dev
	@echo "Installing the programs that the tests run into $(VENV)"
	@sh requirements/programs.sh install $(VENV)
	@touch $@
