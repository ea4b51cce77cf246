VENV := .venv
BIN := $(VENV)/bin
PATIENTLY := sh scripts/patiently.sh
PIP := $(PATIENTLY) "still installing" $(BIN)/python -m pip --quiet --disable-pip-version-check
CODE := src tests benchmarks scripts
STRESS := tests/sandbox/test_hostile.py tests/sandbox/test_disarming.py tests/sandbox/test_swapping.py \
	tests/search/test_reach.py tests/authority/test_path_rules.py tests/files/test_recovery.py tests/test_escape.py tests/test_protected.py \
	tests/agents/test_kills.py tests/agents/test_rights.py tests/state/test_append_log.py \
	tests/surfaces/http/test_feed.py tests/agents/durable/test_workers.py tests/agents/durable/test_attacks.py \
	tests/processes/test_undoable.py tests/processes/test_killed_apply.py tests/surfaces/chat/test_chat.py

# program:Debian package, for programs that pip cannot install
SYSTEM_PACKAGES := git:git ps:procps
ifeq ($(shell uname),Linux)
SYSTEM_PACKAGES += bwrap:bubblewrap
# the same for programs that only the tests run
TEST_PACKAGES := chromium-headless-shell:chromium-headless-shell curl:curl libatomic.so.1:libatomic1 gopls:gopls \
	pg_ctlcluster:postgresql
# a desktop and programs to control; a library or service is given by one of its files
TEST_PACKAGES += Xvfb:xvfb openbox:openbox dbus-daemon:dbus-daemon /usr/libexec/at-spi-bus-launcher:at-spi2-core \
	/usr/lib/python3/dist-packages/gi:python3-gi Gtk-3.0.typelib:gir1.2-gtk-3.0 galculator:galculator xterm:xterm
endif
# the targets that do not need the test packages
PLAIN := help run tour docs release clean system venv compiled
PACKAGES := $(SYSTEM_PACKAGES) $(if $(filter-out $(PLAIN),$(MAKECMDGOALS)),$(TEST_PACKAGES))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s  %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: $(VENV)/.programs compiled ## for contributors: create .venv with hilt and everything that make test needs (1 GB)

.PHONY: run
run: $(VENV)/.run compiled ## serve the console with sample data
	@$(BIN)/python scripts/playground.py

.PHONY: tour
tour: $(VENV)/.run compiled ## run the tour in the terminal
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/tour.sh

CORES = $(shell getconf _NPROCESSORS_ONLN)
PYTEST = $(BIN)/python -m pytest -p tests.parallel --processes

# in CI the cache would only be written, never read
CHECK_TYPES = $(BIN)/mypy $(if $(CI),--cache-dir=/dev/null) $(CODE)

# Many tests wait for a timeout or another process, so two processes keep one core busy. Types are checked at the same
# time, because mypy and the start of the tests use one core each. Bytecode must be allowed, or every run would compile
# all tests again.
.PHONY: test
test: lint ## run the checks and the tests
	PYTHONDONTWRITEBYTECODE= $(PATIENTLY) "still testing" sh scripts/beside.sh "$(CHECK_TYPES)" \
		sh scripts/in_memory.sh $(PYTEST) $(shell expr $(CORES) \* 2)

.PHONY: quick
quick: setup ## run the tests that start no process
	PYTHONDONTWRITEBYTECODE= sh scripts/in_memory.sh $(PYTEST) $(CORES) -p tests.quick

.PHONY: check
check: lint ## check formatting, lint and types, and print the lines of each package
	$(CHECK_TYPES)
	@find src -name '*.py' -exec wc -l {} + | awk '$$2 != "total" { split($$2, path, "/"); \
		lines[path[4] ? path[3] "/" : "src/hilt"] += $$1; files[path[4] ? path[3] "/" : "src/hilt"]++; all += $$1; n++ } \
		END { for (name in lines) printf "%7d lines %4d modules  %s\n", lines[name], files[name], name | "sort -rn"; \
		close("sort -rn"); printf "%7d lines %4d modules  in all\n", all, n }'

.PHONY: lint
lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check

.PHONY: fix
fix: setup ## format, and apply lint fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: stress
stress: setup ## run the tests for hostile commands, races, crashes and properties hundreds of times
	HILT_STRESS=200 $(PYTEST) $(CORES) $(STRESS)
	HILT_STRESS=200 $(PYTEST) $(CORES) -m hypothesis $(addprefix --ignore=,$(STRESS))

