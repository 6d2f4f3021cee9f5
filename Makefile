# make run | test | check | bench | snapshots | pictures | clean
# A fresh machine needs Python 3.10 or newer, make and a C compiler; everything else goes into $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
URLS ?=
ARGS ?=

.PHONY: run test check format bench snapshots pictures clean

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.dev: pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt --editable .
	touch $@ $(VENV)/.run

run: $(VENV)/.run
	@$(BIN)/infertop $(ARGS) $(URLS)

# Three at a time on two cores: of 560 s, one at a time, 300 are spent waiting for real clocks and processes.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/contracts -q

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python -m tests.bench $(ARGS)

# The only way to accept new screens: look at each change before it is committed.
snapshots: $(VENV)/.dev
	@test -z "$$(git status --porcelain -- tui themes tests)" || { echo "commit the code first, then accept its screens"; exit 1; }
	$(BIN)/python -m pytest tests/ui --snapshot-update

# The README's pictures are some of those screens; they need no environment of ours.
pictures:
	$(PYTHON) -m tests.ui.pictures

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .snapshot-report.html
