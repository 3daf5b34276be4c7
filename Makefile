# The verbs of this project; .ci/run and pre-commit use the same.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
SAMPLE := tests/samples/shopping.py
NEOVIMS ?= 0.12 0.11

.PHONY: run test test-neovim test-vscode lint fix bench clean

run: $(VENV)/.run ## from a fresh clone to ghost text
	$(BIN)/tabahead models fetch smollm2-135m
	$(BIN)/tabahead complete $(SAMPLE):22:22

test: $(VENV)/.dev ## unit, lossless, conformance, e2e and latency tests
	$(BIN)/tabahead models fetch smollm2-135m
	$(BIN)/python -m pytest

test-neovim: $(VENV)/.clients ## the plugin in real Neovims; what that needs goes to out/clients
	PYTHON=$(BIN)/python tests/clients/neovim/set_up.sh out/clients $(NEOVIMS) & \
		$(BIN)/tabahead models fetch smollm2-135m && wait $$!
	NEOVIMS="$(NEOVIMS)" $(BIN)/python -m pytest --numprocesses 2 --dist loadscope \
		tests/clients/neovim

test-vscode: $(VENV)/.run ## the extension in a real VS Code; what that needs goes to out/clients
	$(BIN)/tabahead models fetch smollm2-135m
	PYTHON=$(abspath $(BIN)/python) tests/clients/vscode/set_up.sh
	rm -f out/clients/screenshots/vscode-*
	TABAHEAD_PYTHON=$(abspath $(BIN)/python) node --test --test-concurrency=1 \
		--test-reporter=spec tests/clients/vscode/*.test.js

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.run
	$(BIN)/tabahead models fetch smollm2-135m
	$(BIN)/tabahead bench startup
	$(BIN)/tabahead bench decode
	$(BIN)/tabahead bench lossless
	$(BIN)/tabahead bench replay

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[cpu,syntax]'
	touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable '.[cpu,syntax,dev]'
	touch $@

$(VENV)/.clients: pyproject.toml $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable '.[clients]'
	touch $@