.PHONY: bench
bench: setup ## run the benchmarks
	$(BIN)/python -m benchmarks

.PHONY: conformance
conformance: setup ## run the MCP conformance suite against hilt mcp
	$(BIN)/python -m tests.conformance

# A separate environment: neither hilt nor its tests depend on the site generator.
DOCS := build/docs-env

.PHONY: docs
docs: $(DOCS)/.installed ## build the documentation site in build/site, and check its links
	$(DOCS)/bin/python scripts/site.py

# a separate environment too
RELEASE := build/release

.PHONY: release
release: $(RELEASE)/.installed ## build a release in dist, and check it; PYTHONS lists the interpreters to test
	CLAUDE="node $(RELEASE)/npm/node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs" $(RELEASE)/bin/python -m scripts.release

.PHONY: picture
picture: setup ## record the animation of the README again
	$(BIN)/python -m scripts.recording build/tour.cast
	$(BIN)/node $(BIN)/npm install --prefix build/picture --ignore-scripts --no-audit --no-fund --loglevel=error svg-term-cli@2.1.1
	$(BIN)/node build/picture/node_modules/.bin/svg-term --in build/tour.cast --out docs/images/tour.svg --window

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

.PHONY: lock
lock: setup ## update the pinned requirements; UPGRADE=1 upgrades to the newest versions
	$(COMPILE) $(if $(UPGRADE),--upgrade) requirements/setup.in -o requirements/setup.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --extra web -c requirements/setup.txt -o requirements/run.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --all-extras requirements/dev.in \
		-c requirements/setup.txt -c requirements/run.txt -o requirements/dev.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) requirements/docs.in -o requirements/docs.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) requirements/release.in -c requirements/setup.txt -o requirements/release.txt
	sh requirements/programs.sh lock $(VENV) $(if $(UPGRADE),update,install)

.PHONY: assets
assets: setup ## bundle the console from console/ into the package, and list invisible characters
	sh requirements/programs.sh packages $(VENV) console
	$(BIN)/node console/characters.mjs
	$(BIN)/node console/build.mjs

.PHONY: clean
clean: ## remove .venv, caches and build output
	rm -rf $(VENV) build dist console/node_modules .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: system
system:
	@PYTHON="$(PYTHON)" sh requirements/system.sh programs $(if $(NO_VENV),python) $(PACKAGES)

.PHONY: venv
venv: system
	@PYTHON="$(PYTHON)" sh requirements/system.sh venv $(VENV)

# Compile now: if PYTHONDONTWRITEBYTECODE is set at run time, every start would compile again.
.PHONY: compiled
compiled: $(VENV)/.run
	@$(BIN)/python -m compileall -q src/hilt

# Create the environment from scratch if it is incomplete or its interpreter is missing.
NO_VENV := $(shell test -x $(BIN)/python && test -f $(VENV)/.setup || echo venv)

# In Python 3.11, venv installs setuptools, whose .pth file runs code at every start.
$(VENV)/.setup: requirements/setup.txt $(NO_VENV) | system
	@echo "Installing hilt into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/setup.txt
	@$(PIP) --quiet uninstall --yes setuptools
	@touch $@

$(VENV)/.run: requirements/run.txt pyproject.toml native/client.c scripts/native.py src/hilt/__init__.py src/hilt/choices.py $(VENV)/.setup
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing the development tools into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(DOCS)/.installed: requirements/docs.txt | $(VENV)/.setup
	@echo "Installing the site generator into $(DOCS)"
	@$(BIN)/python -m venv --clear $(DOCS)
	@$(DOCS)/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements/docs.txt
	@touch $@

$(RELEASE)/.installed: requirements/release.txt | $(VENV)/.setup
	@echo "Installing the release tools into $(RELEASE)"
	@$(BIN)/python -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements/release.txt
	@npm install --prefix $(RELEASE)/npm --ignore-scripts --no-audit --no-fund --loglevel=error \
		@anthropic-ai/claude-code@2.1.197 || echo "npm failed: the Claude Code plug-in will not be validated."
	@touch $@

$(VENV)/.programs: requirements/programs.sh requirements/package.json requirements/package-lock.json $(VENV)/.dev
	@echo "Installing the programs that the tests need into $(VENV)"
	@$(PATIENTLY) "still installing" sh requirements/programs.sh install $(VENV)
	@touch $@
